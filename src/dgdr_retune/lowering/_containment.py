"""Whether a Run's input contains all that its Request asked for."""

import json
import re
from typing import Any, Final

from attrs import frozen

Json = Any

ABSENT: Final = object()
"""Stands for a value that is not there."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@frozen
class Difference:
    """The first place where a document lacks what is expected.

    Attributes:
        path: such as `traffic.source.paths[0]` or `adapters["dynamo.router"]`; empty for the whole document.
        expected: what should be there.
        actual: what is there, `ABSENT` for nothing.
    """

    path: str
    expected: Json
    actual: Json

    def __str__(self) -> str:
        """One line for people."""
        found = "nothing" if self.actual is ABSENT else json.dumps(self.actual)
        return f"{self.path or 'the document'}: expected {json.dumps(self.expected)}, found {found}"


def first_difference(expected: Json, actual: Json, path: str = "") -> Difference | None:
    """The first part of `expected`, in its order, that `actual` does not contain; None if it contains everything.

    An object contains another if it has each of its keys and contains their values; a list must be as long, item for
    item. Numbers are compared by value (1 equals 1.0); true and 1 differ.
    """
    match expected, actual:
        case dict(), dict():
            for name, value in expected.items():
                below = first_difference(value, actual.get(name, ABSENT), _below(path, name))
                if below is not None:
                    return below
            return None
        case list(), list() if len(expected) == len(actual):
            for index, (value, found) in enumerate(zip(expected, actual, strict=True)):
                below = first_difference(value, found, f"{path}[{index}]")
                if below is not None:
                    return below
            return None
    return None if _equal(expected, actual) else Difference(path, expected, actual)


def _equal(expected: Json, actual: Json) -> bool:
    scalars = (str, int, float, type(None))
    both_or_no_bool = isinstance(expected, bool) == isinstance(actual, bool)
    return both_or_no_bool and isinstance(expected, scalars) and isinstance(actual, scalars) and expected == actual


def _below(path: str, name: str) -> str:
    if not _PLAIN_KEY.fullmatch(name):
        return f"{path}[{json.dumps(name)}]"
    return f"{path}.{name}" if path else name
