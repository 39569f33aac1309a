"""Observe, decide, act: one look at one object."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, Generic, Protocol, TypeVar

from attrs import frozen

from dgdr_retune.controllers._act import Became, Outcome, Performer
from dgdr_retune.controllers._actions import CreateJob
from dgdr_retune.controllers._caches import Key
from dgdr_retune.controllers._decision import Decision
from dgdr_retune.controllers._observation import Read, Refusal
from dgdr_retune.controllers._observe import BehindError

BEHIND_S: Final = 0.5
"""How soon to look again at what a cache is behind in, at the latest; what it waits for wakes the object."""

_NOT_DONE_MAX_S: Final = 30.0
"""How soon to look again, at the latest, where actions are not done over and over: each time costs several calls."""

Reconciled = Callable[[str, str, float], None]
"""Told about each look: controller, outcome (done, again or failed), seconds."""


class Observation(Protocol):
    """What the loop below knows of an observation."""

    @property
    def fresh(self) -> frozenset[Read]:
        """What was read from the server in this pass."""
        ...


Seen = TypeVar("Seen", bound=Observation)


class Observer(Protocol[Seen]):
    """Where a controller's observations come from."""

    def cached(self, key: Key, refused: Refusal | None) -> Seen:
        """As the caches have it."""
        ...

    def read(self, key: Key, seen: Seen, reads: frozenset[Read]) -> Awaitable[Seen]:
        """The same with parts as the server has them."""
        ...


@frozen
class Parts(Generic[Seen]):
    """What one controller is made of.

    Attributes:
        name: for logs and metrics.
        observer: where its observations come from.
        decide: what follows from one.
        reads: all that it can read from the server.
    """

    name: str
    observer: Observer[Seen]
    decide: Callable[[Seen, datetime], Decision]
    reads: frozenset[Read]


class Controller(Generic[Seen]):
    """Looks at one object at a time, as often as it is told to.

    Args:
        parts: what it is made of.
        performer: performs what is decided.
        now: the wall clock.
        rng: spreads looks that follow a conflict.
        reconciled: told about each look.
    """

    def __init__(
        self,
        parts: Parts[Seen],
        performer: Performer,
        *,
        now: Callable[[], datetime],
        rng: random.Random,
        reconciled: Reconciled,
    ) -> None:
        self._parts = parts
        self._performer = performer
        self._now = now
        self._rng = rng
        self._reconciled = reconciled
        self._refused: dict[Key, Refusal] = {}
        self._in_doubt: set[Key] = set()
        self._not_done: dict[Key, int] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Look at the object and do what it needs next; returns when to look again, as `kube.WorkQueue` asks.

        Errors: `KubeError`, for the queue's backoff.
        """
        began = asyncio.get_running_loop().time()
        outcome = "failed"
        try:
            again_s = await self._look(key)
            outcome = "done" if again_s is None else "again"
        finally:
            self._reconciled(self._parts.name, outcome, asyncio.get_running_loop().time() - began)
        return again_s

    async def _look(self, key: Key) -> float | None:
        try:
            decision = await self._decide(key)
        except BehindError:
            return BEHIND_S
        towards = next((each for each in decision.actions if isinstance(each, CreateJob)), None)
        for action in decision.actions:
            outcome = await self._performer.perform(action, towards)
            if outcome.became is not Became.DONE:
                return self._after(key, outcome)
        self._not_done.pop(key, None)
        if decision.actions:
            return 0.0
        self._refused.pop(key, None)  # it is told: what was refused may be tried again at the next look
        return decision.look_again_s

    async def _decide(self, key: Key) -> Decision:
        parts = self._parts
        seen = parts.observer.cached(key, self._refused.get(key))
        if key in self._in_doubt:
            seen = await parts.observer.read(key, seen, parts.reads)
        while (decision := parts.decide(seen, self._now())).reads:
            if not (missing := decision.reads - seen.fresh):
                raise RuntimeError(
                    f"{parts.name} asks again for what was just read: {sorted(map(str, decision.reads))}"
                )
            seen = await parts.observer.read(key, seen, missing)
        self._in_doubt.discard(key)
        return decision

    def _after(self, key: Key, outcome: Outcome) -> float:
        if outcome.refusal is not None:
            self._refused[key] = outcome.refusal
            return 0.0
        if outcome.became in (Became.UNKNOWN, Became.INVALID):
            self._in_doubt.add(key)
        before = self._not_done.get(key, 0)
        self._not_done[key] = before + 1
        return min(BEHIND_S * 2.0 ** min(before, 10), _NOT_DONE_MAX_S) * self._rng.uniform(0.5, 1.5)
