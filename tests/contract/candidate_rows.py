"""Rows on Candidates: a deployment's specification is not ours to judge, and never changes."""

from collections.abc import Iterator
from typing import Any

from tests.contract.cases import TOO_MANY, Case, enum, objects, required, text, typed
from tests.contract.row import Row, cut, put, thing
from tests.contract.update_rows import immutable

from dgdr_retune.api import CANDIDATE

Json = Any

DEPLOYMENT: Json = {
    "backendFramework": "vllm",
    "components": [
        {"name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": {"spec": {"containers": []}}},
        {"name": "Worker", "type": "worker", "replicas": 2, "multinode": None},
    ],
    "env": [{"name": "DYN_ROUTER_MODE", "value": "kv"}],
    "annotations": {"a/b": "c"},
    "notYetKnown": {"id": "1"},
    "parameters": {"tp": 1, "adapters": {"dynamo.router": {"overlap_score_credit": 0.5}}},
}


def rows() -> Iterator[Row]:
    """Every row on the specification of a Candidate."""
    for case in _cases():
        yield Row(
            id=f"dgdc create {case.constraint} {case.note}",
            kind=CANDIDATE,
            operation="create",
            object=thing(CANDIDATE, case.value),
            refused=case.refused,
            field=f"spec.{case.field}" if case.field else "",
            constraint=f"spec.{case.constraint}",
        )
    for strict in (True, False):
        yield _undeclared(strict=strict)
    yield from _immutable_candidates()


def _cases() -> Iterator[Case]:
    yield from required(DEPLOYMENT, "parameters")
    yield from objects(DEPLOYMENT, "parameters")
    yield from enum(DEPLOYMENT, "backendFramework", ("vllm", "sglang", "trtllm"), ("VLLM", "auto"))
    yield from objects(put(DEPLOYMENT, "experimental", {"a": [None]}), "experimental")
    for name in ("restart", "topologyConstraint", "providerOverride"):
        yield from objects(put(DEPLOYMENT, name, {"a": {"b": None}}), name)
    yield from text(DEPLOYMENT, "priorityClassName", min_length=None, max_length=253)
    for name in ("annotations", "labels"):
        yield from objects(put(DEPLOYMENT, name, {"a": "b"}), name)
    for name, most in (("components", 25), ("env", 1000)):
        yield Case(f"{name}:type", "list", DEPLOYMENT)
        yield from typed(DEPLOYMENT, name, {}, "array")
        yield Case(f"{name}[]:type", "object", DEPLOYMENT)
        for number, wrong in enumerate((None, "x", [])):
            sent = put(DEPLOYMENT, name, [wrong])
            yield Case(f"{name}[]:type", f"wrong {number}", sent, "must be of type object", f"{name}[0]")
        yield Case(f"{name}:maxItems", "most", put(DEPLOYMENT, name, [{}] * most))
        yield Case(f"{name}:maxItems", "more", put(DEPLOYMENT, name, [{}] * (most + 1)), TOO_MANY, name)


def _undeclared(*, strict: bool) -> Row:
    return Row(
        id=f"dgdc create with undeclared fields {'strict' if strict else 'ignore'}: they are kept",
        kind=CANDIDATE,
        operation="create",
        object=thing(CANDIDATE, DEPLOYMENT),
        strict=strict,
        constraint=":pruning",
        stored={"spec": DEPLOYMENT},
    )


def _immutable_candidates() -> Iterator[Row]:
    yield immutable(CANDIDATE, "nothing changes", DEPLOYMENT, DEPLOYMENT, refused=False)
    for path, value in (
        ("parameters.tp", 2),
        ("parameters.more", 1),
        ("parameters", {}),
        ("backendFramework", "sglang"),
        ("components", []),
        ("annotations.a/b", "d"),
        ("labels", {"x": "y"}),
        ("experimental", {"x": 1}),
        ("notYetKnown.id", "2"),
        ("notYetKnown", {"di": "1"}),
        ("pvcs", []),
    ):
        yield immutable(CANDIDATE, f"{path} {value!r}", DEPLOYMENT, put(DEPLOYMENT, path, value))
    for path in ("backendFramework", "components", "notYetKnown", "env"):
        yield immutable(CANDIDATE, f"without {path}", DEPLOYMENT, cut(DEPLOYMENT, path))
    renamed = put(cut(DEPLOYMENT, "parameters.tp"), "parameters.pp", 1)
    yield immutable(CANDIDATE, "a parameter is renamed", DEPLOYMENT, renamed)
    frontend, worker = DEPLOYMENT["components"]
    changed = [frontend, put(cut(worker, "replicas"), "count", 2)]
    yield immutable(CANDIDATE, "a component's field is renamed", DEPLOYMENT, put(DEPLOYMENT, "components", changed))
    swapped = put(DEPLOYMENT, "components", [worker, frontend])
    yield immutable(CANDIDATE, "components in another order", DEPLOYMENT, swapped)
    for path in ("env", "annotations"):
        replaced = put(cut(DEPLOYMENT, path), "norThis", 1)
        yield immutable(CANDIDATE, f"an undeclared field takes the place of {path}", DEPLOYMENT, replaced)
        yield immutable(CANDIDATE, f"{path} takes the place of an undeclared field", replaced, DEPLOYMENT)
    # a server overlooks an undeclared key that the other side of a comparison does not have
    hidden = put(cut(DEPLOYMENT, "notYetKnown"), "norThis", [])
    yield immutable(CANDIDATE, "an undeclared field is renamed", DEPLOYMENT, hidden, overlooked=True)
    both = put(hidden, "backendFramework", "sglang")
    yield immutable(CANDIDATE, "an undeclared field is renamed, another field changes", DEPLOYMENT, both)
