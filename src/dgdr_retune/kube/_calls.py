"""One call, repeated until it has an outcome: which failures are repeated, when, and how calls are counted."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final, TypeVar

import structlog
from attrs import define, evolve

from dgdr_retune.kube._backoff import Backoff
from dgdr_retune.kube._errors import KubeError, MaybeAppliedError, NotSentError, RefusedError, refusal
from dgdr_retune.kube._resource import Resource
from dgdr_retune.kube._wire import Call, Stream, Transport

T = TypeVar("T")

Observe = Callable[[str, Resource, str, float], None]
"""Told about each call: its verb, its resource, its outcome and how many seconds it took."""

MAX_WARNINGS: Final = 256
"""Different warnings that are remembered, so that each is logged once."""

_WARNING: Final = re.compile(r'\b\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_SUCCESS: Final = range(200, 300)
_TOO_MANY: Final = 429
_SERVER_FAULTS: Final = range(500, 600)
_NOT_IMPLEMENTED: Final = 501
_UNAVAILABLE: Final = 503
_log = structlog.get_logger(__name__)


@define
class _Seen:
    """What became of one call; until something else is known, it was cancelled."""

    outcome: str = "cancelled"


class Calls:
    """Makes calls over a transport.

    Args:
        transport: carries them.
        rng: for jitter.
        deadline_s: of all attempts together.
        attempts: how many there are at most.
        backoff: between them.
        observe: told about each attempt.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        rng: random.Random,
        deadline_s: float,
        attempts: int,
        backoff: Backoff,
        observe: Observe | None,
    ) -> None:
        self._transport = transport
        self._rng = rng
        self._deadline_s = deadline_s
        self._attempts = attempts
        self._backoff = backoff
        self._observe = observe
        self._warned: dict[tuple[Resource, str], None] = {}

    async def read(self, verb: str, resource: Resource, call: Call, parse: Callable[[bytes], T]) -> T:
        """Repeat a call that changes nothing until it is answered, or refused for good."""

        async def attempt(timeout_s: float) -> T:
            return parse(await self._sent(verb, resource, evolve(call, timeout_s=timeout_s)))

        return await self._repeated(attempt, call.timeout_s, _read_may_pass)

    async def write(self, verb: str, resource: Resource, call: Call, parse: Callable[[bytes], T]) -> T:
        """Repeat a call that changes something, as long as it certainly has not."""

        async def attempt(timeout_s: float) -> T:
            try:
                return parse(await self._sent(verb, resource, evolve(call, timeout_s=timeout_s)))
            except RefusedError as error:
                if _may_have_applied(error):
                    raise MaybeAppliedError(f"HTTP {error.status}: {error}", reason=error.reason) from error
                raise

        return await self._repeated(attempt, call.timeout_s, _write_may_pass)

    @asynccontextmanager
    async def stream(self, verb: str, resource: Resource, call: Call) -> AsyncIterator[Stream]:
        """Begin a call whose answer is read as it comes, once.

        Raises:
            KubeError: it did not begin.
        """
        async with AsyncExitStack() as stack:
            with self._observed(verb, resource) as seen:
                stream = await stack.enter_async_context(self._transport.stream(call))
                seen.outcome = str(stream.status)
            self._log_warnings(resource, stream.headers)
            if stream.status not in _SUCCESS:
                try:
                    async with asyncio.timeout(call.timeout_s):
                        said = await stream.read()
                except TimeoutError as error:
                    raise MaybeAppliedError(f"HTTP {stream.status}, and its body does not come") from error
                raise refusal(stream.status, stream.headers, said)
            yield stream

    async def _sent(self, verb: str, resource: Resource, call: Call) -> bytes:
        with self._observed(verb, resource) as seen:
            answer = await self._transport.send(call)
            seen.outcome = str(answer.status)
        self._log_warnings(resource, answer.headers)
        if answer.status not in _SUCCESS:
            raise refusal(answer.status, answer.headers, answer.body)
        return answer.body

    async def _repeated(
        self, attempt: Callable[[float], Awaitable[T]], timeout_s: float, may_pass: Callable[[KubeError], bool]
    ) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._deadline_s
        failures = 0
        while True:
            try:
                return await attempt(min(timeout_s, deadline - loop.time()))
            except KubeError as error:
                failures += 1
                asked_s = error.retry_after_s if isinstance(error, RefusedError) else None
                wait_s = self._backoff.wait_s(failures, self._rng, asked_s)
                if failures == self._attempts or not may_pass(error) or loop.time() + wait_s >= deadline:
                    raise
            await asyncio.sleep(wait_s)

    @contextmanager
    def _observed(self, verb: str, resource: Resource) -> Iterator[_Seen]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        seen = _Seen()
        try:
            yield seen
        except NotSentError:
            seen.outcome = "not_sent"
            raise
        except MaybeAppliedError:
            seen.outcome = "lost"
            raise
        finally:
            if self._observe is not None:
                self._observe(verb, resource, seen.outcome, loop.time() - began)

    def _log_warnings(self, resource: Resource, headers: Mapping[str, str]) -> None:
        for text in _WARNING.findall(headers.get("warning", "")):
            if (resource, text) in self._warned or len(self._warned) == MAX_WARNINGS:
                continue
            self._warned[(resource, text)] = None
            _log.warning("api_server_warning", resource=resource.plural, warning=re.sub(r"\\(.)", r"\1", text))


def _read_may_pass(error: KubeError) -> bool:
    if not isinstance(error, RefusedError):
        return True
    return error.status == _TOO_MANY or (error.status in _SERVER_FAULTS and error.status != _NOT_IMPLEMENTED)


def _write_may_pass(error: KubeError) -> bool:
    if isinstance(error, RefusedError):
        return error.status == _TOO_MANY or _is_turned_away(error)
    return isinstance(error, NotSentError)


def _may_have_applied(error: RefusedError) -> bool:
    """A fault of the server, or of what stands before it, does not say how far a write had come."""
    return error.status in _SERVER_FAULTS and error.status != _NOT_IMPLEMENTED and not _is_turned_away(error)


def _is_turned_away(error: RefusedError) -> bool:
    return error.status == _UNAVAILABLE and error.retry_after_s is not None
