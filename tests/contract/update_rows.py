"""Rows on updates: what never changes, which part of an object is whose, and fields that nobody knows."""

from collections.abc import Iterator
from typing import Any

from attrs import evolve
from tests.contract.row import Row, cut, put, thing
from tests.contract.spec_rows import CLAIM, GOODPUT, STATIC, TRACE

from dgdr_retune.api import REQUEST, RUN, Kind

Json = Any

OVERRIDES: Json = put(
    GOODPUT, "aisimulate.inputOverrides", {"engine": {"mode": "aggregated", "n": 1}, "router": {"policy": "kv_router"}}
)
DEFAULTED: Json = put(TRACE, "workload.trace.format", "Dynamo") | {
    "objective": {"mode": "Optimize", "metric": "Throughput"},
    "search": {"budget": {"maxRounds": 20, "parallelEvaluations": 16}},
    "recommendation": {"maxCandidates": 5},
    "aisimulate": {"generator": "aic"},
}


def rows() -> Iterator[Row]:
    """Every row on an update."""
    yield from _immutable_runs()
    yield from _requests_change()
    yield from _parts()
    yield from _nested_deeply()


def update(kind: Kind, note: str, old: Json, new: Json, **more: Any) -> Row:
    """A row on an update from one specification to another."""
    return Row(
        id=f"{kind.short} update {note}",
        kind=kind,
        operation="update",
        object=thing(kind, new),
        old=thing(kind, old),
        **more,
    )


def immutable(kind: Kind, note: str, old: Json, new: Json, *, refused: bool = True, **more: Any) -> Row:
    """A row on an update of a specification that never changes."""
    return update(
        kind,
        f"immutable: {note}",
        old,
        new,
        constraint="spec:spec is immutable",
        refused="spec is immutable" if refused else "",
        field="spec" if refused else "",
        **more,
    )


def _immutable_runs() -> Iterator[Row]:
    yield immutable(RUN, "nothing changes", OVERRIDES, OVERRIDES, refused=False)
    for path, value in (
        ("modelRef.name", "other/model"),
        ("modelRef.revision", "main"),
        ("backends", ["vllm", "sglang"]),
        ("image", "registry.example/planner:1.7.0"),
        ("hardware.gpu.budget", 3),
        ("workload.static.isl", 1025),
        ("objective.metric", "Goodput"),
        ("objective.sla.ttftMs", 501),
        ("search", {"budget": {"maxRounds": 21, "parallelEvaluations": 16}}),
        ("recommendation.maxCandidates", 6),
        ("aisimulate.generator", "direct"),
        ("aisimulate.inputOverrides.engine.mode", "disaggregated"),
        ("aisimulate.inputOverrides.engine.n", 2),
        ("aisimulate.inputOverrides.engine.n", "1"),
        ("aisimulate.inputOverrides.engine.more", 1),
        ("aisimulate.inputOverrides.engine.none", None),
        ("aisimulate.inputOverrides.traffic", None),
        ("aisimulate.inputOverrides.router", None),
    ):
        yield immutable(RUN, f"{path} {value!r}", OVERRIDES, put(OVERRIDES, path, value))
    for path in ("objective", "objective.sla", "aisimulate", "aisimulate.inputOverrides.router"):
        yield immutable(RUN, f"without {path}", OVERRIDES, cut(OVERRIDES, path))
    renamed = put(cut(OVERRIDES, "aisimulate.inputOverrides.router"), "aisimulate.inputOverrides.router_", {})
    yield immutable(
        RUN, "a key of inputOverrides is renamed", put(OVERRIDES, "aisimulate.inputOverrides.router", {}), renamed
    )
    inner = put(cut(OVERRIDES, "aisimulate.inputOverrides.engine.n"), "aisimulate.inputOverrides.engine.m", 1)
    yield immutable(RUN, "a key below inputOverrides is renamed", OVERRIDES, inner)
    reordered = put(OVERRIDES, "backends", ["sglang", "vllm"])
    yield immutable(RUN, "backends in another order", put(OVERRIDES, "backends", ["vllm", "sglang"]), reordered)
    default = put(STATIC, "objective", {"mode": "Optimize", "metric": "Throughput"})
    yield immutable(RUN, "a default is written out", STATIC, default, refused=False)
    whole_number = put(OVERRIDES, "objective.sla.ttftMs", 500.0)
    yield evolve(
        immutable(RUN, "no specification", OVERRIDES, OVERRIDES),
        object=cut(thing(RUN, OVERRIDES), "spec"),
        refused="Required value",
    )
    yield immutable(RUN, "a number is written as a whole float", OVERRIDES, whole_number, refused=False)
    yield evolve(
        immutable(RUN, "an integer is written as a whole float", OVERRIDES, put(OVERRIDES, "hardware.gpu.budget", 2.0)),
        refused="spec",
        field="",
    )
    free_float = put(OVERRIDES, "aisimulate.inputOverrides.engine.n", 1.0)
    yield immutable(RUN, "a free number is written as a whole float", OVERRIDES, free_float)


