"""Validation as an API server with our CRDs does it: every bound and rule, all faults at once, ratcheted on updates."""

import json
from collections.abc import Iterator
from typing import Any, Final, Literal

from attrs import evolve, frozen

from dgdr_retune.api._declare import Presence
from dgdr_retune.api._fill import filled, pruned
from dgdr_retune.api._json import TOO_DEEP, JsonValueError, canonical, same, without_deep_parts
from dgdr_retune.api._kinds import Kind
from dgdr_retune.api._ratchet import ABSENT, lacks_keys, stored_field, stored_item, unchanged
from dgdr_retune.api._rule import Rule, TransitionRule
from dgdr_retune.api._shape import FreeObject, List, Object, Scalar, Shape
from dgdr_retune.api._view import UnreadableError, View, check_readable

Json = Any
Subresource = Literal["", "status"]
FaultReason = Literal[
    "FieldValueDuplicate",
    "FieldValueInvalid",
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
]

_BLOCKING: Final = {
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
}
"""Faults for which a server asks no rules, unless they were stored."""

_SHOWN_MAX: Final = 100
"""Characters of a value that a message repeats."""

_TYPES: Final = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


@frozen
class Fault:
    """One thing that is wrong with an object.

    Attributes:
        path: of the field, such as `spec.backends[0]`; empty for the whole object.
        detail: what is wrong, in the words of an API server.
        reason: the kind of fault, as the causes of an API server's Status name it.
        stored: whether the field is as it was stored, so that the fault is no reason to refuse an update.
        unreadable: whether a rule could not be asked, for it reads a value of a wrong type; such a fault is a reason to
            refuse every update, even one of another part.
        by_rule: whether a rule found it. A server asks the rules of the whole object, whichever part is written.
    """

    path: str
    detail: str
    reason: FaultReason = "FieldValueInvalid"
    stored: bool = False
    unreadable: bool = False
    by_rule: bool = False

    def __str__(self) -> str:
        """The line that a user reads."""
        return f"{self.path}: {self.detail}" if self.path else self.detail


def structural_faults(
    kind: Kind, new: Json, old: Json = None, *, subresource: Subresource = "", strict: bool = True
) -> tuple[Fault, ...]:
    """What an API server with our CRD of this kind finds, in the order of the object's fields.

    Besides, nesting deeper than `MAX_DEPTH` is a fault, though a server stores it; an update may leave it as it is.

    Args:
        kind: of the object.
        new: the object as it was sent.
        old: the stored object of an update, None for a create.
        subresource: what the request is for. The main resource leaves the status as it is stored, `status` all else.
        strict: whether unknown fields are refused (fieldValidation=Strict) or dropped.
    """
    new, deep = without_deep_parts(new)
    old, stored_deep = without_deep_parts(old)
    too_deep = (Fault("", TOO_DEEP, stored=same(deep, stored_deep)),) if deep else ()
    try:
        canonical(new)
        canonical(old)
    except JsonValueError as error:
        return (Fault("", str(error)),)
    if any(not each.stored for each in too_deep):
        return too_deep
    shape = kind.shape
    kept = pruned(shape, new)
    unknown = tuple(Fault(path, f'unknown field "{path}"') for path in kept.unknown) if strict else ()
    value = filled(shape, kept.value, by_crd=True)
    stored = ABSENT if old is None else filled(shape, pruned(shape, old).value, by_crd=True)
    faults = _object_faults(shape, value, stored, subresource)
    if stored is not ABSENT and lacks_keys(shape, stored):
        # once two items of one key are stored, a server lets every update pass that has such items
        faults = tuple(evolve(each, stored=each.stored or each.reason == "FieldValueDuplicate") for each in faults)
    if any(each.reason in _BLOCKING and not each.stored for each in faults):
        faults = tuple(each for each in faults if not each.unreadable)
    return too_deep + unknown + faults


def _object_faults(shape: Object, value: Json, stored: Json, subresource: Subresource) -> tuple[Fault, ...]:
    """The faults of the part that is written; of the rest, only those that refuse every update.

    They are that a rule cannot be asked about it and, where a server cannot tell that nothing changed, that a rule does
    not hold; those of a stored status also that it has a wrong type.
    """
    if not isinstance(value, dict):
        return tuple(_faults(shape, value, stored, ""))
    before = stored if isinstance(stored, dict) else {}
    written, rest = (value, before) if subresource == "status" else (before, value)
    whole = {name: item for name, item in rest.items() if name != "status"}
    whole |= {"status": written["status"]} if "status" in written else {}
    return tuple(
        fault
        for fault in _faults(shape, whole, stored, "")
        if fault.unreadable
        or (fault.path.split(".")[0] == "status") is (subresource == "status")
        or (not fault.stored and (fault.by_rule or not subresource))
    )


def _faults(shape: Shape, value: Json, old: Json, path: str) -> list[Fault]:
    faults = [*_own_and_below(shape, value, old, path), *_rule_faults(shape, value, old, path)]
    if faults and unchanged(shape, value, old):
        return [fault if fault.unreadable else evolve(fault, stored=True) for fault in faults]
    return faults


