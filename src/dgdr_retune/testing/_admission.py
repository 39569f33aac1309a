"""Admission: what webhooks do to a write, as functions in this process."""

from collections.abc import Callable, Sequence
from typing import Literal

from attrs import frozen

from dgdr_retune.testing._json import Json
from dgdr_retune.testing._resources import Resource

Operation = Literal["CREATE", "UPDATE", "DELETE"]


@frozen
class Review:
    """A write that waits for admission.

    Attributes:
        operation: what is to be done.
        resource: to an object of what.
        subresource: ``status`` or empty.
        new: the object as it would be; None for a deletion.
        old: as it is; None for a creation.
    """

    operation: Operation
    resource: Resource
    subresource: str
    new: Json
    old: Json


def _unchanged(review: Review) -> Json:
    return review.new


def _silent(_: Review) -> Sequence[str]:
    return ()


@frozen
class Admission:
    """One webhook.

    Attributes:
        mutate: gives the object to go on with; asked before the schema judges, and not for deletions.
        validate: gives warnings, or raises :class:`ApiError` to refuse; asked after the schema.
    """

    mutate: Callable[[Review], Json] = _unchanged
    validate: Callable[[Review], Sequence[str]] = _silent
