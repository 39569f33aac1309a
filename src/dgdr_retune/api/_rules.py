"""Rules that a schema's types and bounds cannot state: one declaration gives the CEL rule, the check and the message.

Each factory below is one kind of rule. Its CEL text and its Python predicate stand side by side and nowhere else; the
contract table (tests/contract) holds a row on each side of every rule, judged by a real API server and by Python.
"""

import re
from collections.abc import Callable
from typing import Any

from dgdr_retune.api._rule import Rule, TransitionRule
from dgdr_retune.api._view import UnreadableError, View, both, either


def matches(pattern: str, message: str) -> Rule:
    """The whole string matches; `pattern` is written for RE2 and Python alike and carries no anchors."""
    compiled = re.compile(pattern)
    return Rule(
        cel=f"self.matches(r'^(?:{pattern})$')", holds=lambda text: bool(compiled.fullmatch(text)), message=message
    )


def unique(message: str) -> Rule:
    """No two items of a list of strings are equal."""
    return Rule(
        cel="self.all(x, self.filter(y, y == x).size() == 1)",
        holds=lambda items: len(set(_texts(items))) == len(items),
        message=message,
    )


def exactly_one_of(*names: str) -> Rule:
    """Exactly one of the fields is set."""
    terms = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    return Rule(
        cel=f"{terms} == 1",
        holds=lambda view: sum(view.has(name) for name in names) == 1,
        message=f"set exactly one of {_listed(names)}",
    )


def alone_or_all_of(alone: str, others: tuple[str, ...]) -> Rule:
    """Either the one field alone, or all of the others without it."""
    absent = " && ".join(f"!has(self.{name})" for name in others)
    present = " && ".join(f"has(self.{name})" for name in others)
    return Rule(
        cel=f"has(self.{alone}) ? ({absent}) : ({present})",
        holds=lambda view: both(*(_has(view, name, wanted=not view.has(alone)) for name in others)),
        message=f"set {alone} alone, or {_listed(others)} together",
    )


def when(field: str, is_: str, *, message: str, requires: tuple[str, ...] = (), forbids: tuple[str, ...] = ()) -> Rule:
    """While the enum field has this value, some fields must be set and others must not be."""
    terms = [f"has(self.{name})" for name in requires] + [f"!has(self.{name})" for name in forbids]
    return Rule(
        cel=f"self.{field} != '{is_}' || ({' && '.join(terms)})",
        holds=lambda view: either(
            lambda: bool(view.read(field) != is_),
            lambda: both(
                *(_has(view, name, wanted=True) for name in requires),
                *(_has(view, name, wanted=False) for name in forbids),
            ),
        ),
        message=message,
    )


def forbidden(field: str, message: str) -> Rule:
    """The field is known and must not be set."""
    return Rule(cel=f"!has(self.{field})", holds=lambda view: not view.has(field), message=message, field=field)


def immutable(field: str, *, open_ended: bool = False) -> TransitionRule:
    """The field keeps the value it was created with. Safe for an object stored without it.

    An open-ended one is compared both ways, for a server overlooks keys of the left side that the schema does not
    declare and the right side does not have. That one such key takes the place of another one is seen neither way, but
    by Python.
    """
    same = f"self.{field} == oldSelf.{field}"
    return TransitionRule(
        cel=f"!has(oldSelf.{field}) || {f'({same} && oldSelf.{field} == self.{field})' if open_ended else same}",
        message=f"{field} is immutable; create a new object instead",
        field=field,
    )


def _has(view: View, name: str, *, wanted: bool) -> Callable[[], bool]:
    return lambda: view.has(name) is wanted


def _texts(items: list[Any]) -> list[str]:
    if not all(isinstance(item, str) for item in items):
        raise UnreadableError("invalid data, expected string")
    return items


def _listed(names: tuple[str, ...]) -> str:
    *head, last = names
    return f"{', '.join(head)} and {last}"
