"""What a `decide` function answers."""

from typing import Final

from attrs import frozen

from dgdr_retune.controllers._actions import Action
from dgdr_retune.controllers._observation import Read


@frozen
class Decision:
    """What to do now, and when to look again. Exactly one of `actions` and `reads` is not empty, or neither.

    Attributes:
        actions: to be performed in order, up to the first that is not done. Then the object is looked at again at once,
            or after a backoff if one was not done; with `refused` set after a create of a Run or Job that the server
            refused.
        reads: to be read from the server, in the order of `Read`; what is `fresh` already stays as it is. The decision
            is then made again on that observation, in the same pass.
        look_again_s: with neither: in how many seconds at the latest, None for not before something changes.
    """

    actions: tuple[Action, ...] = ()
    reads: frozenset[Read] = frozenset()
    look_again_s: float | None = None


NOTHING: Final = Decision()
"""Everything is as it should be."""


def read(*reads: Read) -> Decision:
    """Decide again with these parts as the server has them."""
    return Decision(reads=frozenset(reads))
