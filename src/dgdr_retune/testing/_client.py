"""What one process of the operator sees of the world: a transport on which calls fail, and which can die."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from contextvars import Context
from typing import Final

from attrs import field, frozen

from dgdr_retune.kube import Answer, Call, MaybeAppliedError, NotSentError, Stream
from dgdr_retune.testing._errors import ApiError
from dgdr_retune.testing._exchange import Action, Exchange, action_of
from dgdr_retune.testing._faults import Fault, Faults
from dgdr_retune.testing._json import Json, encode
from dgdr_retune.testing._part import Access, Desk
from dgdr_retune.testing._store import Key
from dgdr_retune.testing._transport import SimulatedTransport, answer_of, request_of

_OK: Final = 200
_RETRY_AFTER: Final[tuple[Mapping[str, str], ...]] = (
    {"retry-after": "0"},
    {"retry-after": "1"},
    {"retry-after": "5"},
    {},
)
_TOUCHED: Final = "example.com/touched"
_TRAVEL_S: Final = (0.001, 0.03)
_LATE_S: Final = (1.0, 40.0)
_SLOW_S: Final = (1.0, 5.0)


@frozen
class _Refusal:
    """A stream that does not begin."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(factory=dict)

    async def chunks(self) -> AsyncGenerator[bytes]:
        yield self.body

    async def read(self) -> bytes:
        return self.body


@frozen
class _Watched:
    """A stream whose lines come late, twice, or no more."""

    stream: Stream
    lines: AsyncIterator[bytes]
    status: int = _OK
    headers: Mapping[str, str] = field(factory=dict)

    def chunks(self) -> AsyncIterator[bytes]:
        return self.lines

    async def read(self) -> bytes:
        return await self.stream.read()


