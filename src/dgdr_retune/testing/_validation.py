"""The judgement of a value by its schema: types, bounds, enums, required fields, list keys; unchanged faults pass.

The texts are those of kube-apiserver, so that a test may look for them here and there alike. What is ratcheted on an
update follows KEP-4008 as it is built: a fault below a value that equals the stored one is forgiven, where the two can
be told to belong together (fields by name, items of a list of type map by their keys, nothing inside an atomic list),
and an object that holds anything the schema does not describe never counts as equal.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final, Self

from attrs import field, frozen

from dgdr_retune.testing._cel import pattern_matches
from dgdr_retune.testing._errors import Cause, FieldReason
from dgdr_retune.testing._go import shown
from dgdr_retune.testing._json import Json, same
from dgdr_retune.testing._schema import Node

_DATE_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_TYPES: Final = (
    (type(None), "null"),
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (list, "array"),
    (dict, "object"),
)
_EXACT_LIMIT: Final = 2**53  # whole floats from here on pass for no integer
_LIMITS: Final = {"int32": 2**31, "int64": 2**63, "": 2**63}


@frozen
class Correlation:
    """A value with the stored one that belongs to it."""

    new: Json
    old: Json
    node: Node
    _equal: list[bool] = field(factory=list, init=False, eq=False, repr=False)

    def equal(self) -> bool:
        """Whether nothing changed here and below; unknown content always counts as changed."""
        if not self._equal:
            self._equal.append(self._compare())
        return self._equal[0]

    def key(self, name: str) -> Self | None:
        """The same for one field."""
        child = self.node.child(name)
        if child is None or not (isinstance(self.new, dict) and isinstance(self.old, dict)):
            return None
        if name not in self.new or name not in self.old:
            return None
        return type(self)(self.new[name], self.old[name], child)

    def index(self, index: int) -> Self | None:
        """The same for one item; only a list of type map tells which stored item it was."""
        item = stored_item(self.new[index], self.old, self.node)
        if item is None or self.node.items is None:
            return None
        return type(self)(self.new[index], item, self.node.items)

    def _compare(self) -> bool:
        match self.new, self.old:
            case dict(), dict():
                if len(self.new) != len(self.old):
                    return False
                return all((child := self.key(name)) is not None and child.equal() for name in self.new)
            case list(), list():
                if len(self.new) != len(self.old):
                    return False
                if self.node.list_type != "map":
                    return same(self.new, self.old)
                return all((child := self.index(i)) is not None and child.equal() for i in range(len(self.new)))
        return same(self.new, self.old)


def stored_item(item: Json, old: Json, node: Node) -> dict[str, Json] | None:
    """The stored item of a list of type map that has the keys of a new one; a key must be there and no list or object.

    Args:
        item: the new one.
        old: the stored list.
        node: the schema of the list.
    """
    if node.list_type != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return None
    if not all(isinstance(item.get(key), str | int | float) for key in node.list_keys):
        return None
    key = list_key(item, node.list_keys)
    return next((each for each in old if isinstance(each, dict) and list_key(each, node.list_keys) == key), None)


def list_key(item: Json, keys: Sequence[str]) -> tuple[str, ...]:
    """What tells an item of a list of type map from the others."""
    return tuple(json.dumps(item.get(key)) for key in keys) if isinstance(item, dict) else ()


def schema_faults(value: Json, node: Node, path: str, stored: Correlation | None = None) -> list[Cause]:
    """The faults of a value by its schema, rules apart; with ``stored``, those that an update forgives are left out.

    ``path`` is that of the value; a fault that upstream gives no path has none.
    """
    found = list(_faults(value, node, path, stored))
    return [] if stored is not None and stored.equal() else found


def _faults(value: Json, node: Node, path: str, stored: Correlation | None) -> Iterator[Cause]:
    yield from _type_fault(value, node, path)
    match value:
        case dict():
            yield from _object_faults(value, node, path, stored)
        case list():
            yield from _list_faults(value, node, path, stored)
        case str():
            yield from _string_faults(value, node, path)
        case int() | float() if not isinstance(value, bool):
            yield from _number_faults(value, node, path)
    if node.enum and not any(same(value, each) for each in node.enum):
        allowed = ", ".join(map(shown, node.enum))
        yield Cause(path, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {allowed}")


def _type_fault(value: Json, node: Node, path: str) -> Iterator[Cause]:
    wanted = ["integer", "string"] if node.int_or_string else [node.type] if node.type else []
    if not wanted or (value is None and node.nullable):
        return
    given = _json_type(value)
    if node.type == "string" and node.format and given in ("string", "array"):
        return  # as upstream: a list passes for a string with a format
    whole = "integer" in wanted and isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_LIMIT
    if given in wanted or whole or (given == "integer" and "number" in wanted):
        return
    detail = f'{path} in body must be of type {",".join(wanted)}: "{given}"'
    yield Cause(path, "FieldValueTypeInvalid", f'Invalid value: "{given}": {detail}')


def _json_type(value: Json) -> str:
    return next(name for kind, name in _TYPES if isinstance(value, kind))


def _object_faults(value: dict[str, Json], node: Node, path: str, stored: Correlation | None) -> Iterator[Cause]:
    if node.min_properties is not None and len(value) < node.min_properties:
        yield _invalid(path, len(value), f"{path} in body should have at least {node.min_properties} properties")
    if node.max_properties is not None and len(value) > node.max_properties:
        yield _too_many(path, len(value), node.max_properties)
    for name, item in value.items():
        if (child := node.child(name)) is not None:
            correlated = stored.key(name) if stored is not None else None
            yield from schema_faults(item, child, f"{path}.{name}".lstrip("."), correlated)
    for name in node.required:
        if name not in value:
            yield Cause(f"{path}.{name}".lstrip("."), "FieldValueRequired", "Required value")


def _list_faults(value: list[Json], node: Node, path: str, stored: Correlation | None) -> Iterator[Cause]:
    if node.items is not None:
        for index, item in enumerate(value):
            correlated = stored.index(index) if stored is not None else None
            yield from schema_faults(item, node.items, f"{path}[{index}]", correlated)
    if node.min_items is not None and len(value) < node.min_items:
        yield _invalid(path, len(value), f"{path} in body should have at least {node.min_items} items")
    if node.max_items is not None and len(value) > node.max_items:
        yield _too_many(path, len(value), node.max_items)


def _string_faults(value: str, node: Node, path: str) -> Iterator[Cause]:
    if node.max_length is not None and len(value) > node.max_length:
        yield Cause(path, "FieldValueTooLong", f"Too long: may not be more than {node.max_length} bytes")
    elif node.min_length is not None and len(value) < node.min_length:
        yield _invalid(path, value, f"{path} in body should be at least {node.min_length} chars long")
    elif node.pattern and not pattern_matches(node.pattern, value):
        yield _invalid(path, value, f"{path} in body should match '{node.pattern}'")
    if node.type == "string" and node.format == "date-time" and not is_date_time(value):
        detail = f"{path} in body must be of type {node.format}: {shown(value)}"
        yield Cause(path, "FieldValueTypeInvalid", f"Invalid value: {shown(value)}: {detail}")


def is_date_time(text: str) -> bool:
    """Whether it is a date and a time of RFC 3339, by the server's reading."""
    day, separator, rest = text.lower().partition("t")
    time = _DATE_TIME.fullmatch(rest.split("t")[0])
    if not separator or not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", day) or time is None:
        return False
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    hour, minute, second = time.groups()
    return hour <= "23" and minute <= "59" and second <= "59"


