"""Rows on the status of each kind, written through its subresource."""

from collections.abc import Iterator
from typing import Any

from tests.contract.candidate_rows import DEPLOYMENT
from tests.contract.cases import (
    INT32_MAX,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    Case,
    count,
    enum,
    objects,
    required,
    rule,
    text,
    typed,
)
from tests.contract.row import Row, cut, put, thing
from tests.contract.spec_rows import STATIC

from dgdr_retune.api import CANDIDATE, REQUEST, RUN, Kind

Json = Any

INT64_MAX = 9007199254740991

CONDITION: Json = {
    "type": "Accepted",
    "status": "True",
    "reason": "RunCreated",
    "message": "run qwen-run-1 created",
    "lastTransitionTime": "2026-10-01T12:00:00Z",
    "observedGeneration": 1,
}
REQUEST_STATUS: Json = {
    "observedGeneration": 1,
    "activeRunRef": {"name": "qwen-run-1"},
    "recentRunRefs": [{"name": "qwen-run-0"}],
    "conditions": [CONDITION],
}
RUN_STATUS: Json = {
    "phase": "Running",
    "jobRef": {"name": "qwen-run-1", "uid": "0a1b2c3d"},
    "aisimulate": {"input": {"traffic": {"source": {"type": "trace", "paths": [None, 1.5]}, "stop": None}}},
    "progress": {
        "branches": [{"name": "main", "rounds": {"completed": 1, "total": 3}}],
        "evaluations": {"scheduled": 1},
        "candidates": {"paretoFront": 1, "published": 2},
        "round": 1,
        "evaluated": 4,
    },
    "message": "2 of 6 candidates",
    "candidateRefs": [{"name": "a"}, {"name": "b"}],
    "provenance": {"sweeperVersion": "0.13.0", "replayVersion": "1.6.1"},
    "startTime": "2026-10-01T12:00:00Z",
    "completionTime": "2026-10-01T12:10:00.5+02:00",
    "lastProgressTime": "2026-10-01T12:05:00Z",
    "conditions": [CONDITION | {"type": "Completed", "status": "False", "reason": "EvaluatingCandidates"}],
}
CANDIDATE_STATUS: Json = {
    "metrics": {"score": -12.5, "replications": [{"mean_ttft_ms": 1}], "nothing": None},
    "conditions": [CONDITION | {"type": "Evaluated", "reason": "Evaluated"}],
}


def rows() -> Iterator[Row]:
    """Every row on a status."""
    for kind, spec, cases in (
        (REQUEST, STATIC, _request_cases()),
        (RUN, STATIC, _run_cases()),
        (CANDIDATE, DEPLOYMENT, _candidate_cases()),
    ):
        for case in cases:
            yield _row(kind, spec, case)
    yield from _stored_before_the_rule()


def _row(kind: Kind, spec: Json, case: Case) -> Row:
    return Row(
        id=f"{kind.short} status {case.constraint} {case.note}",
        kind=kind,
        operation="update status",
        object=thing(kind, spec, case.value),
        old=thing(kind, spec),
        refused=case.refused,
        field=f"status.{case.field}" if case.field else "",
        constraint=f"status.{case.constraint}",
        stored={} if case.stored is None else {"status": case.stored},
    )


def _request_cases() -> Iterator[Case]:
    base = REQUEST_STATUS
    yield Case("whole:stored", "as it was written", base, stored=base)
    yield from count(base, "observedGeneration", 0, INT64_MAX)
    yield from objects(base, "activeRunRef")
    yield from required(base, "activeRunRef.name")
    yield from text(base, "activeRunRef.name", min_length=1, max_length=253)
    yield from _references(base, "recentRunRefs", 100)
    yield from _conditions(base)


def _run_cases() -> Iterator[Case]:
    base = RUN_STATUS
    yield Case("whole:stored", "as it was written", base, stored=base)
    yield from enum(base, "phase", ("Pending", "Running", "Succeeded", "Failed"), ("Superseded", "running"))
    yield from objects(base, "jobRef", "aisimulate", "aisimulate.input", "progress", "provenance")
    yield from required(base, "jobRef.name")
    yield from text(base, "jobRef.name", min_length=1, max_length=253)
    yield from text(base, "jobRef.uid", min_length=None, max_length=128)
    yield from objects(base, "progress.evaluations", "progress.candidates")
    evaluations = ("scheduled", "running", "feasible", "infeasible", "failed", "unsupported", "cacheHits")
    totals = (*(f"evaluations.{name}" for name in evaluations), "candidates.paretoFront", "candidates.published")
    for name in (*totals, "round", "evaluated"):
        yield from count(base, f"progress.{name}", 0)
    yield from _branches(base)
    yield from text(base, "message", min_length=None, max_length=32768)
    yield from _references(base, "candidateRefs", 100)
    yield from text(base, "provenance.sweeperVersion", min_length=None, max_length=128)
    yield from text(base, "provenance.replayVersion", min_length=None, max_length=128)
    for name in ("startTime", "completionTime", "lastProgressTime"):
        yield from _time(base, name)
    yield from _conditions(base)


