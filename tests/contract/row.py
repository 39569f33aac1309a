"""What a row of the contract table is, and how one writes objects for it in one line."""

import copy
from typing import Any, Literal

from attrs import field as attribute
from attrs import frozen

from dgdr_retune.api import CANDIDATE, REQUEST, RUN, Kind

Json = Any
Operation = Literal["create", "update", "update status"]


@frozen
class Row:
    """One question to every judge: `validate()`, the simulated API server and a real one.

    Attributes:
        id: unique; says what is asked.
        kind: of the object.
        operation: `create` sends `object`; `update` and `update status` send it over the stored `old`.
        object: the whole object, metadata without resourceVersion.
        old: what is stored before; None for a create.
        refused: a piece of every judge's message; empty if the object is accepted.
        field: the path that the refusal names; empty where a server names none.
        constraint: what is asked, as `constraints()` of tests/contract/constraints.py spells it.
        stored: parts of the answer (`spec`, `status`) that are asked, and what each equals; None where it is absent.
        warned: a piece of the warning that `validate()` gives for a fault that was stored before; empty for none.
        loose: `old` breaks a rule: it is stored under a looser CRD before ours replaces it.
        strict: whether unknown fields are refused (fieldValidation=Strict) or dropped (Ignore).
        overlooked: API servers accept the object, for their rules cannot see the fault; `validate()` refuses it.
        validate_alone: no server can be asked, for our CRDs cannot hold the object.
    """

    id: str
    kind: Kind
    operation: Operation
    object: Json
    old: Json = None
    refused: str = ""
    field: str = ""
    constraint: str = ""
    stored: Json = attribute(factory=dict)
    warned: str = ""
    loose: bool = False
    strict: bool = True
    overlooked: bool = False
    validate_alone: bool = False


NAMES = {
    REQUEST.name: "qwen",
    RUN.name: "qwen-run-1",
    CANDIDATE.name: "qwen-run-1-0a1b2c3d-evaluated-point-0123456789ab",
}


def thing(kind: Kind, spec: Json, status: Json = None) -> Json:
    """An object of the kind."""
    made = {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": kind.name,
        "metadata": {"name": NAMES[kind.name], "namespace": "default"},
        "spec": spec,
    }
    return made if status is None else made | {"status": status}


def put(value: Json, path: str, new: Json) -> Json:
    """A copy of an object with another value at the dotted path; parents are made where they are missing."""
    changed = copy.deepcopy(value)
    *parents, last = path.split(".")
    place = changed
    for name in parents:
        place = place.setdefault(name, {})
    place[last] = new
    return changed


def cut(value: Json, path: str) -> Json:
    """A copy of an object without what is at the dotted path."""
    changed = copy.deepcopy(value)
    *parents, last = path.split(".")
    place = changed
    for name in parents:
        place = place[name]
    del place[last]
    return changed
