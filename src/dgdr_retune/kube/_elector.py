"""Leader election by a Lease: at most one of many leads, whatever becomes of clocks, requests and processes."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Final

import structlog
from attrs import evolve, frozen

from dgdr_retune.kube._api import Api
from dgdr_retune.kube._errors import ConflictError, KubeError, NotFoundError, RefusedError
from dgdr_retune.kube._lease import (
    Claim,
    Term,
    is_held,
    is_same_record,
    new,
    next_claim,
    patience_s,
    released,
    renewed,
    taken,
)
from dgdr_retune.kube._resource import LEASES, Json
from dgdr_retune.kube._wire import Answer, Call, Stream, Transport

_JITTER: Final = 0.2  # a pause is up to this part longer, so that candidates part
_HURRY: Final = 0.1  # of a pause, when only the resource version was out of date
_NEVER: Final = float("-inf")
_log = structlog.get_logger(__name__)


class NotLeadingError(KubeError):
    """A write was held back: the term that it belongs to is over."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="NotLeading")


@frozen
class _Seen:
    """The Lease as this process saw it last.

    Attributes:
        lease: None before it was ever seen.
        since_s: the loop's time at which its record was first seen to be this one.
        exists: false once it was found missing; the record still says whom to wait for.
    """

    lease: dict[str, Json] | None = None
    since_s: float = _NEVER
    exists: bool = False


