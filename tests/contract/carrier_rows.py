"""Rows on carriers: v1beta1 Requests that hold a v1beta2 one. Our CRDs have none, so only `validate()` is asked."""

from collections.abc import Iterable, Iterator
from typing import Any

from attrs import evolve
from tests.contract.row import Operation, Row, put, thing
from tests.contract.spec_rows import STATIC

from dgdr_retune.api import REQUEST

Json = Any


def rows(native: Iterable[Row]) -> Iterator[Row]:
    """Every row on a Request, asked of a carrier of it, and what only a carrier can do wrong."""
    for row in native:
        if row.kind == REQUEST and _can_be_carried(row.object):
            yield evolve(
                row,
                id=f"carrier {row.id}",
                object=carrier(row.object),
                old=None if row.old is None else carrier(row.old),
                refused=row.refused.replace('"spec.', '"spec.v1beta2.'),
                field=_inside(row.field),
                stored={},
                loose=False,
                validate_alone=True,
            )
    mixed = put(carrier(thing(REQUEST, STATIC)), "spec.modelRef", {"name": "x"})
    yield _only_carriers("fields beside the envelope", mixed, "spec.v1beta2", "spec")
    nested = carrier(thing(REQUEST, {"v1beta2": STATIC}))
    yield _only_carriers("an envelope in the envelope", nested, "spec.v1beta2", "spec")
    yield _only_carriers("an envelope that is no object", put(mixed, "spec", {"v1beta2": "x"}), "spec.v1beta2", "spec")
    yield from _updates(carrier(thing(REQUEST, STATIC, {"observedGeneration": 1})))


def _updates(sound: Json) -> Iterator[Row]:
    """Whoever has stored a carrier that mixes versions can repair it, and label it as it is."""
    mixed, mixed_status = put(sound, "spec.image", "x"), put(sound, "status.observedGeneration", 1)
    labelled = put(mixed, "metadata.labels", {"a": "b"})
    yield _update("a repair of fields beside the envelope", sound, mixed)
    yield _update("a label and fields beside the envelope as before", labelled, mixed, warned="spec.v1beta2 must be")
    yield _update(
        "other fields beside the envelope", put(mixed, "spec.image", "y"), mixed, refused="spec.v1beta2 must be"
    )
    yield _update("fields beside the envelope from now on", mixed, sound, refused="spec.v1beta2 must be")
    faulty = put(sound, "spec.v1beta2.hardware.gpu.budget", 0)
    yield _update("a repair that has another fault", faulty, mixed, refused="spec.v1beta2.hardware.gpu.budget")
    yield _update("a specification beside a status that mixes versions", mixed_status, mixed_status)
    worse = put(mixed_status, "spec.v1beta2.hardware.gpu.budget", 0)
    yield _update(
        "a fault beside a status that mixes versions", worse, mixed_status, refused="spec.v1beta2.hardware.gpu.budget"
    )
    status: Operation = "update status"
    yield _update("a status beside fields that mix versions", mixed, mixed, operation=status)
    yield _update("a repair of a status", sound, mixed_status, operation=status)
    yield _update(
        "a status that mixes versions as before", mixed_status, mixed_status, warned="status.v1beta2", operation=status
    )
    yield _update(
        "a status that mixes versions from now on",
        mixed_status,
        sound,
        refused="status.v1beta2 must be",
        operation=status,
    )


def _can_be_carried(request: Json) -> bool:
    spec = request.get("spec")
    return isinstance(spec, dict) and "v1beta1" not in spec and isinstance(request.get("status", {}), dict)


def carrier(request: Json) -> Json:
    """The v1beta1 Request that holds this one."""
    parts = {name: {"v1beta2": request[name]} for name in ("spec", "status") if name in request}
    return request | {"apiVersion": "nvidia.com/v1beta1"} | parts


def _inside(field: str) -> str:
    part, separator, rest = field.partition(".")
    return f"{part}.v1beta2{separator}{rest}" if part in ("spec", "status") else field


def _update(
    note: str, sent: Json, old: Json, *, refused: str = "", warned: str = "", operation: Operation = "update"
) -> Row:
    return Row(
        id=f"carrier updated with {note}",
        kind=REQUEST,
        operation=operation,
        object=sent,
        old=old,
        refused=refused,
        warned=warned,
        constraint=":carrier",
        validate_alone=True,
    )


def _only_carriers(note: str, sent: Json, refused: str, field: str) -> Row:
    return Row(
        id=f"carrier with {note}",
        kind=REQUEST,
        operation="create",
        object=sent,
        refused=refused,
        field=field,
        constraint=":carrier",
        validate_alone=True,
    )
