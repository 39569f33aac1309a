"""An object as a rule of an API server sees it: with the types of its schema, or not at all."""

from collections.abc import Callable
from typing import Any, cast

from attrs import frozen

from dgdr_retune.api._json import is_int64
from dgdr_retune.api._shape import FreeObject, List, Object, Scalar, Shape

Json = Any


class UnreadableError(Exception):
    """A rule reads a value that is not there, or not of its schema's type. A server refuses the object then."""


@frozen
class View:
    """An object behind its shape."""

    shape: Object
    value: dict[str, Json]

    def has(self, name: str) -> bool:
        """Whether the field is set. Errors: `UnreadableError` for a value of a wrong type."""
        if name not in self.value:
            return False
        self.read(name)
        return True

    def read(self, name: str) -> Json:
        """The field's value. Errors: `UnreadableError`."""
        if name not in self.value:
            raise UnreadableError(f"no such key: {name}")
        check_readable(self.shape.by_name[name].shape, self.value[name])
        return self.value[name]

    def at(self, *names: str) -> "View":
        """The object at the end of a path. Errors: `UnreadableError`."""
        view = self
        for name in names:
            view = View(cast("Object", view.shape.by_name[name].shape), view.read(name))
        return view


def either(*sides: Callable[[], bool]) -> bool:
    """CEL's `||`: true if one side is, although another cannot be read."""
    return _decided(sides, by=True)


def both(*sides: Callable[[], bool]) -> bool:
    """CEL's `&&`: false if one side is, although another cannot be read."""
    return _decided(sides, by=False)


def _decided(sides: tuple[Callable[[], bool], ...], *, by: bool) -> bool:
    unreadable: UnreadableError | None = None
    for side in sides:
        try:
            if side() is by:
                return by
        except UnreadableError as error:
            unreadable = unreadable or error
    if unreadable is not None:
        raise unreadable
    return not by


def check_readable(shape: Shape, value: Json, *, deep: bool = False) -> None:
    """Whether a server can convert the value for a rule.

    Args:
        shape: of the value.
        value: to a server an integer that was sent as 10.0 is none (it sends 10 back, once it is stored), nor is one
            beyond 64 bits.
        deep: also everything below it that is declared.

    Errors: `UnreadableError`.
    """
    match shape:
        case Object() | FreeObject():
            expected: tuple[str, type | tuple[type, ...]] = ("a map", dict)
        case List():
            expected = ("an array", list)
        case Scalar(type="string"):
            expected = ("string", str)
        case Scalar(type="integer"):
            expected = ("int", int)
        case Scalar():
            expected = ("float", (int, float))
    name, types = expected
    too_large = name == "int" and isinstance(value, int) and not is_int64(value)
    if isinstance(value, bool) or not isinstance(value, types) or too_large:
        raise UnreadableError(f"invalid data, expected {name}, got {type(value).__name__}")
    if deep:
        _check_below(shape, value)


def _check_below(shape: Shape, value: Json) -> None:
    match shape:
        case Object():
            for name, item in value.items():
                if name in shape.by_name:
                    check_readable(shape.by_name[name].shape, item, deep=True)
        case List():
            for item in value:
                check_readable(shape.item, item, deep=True)
