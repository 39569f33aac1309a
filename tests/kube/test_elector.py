"""Leader election on virtual time, over a network on which requests hang and answers get lost."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from dgdr_retune.kube import (
    LEASES,
    Answer,
    Api,
    Call,
    Elector,
    FencedTransport,
    MaybeAppliedError,
    NotFoundError,
    NotLeadingError,
    NotSentError,
    Term,
)
from dgdr_retune.kube._lease import micro_time
from dgdr_retune.testing import Request, SimulatedApiServer, SimulatedTransport, VirtualLoop, VirtualProcess

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


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop, capture_logs():
        yield loop


@pytest.fixture
def world(loop: VirtualLoop) -> World:
    return World(loop)


def test_the_first_leads_at_once_and_its_lease_has_the_fields_of_kubernetes(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        first.start()
        await asyncio.sleep(1)
        assert first.terms == [Term("first", 0)]
        assert first.elector.is_leader
        assert world.lease["apiVersion"] == "coordination.k8s.io/v1"
        assert world.spec == {
            "holderIdentity": "first",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.020000Z",
            "renewTime": "2026-01-01T00:00:00.020000Z",
            "leaseTransitions": 0,
        }
        await asyncio.sleep(5)
        assert world.spec["acquireTime"] == "2026-01-01T00:00:00.020000Z"
        assert world.spec["renewTime"] > "2026-01-01T00:00:03"

    world.loop.run(scenario())


def test_the_second_waits_while_the_first_renews(world: World) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first"), world.candidate("second")
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(600)
        assert (len(first.terms), len(second.terms)) == (1, 0)
        assert all(call.method == "GET" for call in second.calls)

    world.loop.run(scenario())


def test_the_second_leads_after_the_duration_when_the_first_is_gone(world: World) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first"), world.candidate("second")
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(60)
        first.process.freeze()
        renewed_s = (datetime.fromisoformat(world.spec["renewTime"]) - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds()
        await asyncio.sleep(30)
        assert second.terms == [Term("second", 1)]
        assert DURATION_S <= second.began[0] - renewed_s <= DURATION_S + 2 * RETRY_S * 1.2 + 0.1

    world.loop.run(scenario())


@pytest.mark.parametrize("skew_s", [-600, 600])
def test_the_clocks_of_holder_and_candidate_do_not_matter(world: World, skew_s: float) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first", clock_offset_s=skew_s), world.candidate("second")
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(100)
        for process in (first.process, second.process):
            process.clock_offset_s -= 2 * skew_s
            await asyncio.sleep(100)
        world.loop.wall_offset_s += skew_s
        await asyncio.sleep(100)
        assert (len(first.terms), len(second.terms)) == (1, 0)

    world.loop.run(scenario())


def test_a_holder_whose_clock_stands_still_is_seen_to_renew(world: World) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first"), world.candidate("second")
        first.clock = lambda: datetime(2020, 1, 1, tzinfo=UTC)
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(300)
        assert (len(first.terms), len(second.terms)) == (1, 0)

    world.loop.run(scenario())


def test_a_term_outlives_one_renewal_that_hangs(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        first.start()
        await asyncio.sleep(3)
        writes = 0

        def plan(call: Call) -> Trip:
            nonlocal writes
            writes += call.method == "PUT"
            return Trip(there_s=60) if call.method == "PUT" and writes == 1 else Trip()

        first.plan = plan
        await asyncio.sleep(120)
        assert writes > 10
        assert len(first.terms) == 1

    world.loop.run(scenario())


def test_a_term_that_is_never_renewed_ends_in_time(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        first.plan = lambda call: Trip(there_s=HANGS_S) if call.method == "PUT" else Trip()
        first.start()
        await asyncio.sleep(30)
        assert first.ended[0] == pytest.approx(DEADLINE_S, abs=0.1)

    world.loop.run(scenario())


@pytest.mark.parametrize("methods", [("PUT",), ("PUT", "GET")])
def test_the_work_is_cancelled_in_time_when_all_requests_hang(world: World, methods: tuple[str, ...]) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first"), world.candidate("second")
        first.unwinding_s = 2
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(20)
        renewed = world.spec["renewTime"]
        first.plan = lambda call: Trip(there_s=HANGS_S) if call.method in methods else Trip()
        await asyncio.sleep(DEADLINE_S)
        assert not first.elector.is_leader
        await asyncio.sleep(30)
        start = datetime(2026, 1, 1, tzinfo=UTC)
        renewed_s = (datetime.fromisoformat(renewed) - start).total_seconds()
        assert first.ended == [pytest.approx(renewed_s + DEADLINE_S + 2, abs=0.1)]
        assert len(second.began) == 1
        assert first.ended[0] < second.began[0]

    world.loop.run(scenario())


def test_a_process_that_was_stopped_wakes_without_a_right_to_write(world: World) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first"), world.candidate("second")
        late: list[str] = []

        async def act(term: Term) -> None:
            fenced = FencedTransport(first, first.elector, term)
            try:
                await fenced.send(Call(method="PUT", path="/api/v1/namespaces/system", timeout_s=1))
            except NotLeadingError as error:
                late.append(error.reason)

        first.act = act
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(5.1)
        first.process.freeze()
        await asyncio.sleep(30)
        assert world.leaders() == ["second"]
        calls = len(first.calls)
        first.process.thaw()
        await asyncio.sleep(1)
        assert late in ([], ["NotLeading"])
        assert not first.working
        assert "PUT" not in {call.method for call in first.calls[calls:]}
        await asyncio.sleep(60)
        assert world.leaders() == ["second"]

    world.loop.run(scenario())


def test_a_renewal_that_is_answered_after_the_deadline_brings_no_term_back(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first", request_timeout_s=7.0)
        first.start()
        await asyncio.sleep(1)
        first.plan = lambda _: Trip(there_s=1)
        await asyncio.sleep(3.5)
        first.process.freeze()
        await asyncio.sleep(30)
        first.process.thaw()
        assert not first.elector.is_leader
        first.plan = usual
        await asyncio.sleep(30)
        assert [term.number for term in first.terms] == [0, 1]
        assert first.ended[0] < first.began[1]

    world.loop.run(scenario())


def test_an_acquisition_that_is_answered_too_late_begins_no_term(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        first.plan = lambda call: Trip(there_s=1, back_s=0.1) if call.method == "POST" else Trip()
        first.start()
        await asyncio.sleep(0.5)
        first.process.freeze()
        await asyncio.sleep(12)
        first.plan = usual
        first.process.thaw()
        await asyncio.sleep(0.1)
        assert first.terms == []
        await asyncio.sleep(10)
        assert [term.number for term in first.terms] == [1]

    world.loop.run(scenario())


@pytest.mark.parametrize("unwinding_s", [0.0, 3.0])
def test_an_error_of_the_work_ends_the_lead_and_releases(world: World, unwinding_s: float) -> None:
    async def scenario() -> None:
        first = world.candidate("first")

        async def act(_: Term) -> None:
            await asyncio.sleep(unwinding_s)
            raise LookupError("broken")

        first.act = act
        task = first.start()
        with pytest.raises(LookupError, match="broken"):
            await task
        assert not first.elector.is_leader
        assert "holderIdentity" not in world.spec
        calls = len(first.calls)
        await asyncio.sleep(60)
        assert len(first.calls) == calls

    world.loop.run(scenario())


def test_an_error_of_work_that_is_cancelled_ends_the_run_too(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")

        async def lead(_: Term) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise LookupError("cleaning up")

        task = first.process.spawn(first.elector.run(lead))
        await asyncio.sleep(5)
        first.plan = lambda _: Trip(there_s=HANGS_S)
        with pytest.raises(LookupError, match="cleaning up"):
            await task

    world.loop.run(scenario())


def test_work_that_ends_by_itself_ends_the_run_and_releases(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")

        async def lead(_: Term) -> None:
            await asyncio.sleep(40)

        await first.process.spawn(first.elector.run(lead))
        assert "holderIdentity" not in world.spec

    world.loop.run(scenario(), until_s=60)


def test_a_stop_ends_the_work_then_releases_and_the_next_need_not_wait(world: World) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first"), world.candidate("second")
        first.unwinding_s = 3
        task = first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(20)
        task.cancel()
        await asyncio.sleep(2.9)
        assert world.spec["holderIdentity"] == "first"
        with pytest.raises(asyncio.CancelledError):
            await task
        spec = world.spec
        assert "holderIdentity" not in spec
        assert spec["leaseTransitions"] == 0
        await asyncio.sleep(RETRY_S * 1.2 + 0.1)
        assert second.terms == [Term("second", 1)]

    world.loop.run(scenario())


def test_a_stop_leaves_the_lease_of_another_alone(world: World) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first"), world.candidate("second")
        task = first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(5)
        first.process.freeze()
        await asyncio.sleep(30)
        task.cancel()
        first.process.thaw()
        await asyncio.sleep(0.5)
        assert task.done()
        assert world.spec["holderIdentity"] == "second"
        assert second.elector.is_leader

    world.loop.run(scenario())


def test_a_stop_ends_in_time_when_the_server_is_not_there(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        task = first.start()
        await asyncio.sleep(5)
        first.plan = lambda _: Trip(there_s=HANGS_S)
        task.cancel()
        async with asyncio.timeout(3):
            with pytest.raises(asyncio.CancelledError):
                await task

    world.loop.run(scenario())


def test_a_stop_while_an_acquisition_is_under_way_releases_what_it_acquired(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        first.plan = lambda call: Trip(back_s=2) if call.method == "POST" else Trip()
        task = first.start()
        await asyncio.sleep(1)
        assert world.spec["holderIdentity"] == "first"
        task.cancel()
        await asyncio.sleep(1)
        assert task.done()
        assert "holderIdentity" not in world.spec
        assert first.terms == []

    world.loop.run(scenario())


def test_a_release_whose_answer_is_lost_is_looked_at_again(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        task = first.start()
        await asyncio.sleep(1)
        lost = iter([Trip(is_answered=False, there_s=0.01), Trip(), Trip(is_sent=False), Trip(), Trip()])
        first.plan = lambda _: next(lost)
        world.annotate("moved")  # the first attempt is a conflict, its answer is lost as well
        task.cancel()
        await asyncio.sleep(2.5)
        assert task.done()
        assert "holderIdentity" not in world.spec

    world.loop.run(scenario())


def test_a_term_outlives_a_storm_of_conflicts(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        first.start()
        await asyncio.sleep(1)
        for number in range(1000):
            await asyncio.sleep(0.05)
            world.annotate(str(number))
        assert len(first.terms) == 1
        assert world.spec["renewTime"] > "2026-01-01T00:00:45"

    world.loop.run(scenario())


def test_what_others_do_to_its_metadata_does_not_keep_a_dead_holder_alive(world: World) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first"), world.candidate("second")
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(5)
        first.process.freeze()
        for number in range(60):
            await asyncio.sleep(0.5)
            world.annotate(str(number))
        assert world.leaders() == ["second"]

    world.loop.run(scenario())


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_write_without_an_answer_is_read_before_the_next(world: World, is_applied: bool) -> None:  # noqa: FBT001
    async def scenario() -> None:
        first = world.candidate("first")
        first.start()
        await asyncio.sleep(1)
        del first.calls[:]
        lost = Trip(is_answered=False) if is_applied else Trip(there_s=HANGS_S)
        trips = iter([lost])
        first.plan = lambda _: next(trips, Trip())
        await asyncio.sleep(30)
        assert [call.method for call in first.calls][:4] == ["PUT", "GET", "PUT", "PUT"]
        assert len(first.terms) == 1

    world.loop.run(scenario())


def test_an_acquisition_without_an_answer_is_read_and_taken_again(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        trips = iter([Trip(), Trip(is_answered=False)])
        first.plan = lambda _: next(trips, Trip())
        first.start()
        await asyncio.sleep(5)
        assert [call.method for call in first.calls][:4] == ["GET", "POST", "GET", "PUT"]
        assert [term.number for term in first.terms] == [1]

    world.loop.run(scenario())


def test_a_holder_whose_lease_is_deleted_stops_before_another_leads(world: World) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first"), world.candidate("second")
        first.start()
        await asyncio.sleep(1)
        second.start()
        await asyncio.sleep(20)
        first.plan = lambda call: Trip() if call.method == "GET" else Trip(there_s=HANGS_S)
        world.request("DELETE", LEASES.path(NAMESPACE, NAME))
        await asyncio.sleep(40)
        assert len(second.began) == 1
        assert first.ended[0] < second.began[0]
        assert second.terms[0].number > first.terms[0].number

    world.loop.run(scenario())


def test_a_holder_that_finds_its_lease_taken_stops_at_once(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        first.start()
        await asyncio.sleep(20)
        taken = {"spec": {"holderIdentity": "someone", "leaseTransitions": 7}}
        world.request("PATCH", LEASES.path(NAMESPACE, NAME), taken)
        await asyncio.sleep(RETRY_S * 1.4)
        assert not first.working
        assert not first.elector.is_leader
        assert world.spec["holderIdentity"] == "someone"

    world.loop.run(scenario())


def test_two_processes_of_one_identity_do_not_lead_together(world: World) -> None:
    async def scenario() -> None:
        first, second = world.candidate("first", identity="same"), world.candidate("second", identity="same")
        first.start()
        second.start()
        await asyncio.sleep(60)
        assert len(first.terms) + len(second.terms) == 1
        leader, other = (first, second) if first.terms else (second, first)
        leader.process.freeze()
        await asyncio.sleep(30)
        leader.process.thaw()
        await asyncio.sleep(0.1)
        assert world.leaders() == [other.name]
        assert not leader.working

    world.loop.run(scenario())


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 4}])
def test_a_lease_that_nobody_holds_is_taken_at_once_and_counts_on(world: World, spec: Json) -> None:
    async def scenario() -> None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": NAME, "labels": {"a": "b"}},
        }
        world.request("POST", LEASES.path(NAMESPACE), lease if spec is None else {**lease, "spec": spec})
        first = world.candidate("first")
        first.start()
        await asyncio.sleep(1)
        assert first.terms == [Term("first", 1 + (spec or {}).get("leaseTransitions", 0))]
        assert world.lease["metadata"]["labels"] == {"a": "b"}

    world.loop.run(scenario())


def test_a_holder_is_waited_for_as_long_as_it_claims(world: World) -> None:
    async def scenario() -> None:
        slow = world.candidate("slow", lease_duration_s=60.0, renew_deadline_s=40.0)
        first = world.candidate("first")
        slow.start()
        await asyncio.sleep(1)
        first.start()
        await asyncio.sleep(10)
        slow.process.freeze()
        await asyncio.sleep(50)
        assert first.terms == []
        await asyncio.sleep(20)
        assert world.leaders() == ["first"]

    world.loop.run(scenario())


def test_fields_of_the_lease_that_are_not_ours_stay(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        task = first.start()
        await asyncio.sleep(1)
        world.request("PATCH", LEASES.path(NAMESPACE, NAME), {"spec": {"preferredHolder": "x"}})
        await asyncio.sleep(10)
        assert first.elector.is_leader
        task.cancel()
        await asyncio.sleep(1)
        assert world.spec["preferredHolder"] == "x"

    world.loop.run(scenario())


def test_trouble_is_logged_when_it_begins_not_at_each_attempt(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        first.plan = lambda _: Trip(is_sent=False)
        first.start()
        await asyncio.sleep(600)

    with capture_logs() as logs:
        world.loop.run(scenario())
    assert [line["event"] for line in logs].count("lease_call_failed") == 1


def test_no_lease_is_made_before_it_is_asked_for(world: World) -> None:
    async def scenario() -> None:
        first = world.candidate("first")
        assert not first.elector.is_leader
        with pytest.raises(NotFoundError):
            await Api(first, rng=random.Random(1)).get(LEASES, NAMESPACE, NAME)  # noqa: S311 - no secret

    world.loop.run(scenario())


@pytest.mark.parametrize(
    "options",
    [
        {"renew_deadline_s": 15.0},
        {"lease_duration_s": 15.5},
        {"lease_duration_s": 0.0},
        {"lease_duration_s": float("nan")},
        {"retry_period_s": 9.0},
        {"retry_period_s": 0.0},
        {"request_timeout_s": 0.0},
        {"request_timeout_s": 8.0},
    ],
)
def test_times_that_do_not_fit_each_other_are_refused(world: World, options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="_s: "):
        world.candidate("first", **options)


def test_an_elector_without_an_identity_is_refused(world: World) -> None:
    with pytest.raises(ValueError, match="identity"):
        Elector(
            Api(world.transport, rng=random.Random(1)),  # noqa: S311 - no secret
            namespace=NAMESPACE,
            name=NAME,
            identity="",
            now=world.loop.now,
            rng=random.Random(1),  # noqa: S311 - no secret
        )


KINDS = ("freeze", "hang", "hang-after", "lose", "unplug", "slow", "jump", "restart", "annotate")


@frozen
class Disturbance:
    """Something that happens to one of the candidates."""

    at_s: float
    lasts_s: float
    kind: str
    candidate: int = field(converter=int)


DISTURBANCES = st.builds(
    Disturbance,
    at_s=st.floats(0, 100),
    lasts_s=st.floats(0.01, 40),
    kind=st.sampled_from(KINDS),
    candidate=st.integers(0, 2),
)

_TRIPS = {
    "hang": Trip(there_s=60),
    "hang-after": Trip(back_s=60),
    "lose": Trip(is_answered=False),
    "unplug": Trip(is_sent=False),
    "slow": Trip(there_s=1.2, back_s=1.2),
}


class Watcher:
    """Looks for two that lead at once, and for terms that do not grow.

    Work that was stopped in its term may still be ending when it wakes; it has no right to write then.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.last = -1
        self.acts = 0
        self.violations: list[str] = []

    def look(self) -> None:
        leaders = self.world.leaders()
        if len(leaders) > 1:
            self.violations.append(f"{self.world.loop.time()}: {leaders} lead")
        working = [each.name for each in self.world.candidates if each.working and not each.was_stopped]
        if len(working) > 1:
            self.violations.append(f"{self.world.loop.time()}: {working} work")

    def acting(self, candidate: Candidate) -> Callable[[Term], Awaitable[None]]:
        async def act(term: Term) -> None:
            self.look()
            if not candidate.elector.holds(term):
                return
            if term.number < self.last:
                self.violations.append(f"{self.world.loop.time()}: {term} after {self.last}")
            self.last = term.number
            self.acts += 1

        return act