def _candidate_cases() -> Iterator[Case]:
    base = CANDIDATE_STATUS
    yield Case("whole:stored", "as it was written", base, stored=base)
    yield from objects(base, "metrics")
    yield from _conditions(base)


def _references(base: Json, path: str, most: int) -> Iterator[Case]:
    some = [{"name": f"run-{number}"} for number in range(most + 1)]
    yield Case(f"{path}:type", "list", base)
    yield from typed(base, path, {}, "array")
    yield Case(f"{path}:maxItems", "most", put(base, path, some[:-1]))
    yield Case(f"{path}:maxItems", "more", put(base, path, some), TOO_MANY, path)
    yield Case(f"{path}[]:type", "object", base)
    yield Case(f"{path}[]:type", "string", put(base, path, ["a"]), "must be of type object", f"{path}[0]")
    name = f"{path}[0].name"
    yield Case(f"{path}[].name:required", "present", base)
    yield Case(f"{path}[].name:required", "absent", put(base, path, [{}]), REQUIRED, name)
    yield Case(f"{path}[].name:type", "string", base)
    yield Case(f"{path}[].name:type", "1", put(base, path, [{"name": 1}]), "must be of type string", name)
    yield Case(f"{path}[].name:minLength", "one", put(base, path, [{"name": "a"}]))
    yield Case(f"{path}[].name:minLength", "none", put(base, path, [{"name": ""}]), "should be at least", name)
    yield Case(f"{path}[].name:maxLength", "253", put(base, path, [{"name": "a" * 253}]))
    yield Case(f"{path}[].name:maxLength", "254", put(base, path, [{"name": "a" * 254}]), TOO_LONG, name)


def _inside(base: Json, path: str, cases: Iterator[Case]) -> Iterator[Case]:
    """Cases on one item, as cases on the status that holds it in a list."""
    for case in cases:
        yield Case(
            f"{path}[].{case.constraint}",
            case.note,
            put(base, path, [case.value]),
            case.refused,
            f"{path}[0].{case.field}" if case.field else "",
        )


def _time(base: Json, path: str) -> Iterator[Case]:
    yield Case(f"{path}:type", "string", base)
    yield from typed(base, path, 1790000000, "string")
    yield Case(f"{path}:maxLength", "64", put(base, path, f"2026-10-01T12:00:00.{'1' * 43}Z"))
    yield Case(f"{path}:maxLength", "65", put(base, path, f"2026-10-01T12:00:00.{'1' * 44}Z"), TOO_LONG, path)
    yield from rule(
        f"{path}:a time is written as in RFC 3339",
        base,
        path,
        ("2026-10-01T12:00:00Z", "2026-10-01T12:00:00.123456Z", "2026-10-01T12:00:00+02:00"),
        (
            "",
            "now",
            "2026-10-01",
            "2026-10-01 12:00:00Z",
            "2026-10-01T12:00:00",
            "2026-10-01T12:00:00,5Z",
            "26-10-01T12:00:00Z",
        ),
    )


def _branches(base: Json) -> Iterator[Case]:
    path = "progress.branches"
    branch = {"name": "main", "rounds": {"completed": 1, "total": 3}}
    some = [{"name": f"branch-{number}"} for number in range(101)]
    yield Case(f"{path}:type", "list", base)
    yield from typed(base, path, {}, "array")
    yield Case(f"{path}:maxItems", "most", put(base, path, some[:-1]))
    yield Case(f"{path}:maxItems", "more", put(base, path, some), TOO_MANY, path)
    yield Case(f"{path}[]:type", "object", base)
    yield Case(f"{path}[]:type", "string", put(base, path, [1]), "must be of type object", f"{path}[0]")
    twice = put(base, path, [branch, branch])
    yield Case(f"{path}:listMap", "two names", put(base, path, some[:2]))
    yield Case(f"{path}:listMap", "one name twice", twice, "Duplicate value", f"{path}[1]")
    yield from _inside(base, path, required(branch, "name"))
    yield from _inside(base, path, text(branch, "name", min_length=1, max_length=253))
    yield from _inside(base, path, objects(branch, "rounds"))
    yield from _inside(base, path, count(branch, "rounds.completed", 0, INT32_MAX))
    yield from _inside(base, path, count(branch, "rounds.total", 0, INT32_MAX))


