"""Rows on updates: what never changes, what was stored before a rule existed, and which part of an object is whose."""

from collections.abc import Iterator
from typing import Any

from attrs import evolve
from tests.contract.row import Row, cut, put, thing
from tests.contract.spec_rows import CLAIM, GOODPUT, STATIC, TRACE

from dgdr_retune.api import CANDIDATE, REQUEST, RUN, Kind

Json = Any

OVERRIDES: Json = put(
    GOODPUT, "aisimulate.inputOverrides", {"engine": {"mode": "aggregated", "n": 1}, "router": {"policy": "kv_router"}}
)
DEPLOYMENT: Json = {
    "backendFramework": "vllm",
    "components": [
        {"name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": {"spec": {"containers": []}}},
        {"name": "Worker", "type": "worker", "replicas": 2, "multinode": None},
    ],
    "env": [{"name": "DYN_ROUTER_MODE", "value": "kv"}],
    "annotations": {"a/b": "c"},
    "restart": {"id": "1"},
    "parameters": {"tp": 1, "adapters": {"dynamo.router": {"overlap_score_credit": 0.5}}},
}


def rows() -> Iterator[Row]:
    """Every row on an update."""
    yield from _immutable_runs()
    yield from _immutable_candidates()
    yield from _requests_change()
    yield from _parts()
    yield from _stored_before_the_rule()


def _update(kind: Kind, note: str, old: Json, new: Json, **more: Any) -> Row:
    return Row(
        id=f"{kind.short} update {note}",
        kind=kind,
        operation="update",
        object=thing(kind, new),
        old=thing(kind, old),
        **more,
    )


def _immutable(kind: Kind, note: str, old: Json, new: Json, *, refused: bool = True, **more: Any) -> Row:
    return _update(
        kind,
        f"immutable: {note}",
        old,
        new,
        constraint=":spec is immutable",
        refused="spec is immutable" if refused else "",
        field="spec" if refused else "",
        **more,
    )


def _immutable_runs() -> Iterator[Row]:
    yield _immutable(RUN, "nothing changes", OVERRIDES, OVERRIDES, refused=False)
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
        yield _immutable(RUN, f"{path} {value!r}", OVERRIDES, put(OVERRIDES, path, value))
    for path in ("objective", "objective.sla", "aisimulate", "aisimulate.inputOverrides.router"):
        yield _immutable(RUN, f"without {path}", OVERRIDES, cut(OVERRIDES, path))
    renamed = put(cut(OVERRIDES, "aisimulate.inputOverrides.router"), "aisimulate.inputOverrides.router_", {})
    yield _immutable(RUN, "a key of inputOverrides is renamed", put(OVERRIDES, "aisimulate.inputOverrides.router", {}), renamed)
    inner = put(cut(OVERRIDES, "aisimulate.inputOverrides.engine.n"), "aisimulate.inputOverrides.engine.m", 1)
    yield _immutable(RUN, "a key below inputOverrides is renamed", OVERRIDES, inner)
    reordered = put(OVERRIDES, "backends", ["sglang", "vllm"])
    yield _immutable(RUN, "backends in another order", put(OVERRIDES, "backends", ["vllm", "sglang"]), reordered)
    default = put(STATIC, "objective", {"mode": "Optimize", "metric": "Throughput"})
    yield _immutable(RUN, "a default is written out", STATIC, default, refused=False)
    whole_number = put(OVERRIDES, "objective.sla.ttftMs", 500.0)
    yield _immutable(RUN, "a number is written as a whole float", OVERRIDES, whole_number, refused=False)
    yield evolve(
        _immutable(RUN, "an integer is written as a whole float", OVERRIDES, put(OVERRIDES, "hardware.gpu.budget", 2.0)),
        refused="spec",
        field="",
    )
    free_float = put(OVERRIDES, "aisimulate.inputOverrides.engine.n", 1.0)
    yield _immutable(RUN, "a free number is written as a whole float", OVERRIDES, free_float)


