"""Rules that a schema's types and bounds cannot state: one declaration gives the CEL rule, the check and the message.

Each factory below is one kind of rule. Its CEL text and its Python predicate stand side by side and nowhere else; the
contract table (tests/contract) holds a row on each side of every rule, judged by a real API server and by Python.
"""

import re
from collections.abc import Callable
from typing import Any

from attrs import frozen

from dgdr_retune.api._json import same

Json = Any
"""A JSON value as a rule sees it: declared fields that are null are absent, types and bounds already hold."""


@frozen
class Rule:
    """A rule on a field's value or on an object.

    Attributes:
        cel: the expression of the CRD; `self` is the value, `oldSelf` the stored one.
        holds: the same in Python.
        message: what a user reads when it does not hold.
        field: dotted path below `self` that the error names; empty for `self`.
        reads: fields of `self` that a server converts for the rule, and cannot if one is an integer written as 1.0.
    """

    cel: str
    holds: Callable[[Json], bool]
    message: str
    field: str = ""
    reads: tuple[str, ...] = ()


@frozen
class TransitionRule:
    """A rule on an update: it is asked only where there is a stored value, and is never ratcheted.

    Attributes:
        cel, message, field: as in `Rule`.
        holds: from the new and the stored value.
    """

    cel: str
    holds: Callable[[Json, Json], bool]
    message: str
    field: str = ""


def matches(pattern: str, message: str) -> Rule:
    """The whole string matches; `pattern` is written for RE2 and Python alike and carries no anchors."""
    compiled = re.compile(pattern)
    return Rule(
        cel=f"self.matches(r'^(?:{pattern})$')", holds=lambda text: bool(compiled.fullmatch(text)), message=message
    )


def unique(message: str) -> Rule:
    """No two items of a list of scalars are equal."""
    return Rule(
        cel="self.all(x, self.filter(y, y == x).size() == 1)",
        holds=lambda items: len(set(items)) == len(items),
        message=message,
    )


def exactly_one_of(*names: str) -> Rule:
    """Exactly one of the fields is set."""
    terms = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    return Rule(
        cel=f"{terms} == 1",
        holds=lambda value: sum(name in value for name in names) == 1,
        message=f"set exactly one of {_listed(names)}",
        reads=names,
    )


def alone_or_all_of(alone: str, others: tuple[str, ...]) -> Rule:
    """Either the one field alone, or all of the others without it."""
    absent = " && ".join(f"!has(self.{name})" for name in others)
    present = " && ".join(f"has(self.{name})" for name in others)
    return Rule(
        cel=f"has(self.{alone}) ? ({absent}) : ({present})",
        holds=lambda value: all((name in value) != (alone in value) for name in others),
        message=f"set {alone} alone, or {_listed(others)} together",
    )


def when(field: str, is_: str, *, message: str, requires: tuple[str, ...] = (), forbids: tuple[str, ...] = ()) -> Rule:
    """While the enum field has this value, some fields must be set and others must not be."""
    terms = [f"has(self.{name})" for name in requires] + [f"!has(self.{name})" for name in forbids]
    return Rule(
        cel=f"self.{field} != '{is_}' || ({' && '.join(terms)})",
        holds=lambda value: (
            value[field] != is_
            or (all(name in value for name in requires) and not any(name in value for name in forbids))
        ),
        message=message,
    )


def forbidden(field: str, message: str) -> Rule:
    """The field is known and must not be set."""
    return Rule(cel=f"!has(self.{field})", holds=lambda value: field not in value, message=message, field=field)


def immutable(field: str) -> TransitionRule:
    """The field keeps the value it was created with. Safe for an object stored without it."""
    return TransitionRule(
        cel=f"!has(oldSelf.{field}) || self.{field} == oldSelf.{field}",
        holds=lambda new, old: field not in old or (field in new and same(new[field], old[field])),
        message=f"{field} is immutable; create a new object instead",
        field=field,
    )


def _listed(names: tuple[str, ...]) -> str:
    *head, last = names
    return f"{', '.join(head)} and {last}"