async def disturb(world: World, tasks: list[asyncio.Task[None]], this: Disturbance) -> None:
    await asyncio.sleep(this.at_s)
    candidate = world.candidates[this.candidate]
    match this.kind:
        case "freeze":
            candidate.was_stopped = True
            candidate.process.freeze()
            await asyncio.sleep(this.lasts_s)
            candidate.process.thaw()
        case "jump":
            candidate.process.clock_offset_s += (this.lasts_s - 20) * 60
        case "restart":
            before = tasks[this.candidate]
            before.cancel()
            await asyncio.wait([before])
            await asyncio.sleep(this.lasts_s)
            if tasks[this.candidate] is before:
                tasks[this.candidate] = candidate.start()
        case "annotate":
            for number in range(20):
                await asyncio.sleep(this.lasts_s / 20)
                if world.server.store.get(("coordination.k8s.io/leases", NAMESPACE, NAME)):
                    world.annotate(f"{this.at_s} {number}")
        case kind:
            candidate.plan = lambda _: _TRIPS[kind]
            await asyncio.sleep(this.lasts_s)
            candidate.plan = usual


def check(disturbances: list[Disturbance]) -> None:
    async def scenario(world: World) -> None:
        watcher = Watcher(world)
        for name in "abc":
            candidate = world.candidate(name)
            candidate.unwinding_s = 1.0
            candidate.act = watcher.acting(candidate)
        tasks = [candidate.start() for candidate in world.candidates]
        async with asyncio.TaskGroup() as group:
            for disturbance in disturbances:
                group.create_task(disturb(world, tasks, disturbance))
            for _ in range(1500):
                await asyncio.sleep(0.1)
                watcher.look()
        assert watcher.violations == [], watcher.violations
        for candidate in world.candidates:
            candidate.process.thaw()
            candidate.plan = usual
        acts = watcher.acts
        for _ in range(400):
            await asyncio.sleep(0.1)
            watcher.look()
        assert world.leaders()
        assert watcher.acts > acts
        assert watcher.violations == [], watcher.violations

    with VirtualLoop() as loop, capture_logs():
        loop.run(scenario(World(loop)))


@settings(deadline=None, max_examples=25)
@given(st.lists(DISTURBANCES, max_size=12))
def test_two_never_lead_at_once_and_one_leads_in_the_end(disturbances: list[Disturbance]) -> None:
    check(disturbances)


@pytest.mark.parametrize("seed", range(20))
def test_two_never_lead_at_once_in_bad_weather(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the same each time
    check(
        [
            Disturbance(rng.uniform(0, 110), rng.expovariate(1 / 12), rng.choice(KINDS), rng.randrange(3))
            for _ in range(rng.randrange(10, 40))
        ]
    )


def test_micro_times_are_utc_with_six_digits() -> None:
    assert (
        micro_time(datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=1)))) == "2026-02-03T03:05:06.000000Z"
    )
