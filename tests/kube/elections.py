"""Candidates for one Lease on virtual time, over a network on which requests hang and answers get lost."""

import asyncio
import json
import random
from datetime import datetime
from typing import TYPE_CHECKING, Any

from attrs import frozen

from dgdr_retune.kube import (
    LEASES,
    Answer,
    Api,
    Call,
    Elector,
    MaybeAppliedError,
    NotSentError,
    Term,
)
from dgdr_retune.testing import Request, SimulatedApiServer, SimulatedTransport, VirtualLoop, VirtualProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DURATION_S, DEADLINE_S, RETRY_S = 15.0, 10.0, 2.0
HANGS_S = 1e6
NAMESPACE, NAME = "system", "operator"
Json = Any


@frozen
class Trip:
    """What becomes of a call: how long it takes each way, whether it sets out at all, and whether its answer comes."""

    there_s: float = 0.01
    back_s: float = 0.01
    is_sent: bool = True
    is_answered: bool = True


def usual(_: Call) -> Trip:
    return Trip()


class World:
    """A server and a network, which go on when a process is stopped."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.process = loop.process("server")
        self.server = SimulatedApiServer(now=loop.now)
        self.transport = SimulatedTransport(self.server)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.request("POST", "/api/v1/namespaces", namespace)
        self.candidates: list[Candidate] = []

    def request(self, method: str, path: str, body: Json = None, **query: str) -> Json:
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        raw = b"" if body is None else json.dumps(body).encode()
        response = self.server.handle(Request(method, path, query, content_type, raw))
        assert response.code < 300, response.body
        return response.body

    @property
    def lease(self) -> Json:
        return self.request("GET", LEASES.path(NAMESPACE, NAME))

    @property
    def spec(self) -> Json:
        return self.lease["spec"]

    def annotate(self, value: str) -> None:
        self.request("PATCH", LEASES.path(NAMESPACE, NAME), {"metadata": {"annotations": {"example.com/a": value}}})

    def candidate(self, name: str, **options: Any) -> "Candidate":
        candidate = Candidate(self, name, **options)
        self.candidates.append(candidate)
        return candidate

    def leaders(self) -> list[str]:
        return [each.name for each in self.candidates if each.elector.is_leader]


class Candidate:
    """A process with an elector; its work does nothing but to note that it is done."""

    def __init__(
        self, world: World, name: str, *, identity: str = "", clock_offset_s: float = 0.0, **options: Any
    ) -> None:
        self.world = world
        self.name = name
        self.plan: Callable[[Call], Trip] = usual
        self.calls: list[Call] = []
        self.process: VirtualProcess = world.loop.process(name, clock_offset_s=clock_offset_s)
        self.clock: Callable[[], datetime] = self.process.now
        rng = random.Random(name)  # noqa: S311 - the same each time
        self.elector = Elector(
            Api(self, rng=rng),
            namespace=NAMESPACE,
            name=NAME,
            identity=identity or name,
            now=self.now,
            rng=rng,
            **options,
        )
        self.terms: list[Term] = []
        self.working = 0
        self.was_stopped = False
        self.began: list[float] = []
        self.ended: list[float] = []
        self.unwinding_s = 0.0
        self.act: Callable[[Term], Awaitable[None]] | None = None

    def now(self) -> datetime:
        return self.clock()

    async def send(self, call: Call) -> Answer:
        self.calls.append(call)
        trip = self.plan(call)
        if not trip.is_sent:
            await asyncio.sleep(trip.there_s)
            raise NotSentError("unplugged")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.world.process.spawn(self._carry(call, trip, answer))
        try:
            async with asyncio.timeout(call.timeout_s):
                return await answer
        except TimeoutError:
            raise MaybeAppliedError("no answer in time") from None

    async def _carry(self, call: Call, trip: Trip, answer: asyncio.Future[Answer]) -> None:
        await asyncio.sleep(trip.there_s)
        got = await self.world.transport.send(call)
        await asyncio.sleep(trip.back_s)
        if answer.done():
            return
        if trip.is_answered:
            answer.set_result(got)
        else:
            answer.set_exception(MaybeAppliedError("reset"))

    def stream(self, call: Call) -> Any:
        raise AssertionError(call)

    def start(self) -> asyncio.Task[None]:
        return self.process.spawn(self.elector.run(self.lead))

    async def lead(self, term: Term) -> None:
        self.terms.append(term)
        self.was_stopped = False
        self.began.append(self.world.loop.time())
        self.working += 1
        try:
            while True:
                if self.act is not None:
                    await self.act(term)
                await asyncio.sleep(0.25)
        except asyncio.CancelledError:
            await asyncio.sleep(self.unwinding_s)
            raise
        finally:
            self.working -= 1
            self.ended.append(self.world.loop.time())