class Client:
    """A :class:`~dgdr_retune.kube.Transport` for one process.

    Once it is dead, nothing reaches the server any more, and every call ends as if the process did.

    Attributes:
        name: of the process.
        is_dead: whether it has been killed.
        died: set when it is.
        actions: the writes that the server took from it, in order, without Leases and Events.
        dies_after: the number of such writes with which it dies: the last one is done, and its answer unread.
        dies_before: the number of calls of any kind with which it dies: the last one is not sent.

    Args:
        name: of the process.
        desk: what answers.
        faults: what goes wrong.
        rng: how long calls take.
        tell: told about each exchange.
    """

    def __init__(
        self, name: str, desk: Desk, *, faults: Faults, rng: random.Random, tell: Callable[[Exchange], None]
    ) -> None:
        self.name = name
        self.is_dead = False
        self.died = asyncio.Event()
        self.actions: list[Action] = []
        self.calls = 0
        self.dies_after = 0
        self.dies_before = 0
        self._desk = desk
        self._faults = faults
        self._rng = rng
        self._tell = tell
        self._transport = SimulatedTransport(desk.server)
        self._somebody = Access(desk, "somebody")

    def kill(self) -> None:
        """End the process at once."""
        self.is_dead = True
        self.died.set()

    async def send(self, call: Call) -> Answer:
        """Exchange a request for its response, if nothing goes wrong."""
        body = json.loads(call.body) if call.body else None
        action = await self._arrived(call, body)
        if answer := self._refused(body, action):
            return answer
        if self._faults.strikes(Fault.LOST_BEFORE):
            raise MaybeAppliedError("simulated: the connection broke")
        if self._faults.strikes(Fault.TIMEOUT):
            if self._rng.random() < 0.5:  # noqa: PLR2004 - done or not, a half each
                self._handled(call, body, action)
            await asyncio.sleep(call.timeout_s)
            self._live()
            raise MaybeAppliedError("simulated: no reply in time")
        if action.is_write and self._faults.strikes(Fault.SLOW_WRITE):
            exchange = await self._handled_late(call, body, action)
        else:
            exchange = self._handled(call, body, action)
        await self._travel()
        if self._faults.strikes(Fault.LOST_AFTER):
            raise MaybeAppliedError("simulated: the reply was lost")
        if exchange.action.is_write and self._faults.strikes(Fault.SERVER_ERROR_AFTER):
            return _failure(504, "Timeout")
        return answer_of(exchange.answer)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        """Open a watch, if nothing goes wrong."""
        action = await self._arrived(call, None)
        answer = _failure(410, "Expired") if self._faults.strikes(Fault.GONE) else self._refused(None, action)
        if answer is not None:
            yield _Refusal(answer.status, answer.body, answer.headers)
            return
        async with self._transport.stream(call) as stream:
            if stream.status != _OK:
                yield stream
                return
            async with aclosing(self._lines(stream)) as lines:
                yield _Watched(stream, lines)

    async def _lines(self, stream: Stream) -> AsyncGenerator[bytes]:
        """What comes of the stream: a line that is late delays those behind it."""
        async for line in stream.chunks():
            if self._faults.strikes(Fault.STALE_CACHE):
                await asyncio.sleep(self._rng.uniform(*_LATE_S))
            if self._faults.strikes(Fault.WATCH_STALLED):
                await asyncio.Event().wait()
            if self._faults.strikes(Fault.WATCH_LOST):
                raise MaybeAppliedError("simulated: the watch broke off")
            if self._faults.strikes(Fault.GONE_EVENT):
                error = ApiError(410, "Expired", "simulated: too old resource version")
                yield encode({"type": "ERROR", "object": error.status()}) + b"\n"
                return
            self._live()
            yield line
            if self._faults.strikes(Fault.DUPLICATE_EVENT):
                yield line

    async def _arrived(self, call: Call, body: Json) -> Action:
        """What a call does that has come to the server, or to what stands before it."""
        self._live()
        self.calls += 1
        if self.calls == self.dies_before:
            self.kill()
        await self._travel()
        return action_of(self._desk.server, call, body)

    def _refused(self, body: Json, action: Action) -> Answer | None:
        """What is answered without anything having been done, if so."""
        if self._faults.strikes(Fault.NOT_SENT):
            raise NotSentError("simulated: no connection")
        if self._faults.strikes(Fault.THROTTLED):
            return _failure(429, "TooManyRequests", self._rng.choice(_RETRY_AFTER))
        if self._faults.strikes(Fault.SERVER_ERROR):
            return _failure(self._rng.choice((500, 502, 503)), "InternalError", self._rng.choice(_RETRY_AFTER))
        if action.may_be_invalid and self._faults.strikes(Fault.INVALID):
            return _failure(422, "Invalid")
        if _has_revision(body) and self._faults.strikes(Fault.CONFLICT):
            self._touch(action)
        return None

    def _handled(self, call: Call, body: Json, action: Action) -> Exchange:
        """What the server says to a call that reached it."""
        exchange = Exchange(self.name, action, body, self._desk.handle(self.name, request_of(call)))
        self._tell(exchange)
        if exchange.is_done and action.is_write and not action.is_bookkeeping:
            self.actions.append(action)
            if len(self.actions) == self.dies_after:
                self.kill()
        return exchange

    async def _handled_late(self, call: Call, body: Json, action: Action) -> Exchange:
        """What the server says to a write that takes its time, and comes even if nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Exchange] = loop.create_future()

        def arrive() -> None:
            exchange = self._handled(call, body, action)
            if not answered.done():
                answered.set_result(exchange)

        on_the_way = Context()  # of no process: one that stands still does not hold it up
        loop.call_at(loop.time() + self._rng.uniform(*_SLOW_S), arrive, context=on_the_way)
        return await answered

    def _touch(self, action: Action) -> None:
        """Somebody else changes the object just before."""
        key = Key(action.resource, action.namespace, action.name)
        if self._somebody.get(key) is not None:
            number = str(self._faults.fired[Fault.CONFLICT])
            self._somebody.patch(key, {"metadata": {"annotations": {_TOUCHED: number}}})

    async def _travel(self) -> None:
        self._live()
        await asyncio.sleep(self._rng.uniform(*_TRAVEL_S))
        self._live()

    def _live(self) -> None:
        if self.is_dead:
            raise asyncio.CancelledError("the process was killed")


def _has_revision(body: Json) -> bool:
    """Whether a write is meant for one state of its object."""
    match body:
        case {"metadata": {"resourceVersion": str()}} | {"preconditions": {"resourceVersion": str()}}:
            return True
    return False


def _failure(code: int, reason: str, headers: Mapping[str, str] | None = None) -> Answer:
    error = ApiError(code, reason, f"simulated: {reason}")
    return Answer(code, {"content-type": "application/json", **(headers or {})}, encode(error.status()))
