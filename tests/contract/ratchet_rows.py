"""Rows on objects that were stored before a rule existed: what an update may leave as it is."""

from collections.abc import Iterator
from typing import Any

from tests.contract.candidate_rows import DEPLOYMENT
from tests.contract.row import Row, cut, put, thing
from tests.contract.spec_rows import CLAIM, STATIC, TRACE
from tests.contract.update_rows import update

from dgdr_retune.api import CANDIDATE, REQUEST, RUN, Kind

Json = Any

MENDED: Json = {
    f"{CLAIM}.claimName": "request-traces",
    f"{CLAIM}.subPath": "a/b",
    "hardware.gpu.budget": 1,
    "workload.trace.format": "Dynamo",
    "modelRef.name": "x",
    "backends": ["vllm"],
    "objective": {"mode": "Optimize", "metric": "TTFT"},
    "workload.trace.replay.arrivalSpeedupRatio": 1,
}


def _ratcheted(
    kind: Kind, note: str, old: Json, new: Json, fault: str, *, field: str = "", refused: bool = False
) -> Row:
    return update(
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


def rows() -> Iterator[Row]:
    """Every row on an object that was stored before a rule existed."""
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
        yield update(
            REQUEST,
            f"stored before the rule: {place}, it is mended",
            old,
            put(old, place, MENDED[place]),
            constraint=":ratcheting",
            loose=True,
        )
        yield _ratcheted(RUN, f"{place}, nothing changes", old, old, fault)
    yield from _not_ratcheted()


def _not_ratcheted() -> Iterator[Row]:
    both = put(TRACE, "workload.static", STATIC["workload"]["static"])
    one = "set exactly one of static and trace"
    yield _ratcheted(REQUEST, "static and trace, objective changes", both, put(both, "image", "x"), one)
    for changed in ("workload.static.isl", "workload.trace.replay.arrivalSpeedupRatio"):
        new = put(both, changed, 7)
        yield _ratcheted(
            REQUEST, f"static and trace, {changed} changes", both, new, one, field="spec.workload", refused=True
        )
    lacking = cut(TRACE, "modelRef")
    required = "Required value"
    yield _ratcheted(REQUEST, "modelRef absent, nothing changes", lacking, lacking, required)
    new = put(lacking, "image", "x")
    yield _ratcheted(
        REQUEST, "modelRef absent, image changes", lacking, new, required, field="spec.modelRef", refused=True
    )
    deep = cut(TRACE, f"{CLAIM}.subPath")
    yield _ratcheted(REQUEST, "subPath absent, image changes", deep, put(deep, "image", "x"), required)
    new = put(deep, f"{CLAIM}.claimName", "x")
    yield _ratcheted(REQUEST, "subPath absent, claimName changes", deep, new, required, refused=True)
    fill = put(STATIC, "workload.static", {"isl": 1, "osl": 1, "kvLoadRatio": [0.1, 0.2]})
    pareto = "needs objective mode Pareto"
    yield _ratcheted(REQUEST, "range without Pareto, nothing changes", fill, fill, pareto)
    yield _ratcheted(
        REQUEST, "range without Pareto, image changes", fill, put(fill, "image", "x"), pareto, refused=True
    )
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
    yield from _unreadable()


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
    yield _ratcheted(
        REQUEST, "budget is 0, inputOverrides holds an object", old, old, "should be greater than or equal"
    )
    envelope, alone = put(STATIC, "v1beta1", {"a": 1}), "this API serves v1beta2 alone"
    yield _ratcheted(REQUEST, "a filled envelope, nothing changes", envelope, envelope, alone, refused=True)
    undeclared = cut(DEPLOYMENT, "parameters")
    yield _ratcheted(CANDIDATE, "no parameters, nothing changes", undeclared, undeclared, required, refused=True)
    declared = cut(undeclared, "notYetKnown")
    yield _ratcheted(CANDIDATE, "no parameters, nothing changes, all declared", declared, declared, required)


def _unreadable() -> Iterator[Row]:
    """A rule that reads a value of a wrong type refuses every update, of any part, whatever was stored before."""
    a_map, text = "invalid data, expected a map", "invalid data, expected"
    claim = put(TRACE, f"{CLAIM}.claimName", 5)
    static = put(STATIC, "workload.trace", ["x"])
    for kind, note, spec, fault in (
        (REQUEST, "claimName is a number", claim, text),
        (RUN, "claimName is a number", claim, text),
        (REQUEST, "trace is a list", static, a_map),
        (REQUEST, "workload is text", put(STATIC, "workload", "x"), a_map),
        (RUN, "aisimulate is a number", put(STATIC, "aisimulate", 1.5), a_map),
    ):
        yield _ratcheted(kind, f"{note}, nothing changes", spec, spec, fault, refused=True)
        yield Row(
            id=f"{kind.short} status stored before the rule: {note}",
            kind=kind,
            operation="update status",
            object=thing(kind, spec, {"conditions": []}),
            old=thing(kind, spec),
            loose=True,
            refused=fault,
            constraint=":ratcheting",
        )
    condition = {
        "type": "Accepted",
        "status": "True",
        "reason": 1,
        "message": "",
        "lastTransitionTime": "2026-10-01T12:00:00Z",
    }
    yield Row(
        id="dgdr update stored before the rule: a reason is a number, image changes",
        kind=REQUEST,
        operation="update",
        object=thing(REQUEST, put(STATIC, "image", "x")),
        old=thing(REQUEST, STATIC, {"conditions": [condition]}),
        loose=True,
        refused=text,
        constraint=":ratcheting",
    )
    unread = put(STATIC, "recommendation.maxCandidates", "x")
    changed = put(unread, "image", "x")
    yield _ratcheted(REQUEST, "maxCandidates, which no rule reads, is text", unread, changed, "must be of type integer")


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
