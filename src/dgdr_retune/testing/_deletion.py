"""How an object is deleted: the options of the request, and what they leave for the garbage collector."""

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
    """

    policy: str
    preconditions: dict[str, str]


def read_deletion(body: bytes, policy: str) -> Deletion:
    """The options in a request's body, and the policy of its query.

    Raises:
        ApiError: 400 for a body that cannot be read, 422 for an unknown policy.
    """
    options = read_body(body)[0] if body else {}
    preconditions = (options.get("preconditions") or {}) if isinstance(options, dict) else None
    if not isinstance(preconditions, dict) or not all(isinstance(value, str) for value in preconditions.values()):
        raise bad_request("the body is no DeleteOptions")
    policy = options.get("propagationPolicy") or policy
    if policy not in ("", "Background", "Foreground", "Orphan"):
        message = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        raise invalid_options("DeleteOptions", Cause("propagationPolicy", "FieldValueNotSupported", message))
    return Deletion(policy, preconditions)


def deletion_finalizers(present: list[str], policy: str, default: str) -> list[str]:
    """The finalizers of an object to be deleted; ``default`` counts where neither request nor object says a policy.

    Two of them hold an object until the garbage collector has seen to its dependents.
    """
    if not policy:
        policy = "Orphan" if ORPHAN in present else "Foreground" if FOREGROUND in present else default
    kept = [each for each in present if each not in (ORPHAN, FOREGROUND)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return [*kept, *added]
