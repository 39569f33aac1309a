"""How an object is deleted: the options of the request, and what they leave for the garbage collector."""

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from dgdr_retune.testing._errors import Cause, bad_request, invalid_options
from dgdr_retune.testing._judgement import read_body

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


@frozen
class Deletion:
    """DeleteOptions.

    Attributes:
        policy: what happens to dependents: Background, Foreground, Orphan, or empty for the kind's own.
        preconditions: the `uid` and the `resourceVersion` that the object must have.
        grace_s: how long a pod may take to end; None for what the pod says.
    """

    policy: str
    preconditions: dict[str, str]
    grace_s: int | None = None


def read_deletion(body: bytes, query: Mapping[str, str]) -> Deletion:
    """The options in a request's body and in its query.

    Raises:
        ApiError: 400 for a body that cannot be read, 422 for an unknown policy.
    """
    options = read_body(body)[0] if body else {}
    preconditions = (options.get("preconditions") or {}) if isinstance(options, dict) else None
    if not isinstance(preconditions, dict) or not all(isinstance(value, str) for value in preconditions.values()):
        raise bad_request("the body is no DeleteOptions")
    grace_s = options.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    if grace_s is not None and not re.fullmatch(r"\d+", str(grace_s)):
        raise bad_request("gracePeriodSeconds is no number of seconds")
    policy = options.get("propagationPolicy") or query.get("propagationPolicy", "")
    if policy not in ("", "Background", "Foreground", "Orphan"):
        message = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        raise invalid_options("DeleteOptions", Cause("propagationPolicy", "FieldValueNotSupported", message))
    return Deletion(policy, preconditions, None if grace_s is None else int(grace_s))


def deletion_finalizers(present: list[str], policy: str, default: str) -> list[str]:
    """The finalizers of an object to be deleted; ``default`` counts where neither request nor object says a policy.

    Two of them hold an object until the garbage collector has seen to its dependents.
    """
    if not policy:
        policy = "Orphan" if ORPHAN in present else "Foreground" if FOREGROUND in present else default
    kept = [each for each in present if each not in (ORPHAN, FOREGROUND)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return [*kept, *added]