def _immutable_candidates() -> Iterator[Row]:
    yield _immutable(CANDIDATE, "nothing changes", DEPLOYMENT, DEPLOYMENT, refused=False)
    for path, value in (
        ("parameters.tp", 2),
        ("parameters.more", 1),
        ("parameters", {}),
        ("backendFramework", "sglang"),
        ("components", []),
        ("annotations.a/b", "d"),
        ("labels", {"x": "y"}),
        ("experimental", {"x": 1}),
        ("restart.id", "2"),
        ("restart", {"di": "1"}),
        ("pvcs", []),
    ):
        yield _immutable(CANDIDATE, f"{path} {value!r}", DEPLOYMENT, put(DEPLOYMENT, path, value))
    for path in ("backendFramework", "components", "restart", "env"):
        yield _immutable(CANDIDATE, f"without {path}", DEPLOYMENT, cut(DEPLOYMENT, path))
    renamed = put(cut(DEPLOYMENT, "parameters.tp"), "parameters.pp", 1)
    yield _immutable(CANDIDATE, "a parameter is renamed", DEPLOYMENT, renamed)
    frontend, worker = DEPLOYMENT["components"]
    changed = [frontend, put(cut(worker, "replicas"), "count", 2)]
    yield _immutable(CANDIDATE, "a component's field is renamed", DEPLOYMENT, put(DEPLOYMENT, "components", changed))
    swapped = put(DEPLOYMENT, "components", [worker, frontend])
    yield _immutable(CANDIDATE, "components in another order", DEPLOYMENT, swapped)
    # a server compares the keys that its schema does not declare one way only
    hidden = put(cut(DEPLOYMENT, "restart"), "pvcs", [])
    yield _immutable(CANDIDATE, "an undeclared field is renamed", DEPLOYMENT, hidden, validate_alone=True)


def _requests_change() -> Iterator[Row]:
    for path, value in (("workload.static.isl", 1), ("aisimulate.inputOverrides", {"a": 1}), ("image", "x")):
        yield _update(REQUEST, f"changes: {path}", OVERRIDES, put(OVERRIDES, path, value), constraint=":mutable")
    to_trace = STATIC | {"workload": TRACE["workload"]}
    yield _update(REQUEST, "changes: from static to trace", STATIC, to_trace, constraint=":mutable")
    yield _update(
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
                stored={} if strict else {"spec": put(DEFAULTED | {"workload": TRACE["workload"]}, "workload.trace.format", "Dynamo")},
            )
    kept = Row(
        id=f"dgdc create with undeclared fields {'strict' if strict else 'ignore'}: they are kept",
        kind=CANDIDATE,
        operation="create",
        object=thing(CANDIDATE, DEPLOYMENT),
        strict=strict,
        constraint=":pruning",
        stored={"spec": DEPLOYMENT},
    )
    yield kept


DEFAULTED: Json = STATIC | {
    "objective": {"mode": "Optimize", "metric": "Throughput"},
    "search": {"budget": {"maxRounds": 20, "parallelEvaluations": 16}},
    "recommendation": {"maxCandidates": 5},
    "aisimulate": {"generator": "aic"},
}


def _ratcheted(kind: Kind, note: str, old: Json, new: Json, fault: str, *, field: str = "", refused: bool = False) -> Row:
    return _update(
        kind,
        f"stored before the rule: {note}",
        old,
        new,
        constraint=":ratcheting",
        loose=True,
        refused=fault if refused else "",
        field=field if refused else "",
        warned="" if refused else fault,
    )


def _stored_before_the_rule() -> Iterator[Row]:
    name, path = f"{CLAIM}.claimName", f"{CLAIM}.subPath"
    dns, budget = "must be a DNS-1123 subdomain", "should be greater than or equal to 1"
    for place, wrong, worse, fault in (
        (name, "Bad_Name", "Worse_Name", dns),
        (path, "../etc/passwd", "../etc/shadow", "must name one file"),
        ("hardware.gpu.budget", 0, -1, budget),
        ("workload.trace.format", "mooncake", "weka", "Unsupported value"),
        ("modelRef.name", "", 1, "modelRef.name"),
        ("backends", ["vllm", "vllm"], ["sglang", "sglang"], "name each backend once"),
        ("objective", {"mode": "Optimize"}, {"mode": "Optimize", "metrics": ["TTFT", "Goodput"]}, "mode Optimize"),
        ("workload.trace.replay.arrivalSpeedupRatio", 0, -1, "should be greater than 0"),
    ):
        old = put(TRACE, place, wrong)
        yield _ratcheted(REQUEST, f"{place}, nothing changes", old, old, fault)
        yield _ratcheted(REQUEST, f"{place}, another field changes", old, put(old, "image", "x"), fault)
        yield _ratcheted(REQUEST, f"{place}, it changes", old, put(old, place, worse), fault, refused=True)
        yield _update(
            REQUEST, f"stored before the rule: {place}, it is mended", old, put(old, place, TRACE_VALUES[place]),
            constraint=":ratcheting", loose=True,
        )
        yield _ratcheted(RUN, f"{place}, nothing changes", old, old, fault)
    yield from _not_ratcheted()


TRACE_VALUES: Json = {
    f"{CLAIM}.claimName": "request-traces",
    f"{CLAIM}.subPath": "a/b",
    "hardware.gpu.budget": 1,
    "workload.trace.format": "Dynamo",
    "modelRef.name": "x",
    "backends": ["vllm"],
    "objective": {"mode": "Optimize", "metric": "TTFT"},
    "workload.trace.replay.arrivalSpeedupRatio": 1,
}


