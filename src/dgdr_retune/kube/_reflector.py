"""Keeps a cache like the server: list, then watch from there, and begin again whenever that is lost."""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, NoReturn

import structlog

from dgdr_retune.kube._api import Api
from dgdr_retune.kube._backoff import Backoff
from dgdr_retune.kube._cache import Cache, Change, Indexes, Object, Project, without_managed_fields
from dgdr_retune.kube._errors import KubeError, MaybeAppliedError, RefusedError
from dgdr_retune.kube._resource import Resource

OnChange = Callable[[Object | None, Object | None], None]

SHORT_WATCH_S: Final = 1.0
"""A watch that ends sooner than this without an event counts as a failure."""

_TOO_MANY: Final = 429
_log = structlog.get_logger(__name__)


class Reflector:
    """Fills :attr:`cache` and reports what changes in it.

    Args:
        api: what to ask.
        resource: what to list and watch.
        namespace: empty for all.
        label_selector: which of them.
        project: what the cache keeps of an object; it may leave out anything.
        indexes: of the cache.
        on_change: called with what was and what is, after the cache has taken it in; it must not wait. An object is
            reported as changed into what it is by each event of it, and by a list only if it differs.
        rng: for jitter.
        watch_s: about how long the server is asked to keep a watch.
        inactivity_s: how long a watch may be silent; servers send a bookmark about once a minute.
        relist_every_s: about how often everything is listed again, in case events were lost without a sign.
        backoff_s: about how long to wait after a first failure; it doubles from there.
        backoff_cap_s: the longest wait that the server does not ask for.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        project: Project = without_managed_fields,
        indexes: Indexes | None = None,
        on_change: OnChange,
        rng: random.Random,
        watch_s: float = 300.0,
        inactivity_s: float = 70.0,
        relist_every_s: float = 1800.0,
        backoff_s: float = 0.5,
        backoff_cap_s: float = 30.0,
    ) -> None:
        self.cache = Cache(project, indexes)
        self.synced = asyncio.Event()
        """Set once the first list is in the cache."""
        self._api = api
        self._resource = resource
        self._namespace = namespace
        self._label_selector = label_selector
        self._on_change = on_change
        self._rng = rng
        self._watch_s = watch_s
        self._inactivity_s = inactivity_s
        self._relist_every_s = relist_every_s
        self._backoff = Backoff(backoff_s, backoff_cap_s)
        self._version = ""
        self._failures = 0
        self._failing_for = ""

    async def run(self) -> NoReturn:
        """List and watch until cancelled; only an error of ``on_change`` or ``project`` ends it otherwise."""
        loop = asyncio.get_running_loop()
        while True:
            await self._list()
            until = loop.time() + self._jittered(self._relist_every_s)
            while loop.time() < until and await self._watch(until):
                pass

    async def _list(self) -> None:
        while True:
            try:
                listing = await self._api.list(self._resource, self._namespace, label_selector=self._label_selector)
            except KubeError as error:
                await self._pause(error)
                continue
            self._version = listing.resource_version
            self._report(self.cache.listed(listing))
            self.synced.set()
            return

    async def _watch(self, until: float) -> bool:
        """Follow one watch to its end, and say whether another one may go on from there."""
        loop = asyncio.get_running_loop()
        began, version = loop.time(), self._version
        try:
            await self._take_events(min(self._jittered(self._watch_s), until - began))
            if self._version == version and loop.time() - began < SHORT_WATCH_S:
                raise MaybeAppliedError("the watch ended as soon as it began", reason="Ended")
        except KubeError as error:
            if isinstance(error, MaybeAppliedError) and loop.time() - began >= SHORT_WATCH_S:
                self._failures = 0  # it did begin
            await self._pause(error)
            return _can_go_on_after(error)
        self._thrive()
        return True

    async def _take_events(self, timeout_s: float) -> None:
        """Take in the events of one watch; a server that does not end it in time is left."""
        watch = self._api.watch(
            self._resource,
            self._namespace,
            resource_version=self._version,
            label_selector=self._label_selector,
            timeout_s=timeout_s,
            inactivity_s=self._inactivity_s,
        )
        patience = asyncio.timeout(timeout_s + self._inactivity_s)
        try:
            async with patience, aclosing(watch) as events:
                async for event in events:
                    self._thrive()
                    changes = self.cache.happened(event["type"], event["object"])
                    self._version = event["object"]["metadata"]["resourceVersion"]
                    self._report(changes)
        except TimeoutError:
            if not patience.expired():
                raise

    def _report(self, changes: list[Change]) -> None:
        for old, new in changes:
            self._on_change(old, new)

    def _jittered(self, about_s: float) -> float:
        return self._rng.uniform(0.8 * about_s, 1.2 * about_s)

    def _thrive(self) -> None:
        self._failures = 0
        if self._failing_for:
            self._failing_for = ""
            _log.info("watch_recovered", resource=self._resource.plural)

    async def _pause(self, error: KubeError) -> None:
        self._failures += 1
        if self._failing_for != error.reason:
            self._failing_for = error.reason
            _log.warning("watch_failed", resource=self._resource.plural, reason=error.reason, error=str(error))
        asked_s = error.retry_after_s if isinstance(error, RefusedError) else None
        await asyncio.sleep(self._backoff.wait_s(self._failures, self._rng, asked_s))


def _can_go_on_after(error: KubeError) -> bool:
    """Whether the last version that was seen is still good: not if it is forgotten, unknown or not understood."""
    if isinstance(error, RefusedError):
        return error.status == _TOO_MANY
    return error.reason != "Malformed"
