"""What a deletion leaves for the garbage collector: finalizers that hold an object until its dependents are seen to."""

from typing import Final

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


def deletion_finalizers(present: list[str], policy: str, default: str) -> list[str]:
    """The finalizers of an object to be deleted; ``default`` counts where neither request nor object says a policy."""
    if not policy:
        policy = "Orphan" if ORPHAN in present else "Foreground" if FOREGROUND in present else default
    kept = [each for each in present if each not in (ORPHAN, FOREGROUND)]
    added = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    return [*kept, *added]