def _not_ratcheted() -> Iterator[Row]:
    both = put(TRACE, "workload.static", STATIC["workload"]["static"])
    one = "set exactly one of static and trace"
    yield _ratcheted(REQUEST, "static and trace, objective changes", both, put(both, "image", "x"), one)
    for changed in ("workload.static.isl", "workload.trace.replay.arrivalSpeedupRatio"):
        new = put(both, changed, 7)
        yield _ratcheted(REQUEST, f"static and trace, {changed} changes", both, new, one, field="spec.workload", refused=True)
    lacking = cut(TRACE, "modelRef")
    required = "Required value"
    yield _ratcheted(REQUEST, "modelRef absent, nothing changes", lacking, lacking, required)
    new = put(lacking, "image", "x")
    yield _ratcheted(REQUEST, "modelRef absent, image changes", lacking, new, required, field="spec.modelRef", refused=True)
    deep = cut(TRACE, f"{CLAIM}.subPath")
    yield _ratcheted(REQUEST, "subPath absent, image changes", deep, put(deep, "image", "x"), required)
    new = put(deep, f"{CLAIM}.claimName", "x")
    yield _ratcheted(REQUEST, "subPath absent, claimName changes", deep, new, required, refused=True)
    fill = put(STATIC, "workload.static", {"isl": 1, "osl": 1, "kvLoadRatio": [0.1, 0.2]})
    pareto = "needs objective mode Pareto"
    yield _ratcheted(REQUEST, "range without Pareto, nothing changes", fill, fill, pareto)
    yield _ratcheted(REQUEST, "range without Pareto, image changes", fill, put(fill, "image", "x"), pareto, refused=True)
    yield from _not_followed()
    envelope = put(STATIC, "v1beta1", {})
    alone = "this API serves v1beta2 alone"
    yield _ratcheted(REQUEST, "envelope, nothing changes", envelope, envelope, alone)
    yield _ratcheted(REQUEST, "envelope, image changes", envelope, put(envelope, "image", "x"), alone, refused=True)
    wrong = put(TRACE, "hardware.gpu.budget", "two")
    kind = "must be of type integer"
    yield _ratcheted(REQUEST, "budget is text, image changes", wrong, put(wrong, "image", "x"), kind)
    whole = put(TRACE, "hardware.gpu", {"sku": "", "budget": 0})
    new = put(whole, "hardware.gpu.sku", "h200_sxm")
    yield _ratcheted(REQUEST, "two faults, one is mended", whole, new, "should be greater than or equal to 1")
    yield from _without_spec()


def _not_followed() -> Iterator[Row]:
    """A server takes an object for changed if a part of it holds fields that its schema does not describe."""
    required = "Required value"
    lacking = cut(TRACE, "modelRef")
    for note, overrides, refused in (
        ("a string", {"router": "x"}, False),
        ("a list of objects", {"router": [{"a": 1}]}, False),
        ("an empty object", {"router": {}}, False),
        ("an object", {"router": {"a": 1}}, True),
    ):
        old = put(lacking, "aisimulate.inputOverrides", overrides)
        what = f"modelRef absent, nothing changes, inputOverrides holds {note}"
        yield _ratcheted(REQUEST, what, old, old, required, field="spec.modelRef", refused=refused)
    old = put(TRACE, "hardware.gpu.budget", 0) | {"aisimulate": {"inputOverrides": {"router": {"a": 1}}}}
    yield _ratcheted(REQUEST, "budget is 0, inputOverrides holds an object", old, old, "should be greater than or equal")
    envelope, alone = put(STATIC, "v1beta1", {"a": 1}), "this API serves v1beta2 alone"
    yield _ratcheted(REQUEST, "a filled envelope, nothing changes", envelope, envelope, alone, refused=True)
    undeclared = cut(DEPLOYMENT, "parameters")
    yield _ratcheted(CANDIDATE, "no parameters, nothing changes", undeclared, undeclared, required, refused=True)
    declared = cut(undeclared, "restart")
    yield _ratcheted(CANDIDATE, "no parameters, nothing changes, all declared", declared, declared, required)


def _without_spec() -> Iterator[Row]:
    required = "Required value"
    yield Row(
        id="dgdrrun update stored before the rule: no spec, one comes",
        kind=RUN,
        operation="update",
        object=thing(RUN, STATIC),
        old=cut(thing(RUN, STATIC), "spec"),
        loose=True,
        constraint=":ratcheting",
    )
    yield Row(
        id="dgdrrun update stored before the rule: no spec, none comes",
        kind=RUN,
        operation="update",
        object=put(cut(thing(RUN, STATIC), "spec"), "metadata.labels", {"a": "b"}),
        old=cut(thing(RUN, STATIC), "spec"),
        loose=True,
        constraint=":ratcheting",
        refused=required,
        field="spec",
    )