def _number_faults(value: float, node: Node, path: str) -> Iterator[Cause]:
    limit = _LIMITS.get(node.format, math.inf)
    if node.type == "integer" and not (value == math.trunc(value) and -limit <= value < limit):
        form = f"with format {node.format}" if node.format else "(default format)"
        detail = f"Checked value must be of type integer {form} in {path}"
        yield Cause("", "FieldValueInvalid", f'Invalid value: "": {detail}')
    if node.maximum is not None:
        bound = math.trunc(node.maximum) if isinstance(value, int) else float(node.maximum)
        if value > bound or (node.exclusive_maximum and value == bound):
            form = "less than" if node.exclusive_maximum else "less than or equal to"
            yield _invalid(path, value, f"{path} in body should be {form} {shown(bound)}")
    if node.minimum is not None:
        bound = math.trunc(node.minimum) if isinstance(value, int) else float(node.minimum)
        if value < bound or (node.exclusive_minimum and value == bound):
            form = "greater than" if node.exclusive_minimum else "greater than or equal to"
            yield _invalid(path, value, f"{path} in body should be {form} {shown(bound)}")


def item_faults(value: Json, node: Node, path: str) -> Iterator[Cause]:
    """What is wrong with the items of lists of type set or map as such: they are there twice, or have no keys."""
    match value:
        case dict():
            for name, item in value.items():
                if (child := node.child(name)) is not None:
                    yield from item_faults(item, child, f"{path}.{name}".lstrip("."))
        case list():
            if node.list_type == "set":
                yield from _repeated([json.dumps(item) for item in value], value, path)
            if node.list_type == "map":
                yield from _map_faults(value, node, path)
            if node.items is not None:
                for index, item in enumerate(value):
                    yield from item_faults(item, node.items, f"{path}[{index}]")


def _map_faults(items: list[Json], node: Node, path: str) -> Iterator[Cause]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            yield _invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            return
    keys = [list_key(item, node.list_keys) for item in items]
    named = [{name: item[name] for name in node.list_keys if name in item} if item else {} for item in items]
    yield from _repeated(keys, named, path)


def _repeated(keys: Sequence[object], named: Sequence[Json], path: str) -> Iterator[Cause]:
    """The items whose key comes for the second time."""
    for index, key in enumerate(keys):
        if keys[:index].count(key) == 1:
            yield Cause(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {shown(named[index])}")


def _invalid(path: str, value: Json, detail: str, reason: FieldReason = "FieldValueInvalid") -> Cause:
    return Cause(path, reason, f"Invalid value: {shown(value)}: {detail}")


def _too_many(path: str, actual: int, allowed: int) -> Cause:
    return Cause(path, "FieldValueTooMany", f"Too many: {actual}: must have at most {allowed} items")
