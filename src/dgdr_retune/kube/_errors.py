"""What can become of a call, besides success: never sent, refused, or nobody knows."""

import json
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from attrs import frozen

from dgdr_retune.kube._resource import Json

RETRY_AFTER_CAP_S: Final = 60.0
"""No server is waited for longer than this at its own word."""

_INTERNAL_ERROR: Final = 500
_UNSAID: Final = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""Reasons of answers that are no Status object: from proxies, or for a path that is not served."""


class KubeError(Exception):
    """A call that did not succeed.

    Attributes:
        reason: what a program looks at.
    """

    reason: str

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class NotSentError(KubeError):
    """Nothing reached the server: safe to repeat."""

    def __init__(self, message: str, *, reason: str = "NotSent") -> None:
        super().__init__(message, reason=reason)


class MaybeAppliedError(KubeError):
    """There is no reply that says what happened: a write may have been applied, so read before anything else."""

    def __init__(self, message: str, *, reason: str = "ReplyLost") -> None:
        super().__init__(message, reason=reason)


@frozen
class Cause:
    """What is wrong with one field.

    Attributes:
        field: its path, such as ``spec.backends[0]``.
        reason: such as ``FieldValueInvalid``.
        message: for people.
    """

    field: str
    reason: str
    message: str


class RefusedError(KubeError):
    """The server said no, and nothing was changed.

    Attributes:
        status: of HTTP.
        reason: of the Status object: NotFound, AlreadyExists, Conflict, Invalid, Forbidden, …
        message: for people.
        causes: which fields are at fault.
        retry_after_s: what the server asks to wait, at most :data:`RETRY_AFTER_CAP_S`; None if it does not say.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str,
        causes: tuple[Cause, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason)
        self.message = message
        self.status = status
        self.causes = causes
        self.retry_after_s = retry_after_s


class NotFoundError(RefusedError):
    """404: there is no such object, or no such kind."""


class AlreadyExistsError(RefusedError):
    """409: the name is taken."""


class ConflictError(RefusedError):
    """409: the object is not, or no longer, the one that was meant."""


class InvalidError(RefusedError):
    """422: it will never be accepted as it is."""


class ForbiddenError(RefusedError):
    """403: not granted, or not now (a namespace that is going)."""


class GoneError(RefusedError):
    """410: the past that was asked for is forgotten; list again."""


_CLASSES: Final[Mapping[int, type[RefusedError]]] = {
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
}


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> RefusedError:
    """The error that an answer other than 2xx means."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.get("kind") != "Status":
        text = body[:200].decode("utf-8", "replace").strip() or "without an explanation"
        said = {"message": f"HTTP {status}: {text}"}
    return _refused(said, status, _retry_after_s(headers))


def refusal_of(said: Mapping[str, Json]) -> RefusedError:
    """The error that a Status object means which comes without HTTP's status."""
    code = said.get("code")
    return _refused(said, code if isinstance(code, int) else _INTERNAL_ERROR, None)


def _refused(said: Mapping[str, Json], status: int, retry_after_s: float | None) -> RefusedError:
    details = said.get("details")
    details = details if isinstance(details, dict) else {}
    if retry_after_s is None and isinstance(asked := details.get("retryAfterSeconds"), int) and asked > 0:
        retry_after_s = min(float(asked), RETRY_AFTER_CAP_S)
    reason = str(said.get("reason") or _UNSAID.get(status, "Unknown"))
    kind = AlreadyExistsError if (status, reason) == (409, "AlreadyExists") else _CLASSES.get(status, RefusedError)
    causes = details.get("causes")
    return kind(
        str(said.get("message") or f"HTTP {status}, {reason}"),
        status=status,
        reason=reason,
        causes=tuple(_cause(each) for each in causes if isinstance(each, dict)) if isinstance(causes, list) else (),
        retry_after_s=retry_after_s,
    )


def _cause(said: Mapping[str, Json]) -> Cause:
    return Cause(str(said.get("field", "")), str(said.get("reason", "")), str(said.get("message", "")))


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What ``Retry-After`` asks for, in seconds or as a date that is read against the server's own ``Date``."""
    said = headers.get("retry-after", "").strip()
    if said.isascii() and said.isdecimal():
        return min(float(said), RETRY_AFTER_CAP_S)
    until, now = _date(said), _date(headers.get("date", ""))
    if until is None or now is None:
        return None
    return min(max((until - now).total_seconds(), 0.0), RETRY_AFTER_CAP_S)


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo is not None else None
