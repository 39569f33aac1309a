"""A controller's work queue: which key is reconciled next, and when."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

import structlog
from attrs import frozen

from dgdr_retune.kube._backoff import Backoff

K = TypeVar("K", bound=Hashable)

BACKOFF: Final = Backoff(first_s=0.2, cap_s=60.0)
_log = structlog.get_logger(__name__)


@frozen
class _Failures:
    count: int = 0
    last: str = ""


class WorkQueue(Generic[K]):
    """Keys to reconcile. A key is there once, however often it is added, and no two workers have the same one.

    A key that is added while it is being reconciled is reconciled again afterwards. Of several times to look at a key
    the earliest holds: so an event cuts a backoff short.

    Args:
        rng: Spreads the backoff.
        backoff: After a reconciliation that raised.
    """

    def __init__(self, *, rng: random.Random, backoff: Backoff = BACKOFF) -> None:
        self._rng = rng
        self._backoff = backoff
        self._due: asyncio.Queue[K] = asyncio.Queue()
        self._is_due: set[K] = set()
        self._later: dict[K, asyncio.TimerHandle] = {}
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, _Failures] = {}
        self._ended = False

    @property
    def depth(self) -> int:
        """How many keys are due and wait for a worker."""
        return self._due.qsize()

    def add(self, key: K, after_s: float = 0.0) -> None:
        """Have a key reconciled, at the latest in ``after_s`` seconds if a worker is free. Needs the running loop.

        After the end of ``run`` it does nothing.
        """
        if self._ended or key in self._is_due or key in self._again:
            return
        if after_s <= 0:
            self._forget_timer(key)
            self._make_due(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + after_s
        timer = self._later.get(key)
        if timer is None or when < timer.when():
            self._forget_timer(key)
            self._later[key] = loop.call_at(when, self._on_time, key)

    async def run(self, reconcile: Callable[[K], Awaitable[float | None]], workers: int) -> None:
        """Reconcile until cancelled; then no key is being reconciled and no timer is left. Once only.

        Args:
            reconcile: Returns in how many seconds to look at the key again, or None for not before it is added.
                An exception is logged and means a backoff.
            workers: How many keys may be reconciled at the same time.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(reconcile))
        finally:
            self._ended = True
            for timer in self._later.values():
                timer.cancel()
            self._later.clear()
            self._again.clear()
            while not self._due.empty():
                self._is_due.discard(self._due.get_nowait())

    async def _work(self, reconcile: Callable[[K], Awaitable[float | None]]) -> None:
        while True:
            key = await self._due.get()
            self._is_due.discard(key)
            self._running.add(key)
            try:
                look_again_s = await self._reconcile_once(key, reconcile)
            finally:
                self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._make_due(key)
            elif look_again_s is not None:
                self.add(key, look_again_s)

    async def _reconcile_once(self, key: K, reconcile: Callable[[K], Awaitable[float | None]]) -> float | None:
        try:
            look_again_s = await reconcile(key)
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            return self._failed(key, error)  # something that it awaited was cancelled: the worker has to live on
        except Exception as error:  # noqa: BLE001 - whatever one key meets, the others go on
            return self._failed(key, error)
        failures = self._failures.pop(key, None)
        if failures is not None:
            _log.info("reconcile_recovered", key=str(key), failures=failures.count)
        return look_again_s

    def _failed(self, key: K, error: BaseException) -> float:
        before = self._failures.get(key, _Failures())
        now = _Failures(before.count + 1, repr(error))
        self._failures[key] = now
        delay_s = self._backoff.wait_s(now.count, self._rng)
        if now.last != before.last:
            _log.warning("reconcile_failed", key=str(key), failures=now.count, again_in_s=delay_s, exc_info=error)
        return delay_s

    def _make_due(self, key: K) -> None:
        if key in self._running:
            self._again.add(key)
            return
        self._is_due.add(key)
        self._due.put_nowait(key)

    def _on_time(self, key: K) -> None:
        del self._later[key]
        self.add(key)

    def _forget_timer(self, key: K) -> None:
        timer = self._later.pop(key, None)
        if timer is not None:
            timer.cancel()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
