"""Values as the rules of kube-apiserver see them, by their schema.

An integer field is an int, a number field a double, a time a timestamp; what the schema does not describe takes part in
comparisons and in nothing else. A value that is not of its field's type (1.0 for an integer; anything that was stored
before the schema and is left as it is) makes a rule fail wherever it is looked at, be it only for its presence.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from attrs import frozen

from dgdr_retune.testing._cel import CelError, evaluate
from dgdr_retune.testing._json import Json, encode
from dgdr_retune.testing._schema import Node

_GO_TYPES: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
_EXPECTED: Final[Mapping[str, str]] = {
    "object": "a map for the provided schema with type=object",
    "array": "an array for the provided schema with type=array",
}
_NAMES: Final[Mapping[str, str]] = {"integer": "int", "number": "float", "boolean": "bool", "string": "string"}
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {"string": (str,), "boolean": (bool,), "integer": (int,)}
_ABSENT: Final = object()


@frozen
class Unreadable:
    """A value that no rule can read.

    Attributes:
        problem: what the rule's failure says.
        whole: the integer that was sent as a float, None for anything else.
    """

    problem: str
    whole: int | None = None


def typed(value: Json, node: Node | None) -> Any:
    """A value as a rule sees it, with :class:`Unreadable` in place of what it cannot read."""
    if node is None or (node.type == "" and not node.int_or_string):
        return encode(value).decode()
    if value is None:
        return None if node.nullable else Unreadable("invalid data, got null for schema with nullable=false")
    match value:
        case dict() if node.type == "object":
            return {name: typed(item, node.child(name)) for name, item in value.items()}
        case list() if node.type == "array":
            return [typed(item, node.items) for item in value]
    return _scalar(value, node)


def holds(expression: str, variables: Mapping[str, Any]) -> bool:
    """Whether a rule holds for typed values.

    What cannot be read is tried as something that differs from everything, as something that does not, and as absent:
    a rule that does not look at it says the same each time.

    Raises:
        CelError: the rule cannot be evaluated, or looks at something unreadable.
    """
    problem = next((each.problem for value in variables.values() for each in _unreadable(value)), "")
    if not problem:
        return evaluate(expression, variables) is True
    if any(isinstance(value, Unreadable) for value in variables.values()):
        raise CelError(problem)
    verdicts = set()
    for replacement in (_apart, _alike, _absent):
        tried = {name: _replaced(value, replacement) for name, value in variables.items()}
        try:
            verdicts.add(evaluate(expression, tried) is True)
        except CelError as error:
            raise CelError(problem) from error
    if len(verdicts) > 1:
        raise CelError(problem)
    return verdicts.pop()


def _scalar(value: Json, node: Node) -> Any:
    if node.int_or_string:
        readable = type(value) in (str, int)
        problem = "invalid data, expected XIntOrString value to be either a string or integer"
        return value if readable else Unreadable(problem)
    if node.type == "string" and node.format == "date-time" and isinstance(value, str):
        return _time(value)
    if node.type == "number" and type(value) in (int, float):
        return float(value)
    if type(value) in _KINDS.get(node.type, ()):
        return value
    expected = _EXPECTED.get(node.type) or f"{_NAMES[node.type]}, got {_GO_TYPES[type(value)]}"
    whole = int(value) if node.type == "integer" and isinstance(value, float) and value.is_integer() else None
    return Unreadable(f"invalid data, expected {expected}", whole)


def _time(text: str) -> Any:
    try:
        moment = datetime.fromisoformat(text) if text else datetime.fromtimestamp(0, UTC)
    except ValueError:
        return Unreadable(f"Invalid date-time formatted string {text}")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _unreadable(value: Any) -> Iterator[Unreadable]:
    match value:
        case Unreadable():
            yield value
        case dict():
            for item in value.values():
                yield from _unreadable(item)
        case list():
            for item in value:
                yield from _unreadable(item)


def _apart(_: Unreadable) -> Any:
    return math.nan  # not even equal to itself


def _alike(value: Unreadable) -> Any:
    return False if value.whole is None else value.whole


def _absent(_: Unreadable) -> Any:
    return _ABSENT


def _replaced(value: Any, replacement: Callable[[Unreadable], Any]) -> Any:
    match value:
        case Unreadable():
            return replacement(value)
        case dict():
            items = ((name, _replaced(item, replacement)) for name, item in value.items())
            return {name: item for name, item in items if item is not _ABSENT}
        case list():
            items = (_replaced(item, replacement) for item in value)
            return [item for item in items if item is not _ABSENT]
    return value