def _conditions(base: Json) -> Iterator[Case]:
    path = "conditions"
    some = [CONDITION | {"type": f"Type{number}"} for number in range(17)]
    yield Case(f"{path}:type", "list", base)
    yield from typed(base, path, {}, "array")
    yield Case(f"{path}:maxItems", "most", put(base, path, some[:-1]))
    yield Case(f"{path}:maxItems", "more", put(base, path, some), TOO_MANY, path)
    yield Case(f"{path}:listMap", "two types", put(base, path, some[:2]))
    yield Case(
        f"{path}:listMap", "one type twice", put(base, path, [CONDITION, CONDITION]), "Duplicate value", f"{path}[1]"
    )
    yield Case(f"{path}[]:type", "object", base)
    yield Case(f"{path}[]:type", "string", put(base, path, ["x"]), "must be of type object", f"{path}[0]")
    yield from _inside(base, path, _condition())


def _condition() -> Iterator[Case]:
    base = CONDITION
    yield from required(base, "type", "status", "reason", "message", "lastTransitionTime")
    yield from typed(base, "type", 1, "string")
    yield Case("type:type", "string", base)
    yield Case("type:minLength", "one", put(base, "type", "a"))
    yield Case("type:minLength", "none", put(base, "type", ""), "should be at least", "type")
    yield Case("type:maxLength", "316", put(base, "type", "a" * 252 + "/" + "b" * 63))
    yield Case("type:maxLength", "317", put(base, "type", "a" * 253 + "/" + "b" * 63), TOO_LONG, "type")
    yield from rule(
        "type:a condition type is a qualified name",
        base,
        "type",
        ("Accepted", "a.b/C-d_e.f", "A", "a" * 63, "a/" + "b" * 63),
        ("", "-a", "a-", "a/b/c", "A.b/c", "/a", "a/", "a" * 64, "a b", "a\n"),
    )
    yield from enum(base, "status", ("True", "False", "Unknown"), ("true", ""))
    yield from text(base, "reason", min_length=1, max_length=1024)
    yield from rule(
        "reason:a reason is one CamelCase word",
        base,
        "reason",
        ("RunCreated", "A", "a_1", "A,b:c"),
        ("", "1a", "a b", "a:", "a,", "a-b", "_a", "a\n"),
    )
    yield from text(base, "message", min_length=None, max_length=32768)
    yield Case("message:type", "empty", put(base, "message", ""))
    yield from _time(base, "lastTransitionTime")
    yield from count(base, "observedGeneration", 0, INT64_MAX)


def _stored_before_the_rule() -> Iterator[Row]:
    bad = CONDITION | {"reason": "not one word"}
    other = CONDITION | {"type": "Other"}
    word = "a reason is one CamelCase word"
    for note, old, new, refused in (
        ("nothing changes", [bad], [bad], False),
        ("another condition comes", [bad], [bad, other], False),
        ("another condition comes first", [bad], [other, bad], False),
        ("its message changes", [bad], [bad | {"message": "x"}], False),
        ("its reason changes", [bad], [bad | {"reason": "still not"}], True),
        ("its type changes", [bad], [bad | {"type": "Other"}], True),
    ):
        yield _ratcheted(
            REQUEST, f"a bad reason, {note}", {"conditions": old}, {"conditions": new}, word, refused=refused
        )
    long = {"name": "a" * 254}
    for note, new, refused in (
        ("nothing changes", [long], False),
        ("another comes", [long, {"name": "b"}], True),
    ):
        status, changed = {"candidateRefs": [long]}, {"candidateRefs": new, "phase": "Running"}
        yield _ratcheted(RUN, f"a long reference, {note}", status, changed, TOO_LONG, refused=refused)
    twice = [CONDITION, CONDITION]
    for note, new in (("nothing changes", twice), ("both change", [CONDITION | {"message": "x"}] * 2)):
        duplicate = "Duplicate value"
        yield _ratcheted(REQUEST, f"a type twice, {note}", {"conditions": twice}, {"conditions": new}, duplicate)
    for kind in (REQUEST, RUN):
        broken = cut(STATIC, "modelRef")
        yield Row(
            id=f"{kind.short} status stored before the rule: the spec lacks modelRef",
            kind=kind,
            operation="update status",
            object=thing(kind, broken, {"conditions": [CONDITION]}),
            old=thing(kind, broken),
            loose=True,
            constraint=":ratcheting",
            stored={"status": {"conditions": [CONDITION]}},
        )

        envelope = put(STATIC, "v1beta1", {"a": 1})
        yield Row(
            id=f"{kind.short} status stored before the rule: the spec has a filled envelope",
            kind=kind,
            operation="update status",
            object=thing(kind, envelope, {"conditions": [CONDITION]}),
            old=thing(kind, envelope),
            loose=True,
            refused="this API serves v1beta2 alone",
            field="spec.v1beta1",
            constraint=":ratcheting",
        )
    yield from _wrong_types()