def _own_and_below(shape: Shape, value: Json, old: Json, path: str) -> Iterator[Fault]:
    match shape, value:
        case Object(), dict():
            yield from _field_faults(shape, value, old, path)
        case List(), list():
            yield from _item_faults(shape, value, old, path)
        case Scalar(), _:
            yield from _scalar_faults(shape, value, path)
        case ((Object() | FreeObject()), _) if not isinstance(value, dict):
            yield _wrong_type(path, "object", value)
        case List(), _:
            yield _wrong_type(path, "array", value)


def _field_faults(shape: Object, value: dict[str, Json], old: Json, path: str) -> Iterator[Fault]:
    for each in shape.fields:
        below = f"{path}.{each.name}" if path else each.name
        if each.name in value:
            yield from _faults(each.shape, value[each.name], stored_field(old, each.name), below)
        elif each.presence is Presence.REQUIRED:
            yield Fault(below, "Required value", "FieldValueRequired")


def _item_faults(shape: List, value: list[Json], old: Json, path: str) -> Iterator[Fault]:
    for index, item in enumerate(value):
        yield from _faults(shape.item, item, stored_item(shape, item, old), f"{path}[{index}]")
    if shape.min_length is not None and len(value) < shape.min_length:
        yield Fault(path, f"Invalid value: should have at least {shape.min_length} items")
    if shape.max_length is not None and len(value) > shape.max_length:
        yield Fault(path, f"Too many: {len(value)}: must have at most {shape.max_length} items", "FieldValueTooMany")
    if shape.key is not None:
        keys = [item.get(shape.key) for item in value if isinstance(item, dict)]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                detail = f'Duplicate value: {{"{shape.key}":{json.dumps(key)}}}'
                yield Fault(f"{path}[{index}]", detail, "FieldValueDuplicate")


def _scalar_faults(shape: Scalar, value: Json, path: str) -> Iterator[Fault]:
    if not _is_of(shape, value):
        yield _wrong_type(path, shape.type, value)
        return
    shown = f"Invalid value: {_shown(value)}:"
    if isinstance(value, str):
        if shape.enum and value not in shape.enum:
            supported = ", ".join(f'"{each}"' for each in shape.enum)
            detail = f"Unsupported value: {_shown(value)}: supported values: {supported}"
            yield Fault(path, detail, "FieldValueNotSupported")
        if shape.min_length is not None and len(value) < shape.min_length:
            yield Fault(path, f"{shown} should be at least {shape.min_length} chars long")
        if shape.max_length is not None and len(value) > shape.max_length:
            detail = f"Too long: may not be more than {shape.max_length} characters"
            yield Fault(path, detail, "FieldValueTooLong")
        return
    if shape.minimum is not None and value < shape.minimum:
        yield Fault(path, f"{shown} should be greater than or equal to {shape.minimum}")
    if shape.above is not None and value <= shape.above:
        yield Fault(path, f"{shown} should be greater than {shape.above}")
    if shape.maximum is not None and value > shape.maximum:
        yield Fault(path, f"{shown} should be less than or equal to {shape.maximum}")


def _shown(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _is_of(shape: Scalar, value: Json) -> bool:
    match shape.type:
        case "string":
            return isinstance(value, str)
        case "integer":
            whole = isinstance(value, float) and value.is_integer()
            return whole or (isinstance(value, int) and not isinstance(value, bool))
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong_type(path: str, expected: str, value: Json) -> Fault:
    given = "null" if value is None else _TYPES[type(value)]
    detail = f'Invalid value: "{given}": must be of type {expected}: "{given}"'
    return Fault(path, detail, "FieldValueTypeInvalid")


def _rule_faults(shape: Shape, value: Json, old: Json, path: str) -> Iterator[Fault]:
    for rule in shape.rules:
        try:
            holds = _holds(rule, shape, value, old)
        except UnreadableError as error:
            detail = f"Invalid value: {error}, so that a rule cannot be asked: {rule.message}"
            yield Fault(path, detail, unreadable=True, by_rule=True)
            continue
        if not holds:
            below = ".".join(part for part in (path, rule.field) if part)
            yield Fault(below, f"Invalid value: {rule.message}", by_rule=True)


def _holds(rule: Rule | TransitionRule, shape: Shape, value: Json, old: Json) -> bool:
    check_readable(shape, value)
    if isinstance(rule, Rule):
        return rule.holds(View(shape, value) if isinstance(shape, Object) else value)
    if not isinstance(shape, Object) or not isinstance(old, dict) or rule.field not in old:
        return True
    if rule.field not in value:
        return False
    kept = shape.by_name[rule.field].shape
    check_readable(kept, value[rule.field], deep=True)
    return same(_comparable(kept, value[rule.field]), _comparable(kept, old[rule.field]))


def _comparable(shape: Shape, value: Json) -> Json:
    """The value as a server compares it with the stored one: a declared number is a double, however it was written."""
    match shape, value:
        case Object(), dict():
            fields = shape.by_name
            return {name: _comparable(fields[name].shape, v) if name in fields else v for name, v in value.items()}
        case List(), list():
            return [_comparable(shape.item, item) for item in value]
        case Scalar(type="number"), int():
            return float(value)
    return value
