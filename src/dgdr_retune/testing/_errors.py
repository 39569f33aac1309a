"""What an API server answers when it refuses: a Status object with a code, a reason and, for a field, its causes."""

from typing import Final, Literal

from attrs import field, frozen

from dgdr_retune.testing._json import Json

FieldReason = Literal[
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
    "FieldValueInvalid",
    "FieldValueDuplicate",
    "FieldValueForbidden",
]

BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
"""Faults of the schema after which the rules of the CRD are not asked."""


@frozen(order=True)
class Cause:
    """A fault of one field.

    Attributes:
        field: its path, such as ``spec.backends[0]``.
        reason: the kind of fault.
        message: what follows the path in the server's text.
    """

    field: str
    reason: FieldReason
    message: str


@frozen
class ApiError(Exception):
    """A refusal.

    Attributes:
        code: of HTTP.
        reason: of the Status: NotFound, AlreadyExists, Conflict, Invalid, BadRequest, Expired, Forbidden and others;
            empty for none.
        message: for people.
        causes: which fields are at fault, for Invalid.
        details: more of the Status's details (name, group, kind, uid).
    """

    code: int
    reason: str
    message: str
    causes: tuple[Cause, ...] = ()
    details: dict[str, Json] = field(factory=dict)

    def __str__(self) -> str:
        """The message."""
        return self.message

    def status(self) -> dict[str, Json]:
        """The Status object."""
        details = dict(self.details)
        if self.causes:
            details["causes"] = [
                {"field": each.field, "message": each.message, "reason": each.reason} for each in self.causes
            ]
        return {
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": details} if details else {}),
        }


def invalid_options(kind: str, cause: Cause) -> ApiError:
    """422: a parameter of the request has a value that is not known."""
    message = f'{kind}.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
    return ApiError(422, "Invalid", message, causes=(cause,), details={"group": "meta.k8s.io", "kind": kind})


def bad_request(message: str) -> ApiError:
    """400: the request itself cannot be read."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """410: the resource version is no longer there; list again."""
    return ApiError(410, "Expired", message)