def _wrong_types() -> Iterator[Row]:
    """What is stored with a wrong type can be mended, and is no known field's place."""
    for kind, spec in ((REQUEST, STATIC), (RUN, STATIC), (CANDIDATE, DEPLOYMENT)):
        for name, wrong in (("reason", 1), ("lastTransitionTime", 5), ("type", []), ("message", {})):
            yield Row(
                id=f"{kind.short} status stored before the rule: {name} is {wrong!r}, it is mended",
                kind=kind,
                operation="update status",
                object=thing(kind, spec, {"conditions": [CONDITION]}),
                old=thing(kind, spec, {"conditions": [CONDITION | {name: wrong}]}),
                loose=True,
                constraint=":ratcheting",
            )
        keyless = cut(CONDITION, "type")
        yield Row(
            id=f"{kind.short} update stored before the rule: a condition has no type",
            kind=kind,
            operation="update",
            object=thing(kind, spec, {"conditions": [keyless]}),
            old=thing(kind, spec, {"conditions": [keyless]}),
            loose=True,
            refused=REQUIRED,
            field="status.conditions[0].type",
            constraint=":ratcheting",
        )
        for path, wrong in (
            ("conditions", {"x": 1}),
            ("conditions", [CONDITION | {"status": {"x": 1}}]),
            ("conditions", [CONDITION | {"message": [{"x": 1}]}]),
        ):
            for strict in (True, False):
                yield Row(
                    id=f"{kind.short} status unknown fields in {path}, {wrong!r}, {'strict' if strict else 'ignore'}",
                    kind=kind,
                    operation="update status",
                    object=thing(kind, spec, {path: wrong}),
                    old=thing(kind, spec),
                    strict=strict,
                    refused="unknown field" if strict else "must be of type",
                    constraint=":pruning",
                )
    for kind, spec, status in (
        (REQUEST, STATIC, {"conditions": ["x"]}),
        (CANDIDATE, DEPLOYMENT, {"conditions": ["x"]}),
        (CANDIDATE, DEPLOYMENT, {"conditions": [[], CONDITION]}),
        (RUN, STATIC, {"progress": {"branches": [[]]}}),
    ):
        old = thing(kind, spec, status)
        labelled = put(old, "metadata.labels", {"a": "b"})
        place = "status.progress.branches[0]" if kind is RUN else "status.conditions[0]"
        for operation, new, refused in (
            ("update", labelled, "must be of type object"),
            ("update", old, "must be of type object"),
            ("update status", old, "must be of type object"),
            ("update status", old | {"status": {"conditions": [CONDITION]}}, ""),
        ):
            yield Row(
                id=f"{kind.short} {operation} stored before the rule: {status}, then {new['status']} {new['metadata']}",
                kind=kind,
                operation=operation,
                object=new,
                old=old,
                loose=True,
                refused=refused,
                field=place if refused else "",
                constraint=":ratcheting",
            )


def _ratcheted(kind: Kind, note: str, old: Json, new: Json, fault: str, *, refused: bool = False) -> Row:
    return Row(
        id=f"{kind.short} status stored before the rule: {note}",
        kind=kind,
        operation="update status",
        object=thing(kind, STATIC, new),
        old=thing(kind, STATIC, old),
        loose=True,
        refused=fault if refused else "",
        warned="" if refused else fault,
        constraint=":ratcheting",
    )
