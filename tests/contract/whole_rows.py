"""Rows on an object as a whole: it has a specification, and a status that is an object."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.contract.candidate_rows import DEPLOYMENT
from tests.contract.row import Row, cut, put, thing
from tests.contract.spec_rows import STATIC

from dgdr_retune.api import CANDIDATE, REQUEST, RUN, Kind

Json = Any

GOLDEN = Path(__file__).parents[1] / "data" / "trace_request_lowering.golden.json"


def rows() -> Iterator[Row]:
    """Every row on an object as a whole."""
    yield _golden()
    for kind, spec in ((REQUEST, STATIC), (RUN, STATIC), (CANDIDATE, DEPLOYMENT)):
        yield _created(kind, "spec:required", "present", thing(kind, spec))
        yield _created(kind, "spec:required", "absent", cut(thing(kind, spec), "spec"), "Required value")
        yield _created(kind, "spec:required", "null", thing(kind, None), "Required value")
        yield _created(kind, "spec:type", "object", thing(kind, spec))
        for wrong in ("x", [], 1, True):
            yield _created(kind, "spec:type", repr(wrong), thing(kind, wrong), "must be of type object")
        yield _created(kind, ":pruning", "unknown field", thing(kind, spec) | {"sepc": {}}, 'unknown field "sepc"')
        for status, refused in (({}, ""), ("x", "must be of type object"), ([], "must be of type object")):
            yield Row(
                id=f"{kind.short} status type {status!r}",
                kind=kind,
                operation="update status",
                object=thing(kind, spec) | {"status": status},
                old=thing(kind, spec),
                refused=refused,
                field="status" if refused else "",
                constraint="status:type",
            )


def _golden() -> Row:
    """The Request that the lowering tests and a planner's read is one that a server stores as it is."""
    request = json.loads(GOLDEN.read_text())["request"]
    return Row(
        id="dgdr create the golden Request",
        kind=REQUEST,
        operation="create",
        object=put(request, "metadata.namespace", "default"),
        constraint="spec:required",
        stored={"spec": request["spec"]},
    )


def _created(kind: Kind, constraint: str, note: str, sent: Json, refused: str = "") -> Row:
    return Row(
        id=f"{kind.short} create {constraint} {note}",
        kind=kind,
        operation="create",
        object=sent,
        refused=refused,
        field="spec" if refused and "unknown" not in refused else "",
        constraint=constraint,
    )
