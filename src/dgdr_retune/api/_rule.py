"""What a rule is: an expression for an API server, the same in Python, and the message for both."""

from collections.abc import Callable
from typing import Any

from attrs import frozen

Json = Any


@frozen
class Rule:
    """A rule on a field's value or on an object.

    Attributes:
        cel: the expression of the CRD; `self` is the value, `oldSelf` the stored one.
        holds: the same in Python, of a `View` for an object and of the value itself for anything else.
        message: what a user reads when it does not hold.
        field: dotted path below `self` that the error names; empty for `self`.
    """

    cel: str
    holds: Callable[[Any], bool]
    message: str
    field: str = ""


@frozen
class TransitionRule:
    """A rule on an update: the field keeps its value. It is asked only where there is a stored object.

    Attributes:
        cel, message: as in `Rule`.
        field: the one that keeps its value.
    """

    cel: str
    message: str
    field: str
