"""Cases that every judge is asked: builders for both sides of each kind of bound."""

from collections.abc import Iterator
from typing import Any

from attrs import frozen
from tests.contract.row import cut, put

Json = Any

REQUIRED = "Required value"
TOO_SMALL = "should be greater than or equal to"
NOT_ABOVE = "should be greater than"
TOO_LARGE = "should be less than or equal to"
TOO_SHORT = "should be at least"
TOO_LONG = "Too long"
TOO_FEW = "should have at least"
TOO_MANY = "Too many"
UNSUPPORTED = "Unsupported value"

INT32_MAX = 2147483647
NUMBER_MAX = 1000000000


@frozen
class Case:
    """A value (a specification or a status) and its verdict; paths are relative to it."""

    constraint: str
    note: str
    value: Json
    refused: str = ""
    field: str = ""
    stored: Json = None


def required(base: Json, *paths: str) -> Iterator[Case]:
    """Fields that must be there."""
    for path in paths:
        yield Case(f"{path}:required", "present", base)
        yield Case(f"{path}:required", "absent", cut(base, path), REQUIRED, path)
        yield Case(f"{path}:required", "null", put(base, path, None), REQUIRED, path)


def typed(base: Json, path: str, wrong: Json, expected: str) -> Iterator[Case]:
    """A value of a wrong type."""
    yield Case(f"{path}:type", f"{wrong!r}", put(base, path, wrong), f"must be of type {expected}", path)


def objects(base: Json, *paths: str) -> Iterator[Case]:
    """Fields that are objects."""
    for path in paths:
        yield Case(f"{path}:type", "object", base)
        yield from typed(base, path, ["x"], "object")
        yield from typed(base, path, "x", "object")


def text(base: Json, path: str, *, min_length: int | None, max_length: int, letter: str = "a") -> Iterator[Case]:
    """A string from a shortest to a longest one."""
    yield Case(f"{path}:type", "string", put(base, path, letter))
    yield from typed(base, path, 1, "string")
    yield from typed(base, path, ["a"], "string")
    if min_length is not None:
        yield Case(f"{path}:minLength", "shortest", put(base, path, letter * min_length))
        yield Case(f"{path}:minLength", "too short", put(base, path, letter * (min_length - 1)), TOO_SHORT, path)
    yield Case(f"{path}:maxLength", "longest", put(base, path, letter * max_length))
    yield Case(f"{path}:maxLength", "too long", put(base, path, letter * (max_length + 1)), TOO_LONG, path)


def count(base: Json, path: str, minimum: int = 1, maximum: int = INT32_MAX) -> Iterator[Case]:
    """From a least to a most whole number."""
    yield Case(f"{path}:type", "integer", put(base, path, minimum))
    yield from typed(base, path, 1.5, "integer")
    yield from typed(base, path, "1", "integer")
    yield from typed(base, path, True, "integer")
    yield Case(f"{path}:minimum", "least", put(base, path, minimum))
    yield Case(f"{path}:minimum", "less", put(base, path, minimum - 1), TOO_SMALL, path)
    yield Case(f"{path}:maximum", "most", put(base, path, maximum))
    yield Case(f"{path}:maximum", "more", put(base, path, maximum + 1), TOO_LARGE, path)


def positive(base: Json, path: str) -> Iterator[Case]:
    """A number above 0."""
    yield Case(f"{path}:type", "number", put(base, path, 1.5))
    yield Case(f"{path}:type", "integer", put(base, path, 1))
    yield from typed(base, path, "1", "number")
    yield from typed(base, path, False, "number")
    yield Case(f"{path}:exclusiveMinimum", "just above", put(base, path, 1e-9))
    yield Case(f"{path}:exclusiveMinimum", "zero", put(base, path, 0), NOT_ABOVE, path)
    yield Case(f"{path}:exclusiveMinimum", "negative", put(base, path, -0.5), NOT_ABOVE, path)
    yield Case(f"{path}:maximum", "most", put(base, path, NUMBER_MAX))
    yield Case(f"{path}:maximum", "more", put(base, path, NUMBER_MAX + 0.5), TOO_LARGE, path)


def enum(base: Json, path: str, values: tuple[str, ...], wrong: tuple[str, ...]) -> Iterator[Case]:
    """One of some strings."""
    yield Case(f"{path}:type", "string", put(base, path, values[0]))
    for value in values:
        yield Case(f"{path}:enum", value, put(base, path, value))
    for value in wrong:
        yield Case(f"{path}:enum", f"not {value}", put(base, path, value), UNSUPPORTED, path)
    yield from typed(base, path, 1, "string")


def rule(rule: str, base: Json, path: str, good: tuple[Json, ...], bad: tuple[Json, ...]) -> Iterator[Case]:
    """Both sides of a rule, which `rule` names as path:message."""
    constraint, message = rule.split(":", 1)
    for number, value in enumerate(good):
        yield Case(rule, f"good {number} {value!r:.40}", put(base, path, value))
    for number, value in enumerate(bad):
        yield Case(rule, f"bad {number} {value!r:.40}", put(base, path, value), message, constraint)