def _requests_change() -> Iterator[Row]:
    for path, value in (("workload.static.isl", 1), ("aisimulate.inputOverrides", {"a": 1}), ("image", "x")):
        yield update(REQUEST, f"changes: {path}", OVERRIDES, put(OVERRIDES, path, value), constraint=":mutable")
    to_trace = STATIC | {"workload": TRACE["workload"]}
    yield update(REQUEST, "changes: from static to trace", STATIC, to_trace, constraint=":mutable")
    yield update(
        REQUEST,
        "changes: a fault is new",
        STATIC,
        put(STATIC, "hardware.gpu.budget", 0),
        constraint=":mutable",
        refused="should be greater than or equal to 1",
        field="spec.hardware.gpu.budget",
    )


def _parts() -> Iterator[Row]:
    active = {"observedGeneration": 1, "activeRunRef": {"name": "qwen-run-1"}}
    made = Row(
        id="dgdr create with a status: it is dropped",
        kind=REQUEST,
        operation="create",
        object=thing(REQUEST, STATIC, {"observedGeneration": "wrong"}),
        constraint=":status",
        stored={"status": None},
    )
    yield made
    yield Row(
        id="dgdr update with a status: the stored one stays",
        kind=REQUEST,
        operation="update",
        object=thing(REQUEST, put(STATIC, "image", "x"), {"observedGeneration": -1}),
        old=thing(REQUEST, STATIC, active),
        constraint=":status",
        stored={"status": active},
    )
    yield Row(
        id="dgdr update without a status: the stored one stays",
        kind=REQUEST,
        operation="update",
        object=thing(REQUEST, STATIC),
        old=thing(REQUEST, STATIC, active),
        constraint=":status",
        stored={"status": active},
    )
    for kind in (REQUEST, RUN):
        yield Row(
            id=f"{kind.short} update status with another spec: the stored one stays",
            kind=kind,
            operation="update status",
            object=thing(kind, put(OVERRIDES, "hardware.gpu.budget", 0), {}),
            old=thing(kind, OVERRIDES),
            constraint=":status",
            stored={"status": {}},
        )
    for strict in (True, False):
        yield from _unknown_fields(strict=strict)


def _unknown_fields(*, strict: bool) -> Iterator[Row]:
    for kind, spec in ((REQUEST, TRACE), (RUN, TRACE)):
        for path in ("typo", "modelRef.nane", "hardware.gpu.count", f"{CLAIM}.path", "workload.trace.uri"):
            yield Row(
                id=f"{kind.short} create with unknown {path} {'strict' if strict else 'ignore'}",
                kind=kind,
                operation="create",
                object=thing(kind, put(spec, path, "x")),
                refused=f'unknown field "spec.{path}"' if strict else "",
                strict=strict,
                constraint=":pruning",
                stored={}
                if strict
                else {"spec": put(DEFAULTED | {"workload": TRACE["workload"]}, "workload.trace.format", "Dynamo")},
            )


def _nested_deeply() -> Iterator[Row]:
    """A server holds what `validate()` does not let come in; it can still be changed elsewhere, mended and let go."""
    deep: Json = {}
    for _ in range(110):
        deep = {"a": deep}
    levels = "levels deep"
    spec = put(STATIC, "aisimulate.inputOverrides", deep)
    for kind in (REQUEST, RUN):
        held = put(thing(kind, spec), "metadata.labels", {"a": "b"})
        for operation, new in (
            ("update", put(held, "metadata.labels", {"a": "c"})),
            ("update status", held | {"status": {"conditions": []}}),
        ):
            yield Row(
                id=f"{kind.short} {operation} beside what is nested deeply",
                kind=kind,
                operation=operation,
                object=new,
                old=held,
                warned=levels,
                constraint=":ratcheting",
            )
    mended = put(STATIC, "aisimulate.inputOverrides", {})
    yield update(REQUEST, "what is nested deeply is mended", spec, mended, constraint=":ratcheting")
    yield immutable(RUN, "what is nested deeply goes", spec, mended)
