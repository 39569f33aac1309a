"""Which faults happen in a run, and how often: drawn from its seed."""

import random
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self


class Fault(StrEnum):
    """What goes wrong."""

    NOT_SENT = "not-sent"
    LOST_BEFORE = "lost-before-write"
    LOST_AFTER = "lost-after-write"
    TIMEOUT = "timeout"
    SLOW_WRITE = "slow-write"
    CONFLICT = "409"
    INVALID = "422"
    THROTTLED = "429"
    SERVER_ERROR = "5xx"
    SERVER_ERROR_AFTER = "5xx-after-write"
    GONE = "410-answer"
    GONE_EVENT = "410-event"
    COMPACTION = "compaction"
    WATCH_LOST = "watch-lost"
    WATCH_STALLED = "watch-stalled"
    STALE_CACHE = "stale-cache"
    DUPLICATE_EVENT = "duplicate-event"
    CLOCK_JUMP = "clock-jump"
    FROZEN = "frozen-process"
    CRASH = "crash"
    TWO_OPERATORS = "two-operators"
    NODE_LOST = "node-lost"
    SLOW_CLUSTER = "slow-cluster"


_RATES: Final[Mapping[Fault, tuple[float, ...]]] = {
    Fault.TIMEOUT: (0.01, 0.03),
    Fault.THROTTLED: (0.02, 0.05, 0.3),
    Fault.SERVER_ERROR: (0.02, 0.05, 0.3),
    Fault.GONE: (0.05, 0.3),
    Fault.GONE_EVENT: (0.02, 0.1),
    Fault.WATCH_STALLED: (0.01, 0.05),
    Fault.STALE_CACHE: (0.05, 0.2),
    Fault.CRASH: (0.1, 0.4),
    Fault.TWO_OPERATORS: (1.0,),
    Fault.SLOW_CLUSTER: (1.0,),
}
"""Chances, one of which a run draws: of a call, an event, a spell of weather or the run."""
_USUAL: Final = (0.02, 0.06, 0.15)
_SHARE: Final = 0.5


class Faults:
    """The faults of one run: about half of all kinds, each with a chance of its own.

    Attributes:
        fired: how often each kind happened.

    Args:
        rng: decides.
        rates: the chance of each kind.
    """

    def __init__(self, rng: random.Random, rates: Mapping[Fault, float]) -> None:
        self.rng = rng
        self.fired: Counter[Fault] = Counter()
        self._rates = dict(rates)

    @classmethod
    def of_seed(cls, seed: int) -> Self:
        """Those of a seed."""
        rng = random.Random(f"{seed} faults")  # noqa: S311 - not for secrets
        return cls(rng, {fault: rng.choice(_RATES.get(fault, _USUAL)) for fault in Fault if rng.random() < _SHARE})

    @classmethod
    def none(cls) -> Self:
        """A run without faults."""
        return cls(random.Random(0), {})  # noqa: S311 - not for secrets

    @property
    def are_over(self) -> bool:
        """Whether none will happen any more."""
        return not self._rates

    def strikes(self, fault: Fault) -> bool:
        """Whether a fault happens now; then it counts."""
        rate = self._rates.get(fault)
        if rate is None or self.rng.random() >= rate:
            return False
        self.fired[fault] += 1
        return True

    def end(self) -> None:
        """No more of them."""
        self._rates.clear()
