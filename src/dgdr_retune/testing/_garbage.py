"""The garbage collector of kube-controller-manager: what happens to the dependents of an object that goes."""

from collections.abc import Iterator
from typing import Final

from dgdr_retune.testing._json import Json

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


def deletion_finalizers(present: list[str], policy: str, default: str) -> list[str]:
    """The finalizers of an object to be deleted; ``default`` counts where neither request nor object says a policy."""
    if not policy:
        policy = "Orphan" if ORPHAN in present else "Foreground" if FOREGROUND in present else default
    kept = [each for each in present if each not in (ORPHAN, FOREGROUND)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return [*kept, *added]


def owners(value: Json) -> Iterator[Json]:
    """The owner references of an object."""
    yield from value["metadata"].get("ownerReferences") or ()


def blocks(value: Json, owner_uid: str) -> bool:
    """Whether a dependent holds up the foreground deletion of its owner."""
    return any(each["uid"] == owner_uid and each.get("blockOwnerDeletion") is True for each in owners(value))


def without_owner(value: Json, owner_uid: str) -> Json:
    """The object, no longer owned."""
    kept = [each for each in owners(value) if each["uid"] != owner_uid]
    return {**value, "metadata": {**value["metadata"], "ownerReferences": kept}}


def without_finalizer(value: Json, finalizer: str) -> Json:
    """The object, no longer held by a finalizer."""
    kept = [each for each in value["metadata"].get("finalizers") or () if each != finalizer]
    return {**value, "metadata": {**value["metadata"], "finalizers": kept}}