class Elector:
    """Campaigns for a Lease and leads while it is held.

    No clock but the loop's own decides anything. A record counts as abandoned when this process has not seen it change
    for as long as its holder claims. A term lasts until ``renew_deadline_s`` after the moment just before the last
    confirmed renewal was sent; a timer of its own ends it, whatever requests hang. Others wait for
    ``lease_duration_s``: the difference is the time that cancelled work has to end.

    A process that was stopped can wake in a term that is over before any of its timers has run: let its writes go
    through :class:`FencedTransport`. A machine that is suspended as a whole does not notice: its clock stands still
    with it, and the resource versions of its writes are all that holds it back.

    Args:
        api: not behind that fence.
        namespace: the Lease's.
        name: the Lease's; it is created if there is none.
        identity: of this process, new at each start: what is held under this name but was not written by this object
            is another's.
        now: the wall clock, for the times in the record, which are for people.
        rng: spreads the attempts of candidates.
        lease_duration_s: whole seconds.
        renew_deadline_s: shorter than that.
        retry_period_s: between two attempts to acquire or to renew.
        request_timeout_s: of a call with its repetitions. Two and two retry periods within the renew deadline let a
            term outlive a call that hangs.

    Raises:
        ValueError: the times do not fit each other, or there is no identity.
    """

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        now: Callable[[], datetime],
        rng: random.Random,
        lease_duration_s: float = 15.0,
        renew_deadline_s: float = 10.0,
        retry_period_s: float = 2.0,
        request_timeout_s: float = 2.5,
    ) -> None:
        if not identity:
            raise ValueError("identity: give this process a name of its own")
        if not lease_duration_s >= 1 or not float(lease_duration_s).is_integer():
            raise ValueError("lease_duration_s: a Lease holds whole seconds, one at least")
        if retry_period_s <= 0 or request_timeout_s <= 0:
            raise ValueError("retry_period_s, request_timeout_s: more than 0 seconds")
        if not retry_period_s * (1 + _JITTER) + request_timeout_s < renew_deadline_s < lease_duration_s:
            raise ValueError(
                "renew_deadline_s: longer than retry period, a fifth of it, and a call; shorter than the lease"
            )
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._now = now
        self._rng = rng
        self._lease_duration_s = int(lease_duration_s)
        self._renew_deadline_s = renew_deadline_s
        self._retry_period_s = retry_period_s
        self._request_timeout_s = request_timeout_s
        self._seen = _Seen()
        self._claim: Claim | None = None
        self._is_doubtful = False
        self._term: Term | None = None
        self._until_s = _NEVER
        self._trouble = ""

    @property
    def is_leader(self) -> bool:
        """Whether this process leads at this moment. Needs the running loop, as ``holds`` does."""
        return self._term is not None and asyncio.get_running_loop().time() < self._until_s

    def holds(self, term: Term) -> bool:
        """Whether this process leads at this moment, and in this term."""
        return term == self._term and self.is_leader

    async def run(self, lead: Callable[[Term], Awaitable[None]]) -> None:
        """Campaign, lead, and campaign again after a term is lost, until ``lead`` ends by itself.

        Whatever ends a term or the run, the Lease is released if it is still ours, once the work has ended.

        Args:
            lead: what a leader does. It is cancelled at the end of its term and has to end soon then.

        Raises:
            Exception: what ``lead`` raised.
        """
        while True:
            try:
                term = await self._acquire()
                if await self._serve(term, lead):
                    return
            finally:
                self._term = None
                await self._release()

    async def _acquire(self) -> Term:
        while True:
            try:
                term = await self._campaign()
            except (KubeError, TimeoutError) as error:
                self._note(error)
            else:
                self._trouble = ""
                if term is not None:
                    _log.info("term_began", lease=self._name, identity=term.identity, term=term.number)
                    return term
            await self._pause()

    async def _campaign(self) -> Term | None:
        """Acquire the Lease if it is free; a term begins only with an answer that came in time."""
        await self._look()
        if not self._is_free():
            return None
        lease = self._seen.lease
        self._claim = claim = next_claim(lease, self._identity, self._lease_duration_s, self._now())
        if lease is None or not self._seen.exists:
            wanted = new(self._namespace, self._name, claim)
        else:
            wanted = taken(lease, claim)
        try:
            until_s = await self._write(wanted)
        except RefusedError:
            self._claim = None  # whatever stands in the Lease now, it is not this
            raise
        if asyncio.get_running_loop().time() >= until_s:
            return None
        self._term, self._until_s = claim.term, until_s
        return claim.term

    async def _serve(self, term: Term, lead: Callable[[Term], Awaitable[None]]) -> bool:
        """Lead for a term. Returns whether the work ended by itself; false: the term was over."""
        failure: Exception | None = None
        deadline = asyncio.timeout_at(self._until_s)
        try:
            async with deadline, asyncio.TaskGroup() as group:
                renewing = group.create_task(self._keep(deadline))
                try:
                    await lead(term)
                except Exception as error:  # noqa: BLE001 - it is raised again when the renewing has ended
                    failure = error
                renewing.cancel()
        except TimeoutError:  # the deadline's: the work's own is a failure
            self._is_doubtful = True
        overdue_s = asyncio.get_running_loop().time() - self._until_s
        if overdue_s >= self._lease_duration_s - self._renew_deadline_s:
            _log.error("work_outlived_lease", lease=self._name, term=term.number, overdue_s=overdue_s)
        if failure is not None:
            raise failure
        if deadline.expired():
            _log.warning("term_lost", lease=self._name, term=term.number, trouble=self._trouble)
        return not deadline.expired()

    async def _keep(self, deadline: asyncio.Timeout) -> None:
        """Renew until cancelled, or until the Lease is seen to be no longer ours."""
        share = 1.0
        while True:
            await self._pause(share)
            share = 1.0
            try:
                if self._is_doubtful or not self.is_leader:
                    await self._look()
                lease = self._seen.lease
                if lease is None or not self._is_ours():
                    self._until_s = min(self._until_s, asyncio.get_running_loop().time())
                    if not deadline.expired():
                        deadline.reschedule(self._until_s)
                    return
                until_s = await self._write(renewed(lease, self._now()))
            except (ConflictError, NotFoundError) as error:
                share = _HURRY
                self._note(error)
            except (KubeError, TimeoutError) as error:
                self._note(error)
            else:
                self._trouble = ""
                if not deadline.expired():
                    self._until_s = until_s
                    deadline.reschedule(until_s)

    async def _release(self) -> None:
        """Let others acquire the Lease without waiting, if it is ours."""
        try:
            async with self._in_time():
                while self._claim is not None:
                    if self._is_doubtful:
                        await self._look()
                    lease = self._seen.lease
                    if lease is None or not self._is_ours():
                        return
                    try:
                        await self._write(released(lease, self._now()))
                    except KubeError as error:
                        self._note(error)
                        await self._pause(_HURRY)
        except (KubeError, TimeoutError) as error:
            self._note(error)

    async def _look(self) -> None:
        """Read the Lease. A record counts as new when its answer is here: its holder renewed it before, never later."""
        try:
            async with self._in_time():
                lease = await self._api.get(LEASES, self._namespace, self._name)
        except NotFoundError:
            self._seen = evolve(self._seen, exists=False)
        else:
            seen = self._seen
            is_old = seen.exists and seen.lease is not None and is_same_record(seen.lease, lease)
            self._seen = _Seen(lease, seen.since_s if is_old else asyncio.get_running_loop().time(), exists=True)
        self._is_doubtful = False

    async def _write(self, lease: dict[str, Json]) -> float:
        """Store the Lease. Returns when a term that rests on this ends; until there is an answer, all is doubtful."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._renew_deadline_s
        self._is_doubtful = True
        async with self._in_time():
            if "resourceVersion" in lease["metadata"]:
                stored = await self._api.replace(LEASES, self._namespace, self._name, lease)
            else:
                stored = await self._api.create(LEASES, self._namespace, lease)
        self._seen = _Seen(stored, loop.time(), exists=True)
        self._is_doubtful = False
        return until_s

    def _is_ours(self) -> bool:
        seen = self._seen
        return seen.exists and seen.lease is not None and self._claim is not None and self._claim.stands_in(seen.lease)

    def _is_free(self) -> bool:
        """Whether nobody leads; a record of ours says so too, after a lost answer or a term whose work has ended."""
        lease = self._seen.lease
        if lease is None or not is_held(lease) or self._is_ours():
            return True
        waited_s = asyncio.get_running_loop().time() - self._seen.since_s
        return waited_s >= patience_s(lease, self._lease_duration_s)

    def _in_time(self) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(self._request_timeout_s)

    async def _pause(self, share: float = 1.0) -> None:
        await asyncio.sleep(self._retry_period_s * share * self._rng.uniform(1.0, 1.0 + _JITTER))

    def _note(self, error: Exception) -> None:
        """Log that something hinders us, when it begins."""
        if not self._trouble:
            _log.warning("lease_call_failed", lease=self._name, identity=self._identity, error=repr(error))
        self._trouble = repr(error)


class FencedTransport:
    """A :class:`Transport` for the work of one term: once that is over, nothing is written any more.

    Args:
        transport: carries the calls.
        elector: knows whether the term lasts.
        term: the one that ``lead`` was called with.
    """

    def __init__(self, transport: Transport, elector: Elector, term: Term) -> None:
        self._transport = transport
        self._elector = elector
        self._term = term

    async def send(self, call: Call) -> Answer:
        """Exchange one request for its response.

        Raises:
            NotLeadingError: it would write, and the term is over.
        """
        if call.method != "GET" and not self._elector.holds(self._term):
            raise NotLeadingError(f"{call.method} {call.path} is not sent: term {self._term.number} is over")
        return await self._transport.send(call)

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        """Read a response as it comes; that writes nothing."""
        return self._transport.stream(call)
