"""JSON as kube-apiserver holds it: int64 and float64 are told apart; a whole float comes back from storage as int64."""

import json
import re
from typing import Any, Final, NoReturn

Json = Any
"""A JSON value: dict, list, str, int, float, bool or None."""

MAX_DEPTH: Final = 200
"""Deepest nesting that is simulated; a real server goes to 10000."""

_TOO_DEEP: Final = f"nested more than {MAX_DEPTH} levels deep, which is not simulated"
_INT64_LIMIT: Final = 2**63
_CONTAINERS: Final = (dict, list)
_CHANGING: Final = (*_CONTAINERS, float)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class _Object(dict[str, Json]):
    """A decoded object that remembers which of its keys came twice."""

    repeated: tuple[str, ...] = ()


def decode(body: bytes | str) -> tuple[Json, tuple[str, ...]]:
    """The value, and the paths of keys that appear twice in one object (the last one counts).

    Raises:
        ValueError: the body is not JSON (NaN and infinities are not), or nested deeper than :data:`MAX_DEPTH`.
    """
    text = body if isinstance(body, str) else body.decode("utf-8", "replace")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_int, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError(_TOO_DEEP)
    return (_paired(value) if _SURROGATE.search(text) else value), tuple(_repeated(value, ""))


def encode(value: Json) -> bytes:
    """The shortest JSON text, keys sorted, as UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode()


def stored(value: Json) -> Json:
    """A copy of the value as it comes back from storage: whole floats in the range of int64 are integers."""
    match value:
        case dict():
            return {key: stored(item) if isinstance(item, _CHANGING) else item for key, item in value.items()}
        case list():
            return [stored(item) if isinstance(item, _CHANGING) else item for item in value]
        case float() if value.is_integer() and -_INT64_LIMIT <= value < _INT64_LIMIT:
            return int(value)
    return value


def copied(value: Json) -> Json:
    """A copy that shares nothing that can change."""
    match value:
        case dict():
            return {key: copied(item) if isinstance(item, _CONTAINERS) else item for key, item in value.items()}
        case list():
            return [copied(item) if isinstance(item, _CONTAINERS) else item for item in value]
    return value


def same(left: Json, right: Json) -> bool:
    """Equal in value and in type: 1 and 1.0 differ, and so do 1 and true."""
    match left, right:
        case dict(), dict():
            return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
        case list(), list():
            return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def _is_deeper(value: Json, depth: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth < 0 or any(_is_deeper(item, depth - 1) for item in items)


def _object(pairs: list[tuple[str, Json]]) -> _Object:
    value = _Object(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        value.repeated = tuple(key for key in value if keys.count(key) > 1)
    return value


def _paired(value: Json) -> Json:
    """The value with U+FFFD for each half of a surrogate pair that stands alone."""
    match value:
        case dict():
            return {_paired(key): _paired(item) for key, item in value.items()}
        case list():
            return [_paired(item) for item in value]
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _int(digits: str) -> int | float:
    number = int(digits)
    return number if -_INT64_LIMIT <= number < _INT64_LIMIT else float(digits)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _repeated(value: Json, path: str) -> list[str]:
    match value:
        case _Object():
            prefix = f"{path}." if path else ""
            below = [each for key, item in value.items() for each in _repeated(item, f"{prefix}{key}")]
            return [*(f"{prefix}{key}" for key in value.repeated), *below]
        case list():
            return [each for index, item in enumerate(value) for each in _repeated(item, f"{path}[{index}]")]
    return []
