"""JSON values as an API server returns them: one form for each number, bounded nesting."""

import json
import math
from typing import Any, Final

MAX_DEPTH: Final = 100
"""Deepest nesting of a JSON value that this package handles; a real Request has fewer than 20 levels."""

TOO_DEEP: Final = f"the value is nested more than {MAX_DEPTH} levels deep; flatten it"

_INT64_LIMIT: Final = 2**63


class JsonValueError(ValueError):
    """A value that is no JSON, or one too deeply nested; `reason` is `NotJson` or `TooDeep`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def canonical(value: Any) -> Any:
    """The value as an API server would return it: a whole float in the range of int64 becomes an int.

    Errors: `JsonValueError` for NaN, infinities, keys that are no strings, types that JSON does not have, and nesting
    deeper than `MAX_DEPTH`.
    """
    return _canonical(value, MAX_DEPTH)


def _canonical(value: Any, depth: int) -> Any:
    if depth < 0:
        raise JsonValueError("TooDeep", TOO_DEEP)
    match value:
        case None | bool() | int():
            return value
        case str():
            return str(value)  # the text of a StrEnum, not the enum
        case float():
            if not math.isfinite(value):
                raise JsonValueError("NotJson", f"{value} is no JSON number; use a finite one")
            return int(value) if value.is_integer() and is_int64(value) else value
        case dict():
            return {_key(key): _canonical(item, depth - 1) for key, item in value.items()}
        case list() | tuple():
            return [_canonical(item, depth - 1) for item in value]
    raise JsonValueError("NotJson", f"{type(value).__name__} is no JSON type; use strings, numbers, lists and objects")


def without_deep_parts(value: Any) -> tuple[Any, dict[tuple[str | int, ...], Any]]:
    """A copy with a text in place of each part that goes deeper than `MAX_DEPTH`, and those parts by their paths."""
    parts: dict[tuple[str | int, ...], Any] = {}
    return _without_deep_parts(value, (), parts), parts


def _without_deep_parts(value: Any, path: tuple[str | int, ...], parts: dict[tuple[str | int, ...], Any]) -> Any:
    if not value or not isinstance(value, dict | list):
        return value
    if len(path) == MAX_DEPTH:
        parts[path] = value
        return TOO_DEEP
    if isinstance(value, dict):
        return {key: _without_deep_parts(item, (*path, key), parts) for key, item in value.items()}
    return [_without_deep_parts(item, (*path, index), parts) for index, item in enumerate(value)]


def is_int64(number: float) -> bool:
    """Whether the number is in the range of int64, outside of which a server reads an integer as a double."""
    return -_INT64_LIMIT <= number < _INT64_LIMIT


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise JsonValueError("NotJson", f"the key {key!r} is no string; quote it")
    return key


def canonical_json(value: Any) -> str:
    """The one text of a JSON value: sorted keys, no spaces, numbers as `canonical` gives them, ASCII only."""
    return json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type, as an API server compares what it stores: 1 and 1.0 differ, and so do 1 and true."""
    pairs = [(left, right)]
    while pairs:  # and no recursion: what a server holds may be nested more deeply than Python's stack goes
        match pairs.pop():
            case dict() as one, dict() as other:
                if one.keys() != other.keys():
                    return False
                pairs += [(item, other[key]) for key, item in one.items()]
            case list() as one, list() as other:
                if len(one) != len(other):
                    return False
                pairs += zip(one, other, strict=True)
            case one, other:
                if type(one) is not type(other) or one != other:
                    return False
    return True
