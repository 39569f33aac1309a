"""Kubernetes Events: few, each with a count, and never in the way of what they tell about."""

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Never

import structlog

from dgdr_retune.kube._api import Api
from dgdr_retune.kube._backoff import Backoff
from dgdr_retune.kube._errors import AlreadyExistsError, KubeError, NotFoundError, RefusedError
from dgdr_retune.kube._resource import EVENTS, Json
from dgdr_retune.kube._series import About, EventType, Series, SeriesBook

CALL_TIMEOUT_S: Final = 10.0
DRAIN_S: Final = 2.0
"""How long the end of `run` may take to write what still waits."""
ATTEMPTS: Final = 5
"""After as many failures in a row an Event is given up, until it is said again."""

_FAULTS_OF_CALLER: Final = range(400, 500)
_TOO_MANY: Final = 429
_BACKOFF: Final = Backoff(first_s=1.0, cap_s=30.0)
_log = structlog.get_logger(__name__)


class EventRecorder:
    """Writes Events (core/v1) about objects, in the background.

    The same thing said again about the same object is one Event with a count; many that differ in their message alone
    are combined. Writes about one object are bounded in rate, and what is remembered is bounded in size: Events are for
    people, and are dropped rather than waited for. Say something when it changes, not at each look.

    Args:
        api: where they are written; behind the fence of a term, if others may lead.
        component: who says it.
        now: the wall clock.
        rng: spreads repetitions.
    """

    def __init__(self, api: Api, *, component: str, now: Callable[[], datetime], rng: random.Random) -> None:
        self._api = api
        self._component = component
        self._now = now
        self._rng = rng
        self._book = SeriesBook()
        self._said = asyncio.Event()
        self._is_failing = False

    def record(self, about: Mapping[str, Json], reason: str, message: str, type_: EventType = "Normal") -> None:
        """Have something said about an object; at once, and without errors. Needs the running loop.

        Args:
            about: the object, or what refers to it: apiVersion, kind and metadata with name, namespace and uid.
            reason: in CamelCase, for machines.
            message: for people; cut at 1,024 characters.
            type_: of the Event.
        """
        now_s = asyncio.get_running_loop().time()
        self._book.say(About.of(about), type_, reason, message, now=self._now(), now_s=now_s)
        self._said.set()

    async def run(self) -> Never:
        """Write what is recorded until cancelled, then what still waits and may be written, for `DRAIN_S` at most."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._said.clear()
                series = self._book.due(loop.time())
                if series is None:
                    await self._wait(self._book.next_due_s(loop.time()))
                elif not await self._write(series):
                    await asyncio.sleep(_BACKOFF.wait_s(series.failures, self._rng))
        finally:
            await self._drain()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DRAIN_S):
                while (series := self._book.due(loop.time())) is not None:
                    if not await self._write(series):
                        self._book.forget(series)
        except TimeoutError:
            _log.warning("events_dropped", reason="the end did not wait for them")

    async def _wait(self, until_s: float | None) -> None:
        try:
            async with asyncio.timeout_at(until_s):
                await self._said.wait()
        except TimeoutError:
            return

    async def _write(self, series: Series) -> bool:
        """Whether the server knows now, or never will."""
        count = series.count
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._store(series)
        except (KubeError, TimeoutError) as error:
            self._note(series, error)
            series.failures += 1
            is_final = _is_final(error)
            if is_final or series.failures == ATTEMPTS:
                self._book.forget(series)
            return is_final
        self._is_failing = False
        self._book.wrote(series, count)
        return True

    async def _store(self, series: Series) -> None:
        if not series.is_stored:
            try:
                await self._api.create(EVENTS, series.namespace, series.event(self._component))
            except AlreadyExistsError:  # an earlier attempt whose answer was lost
                series.is_stored = True
            else:
                return
        try:
            await self._api.patch(EVENTS, series.namespace, series.name, series.changes())
        except NotFoundError:  # Events expire
            await self._api.create(EVENTS, series.namespace, series.event(self._component))

    def _note(self, series: Series, error: Exception) -> None:
        """Log that writing fails, when it begins."""
        if not self._is_failing:
            _log.warning("event_not_written", about=series.about.name, said=series.reason, error=repr(error))
        self._is_failing = True


def _is_final(error: Exception) -> bool:
    """Whether the server will not have this Event, however often it is asked."""
    return isinstance(error, RefusedError) and error.status in _FAULTS_OF_CALLER and error.status != _TOO_MANY
