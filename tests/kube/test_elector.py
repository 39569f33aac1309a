"""Who leads and for how long, whatever becomes of clocks and requests; and what stands in the Lease."""

import asyncio
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from structlog.testing import capture_logs
from tests.kube.elections import (
    DEADLINE_S,
    DURATION_S,
    HANGS_S,
    NAME,
    NAMESPACE,
    RETRY_S,
    Json,
    Trip,
    World,
    usual,
)

from dgdr_retune.kube import (
    LEASES,
    Api,
    Call,
    Elector,
    FencedTransport,
    NotFoundError,
    NotLeadingError,
    Term,
)
from dgdr_retune.kube._lease import micro_time
from dgdr_retune.testing import VirtualLoop


@pytest.fixture
def world() -> Iterator[World]:
    with VirtualLoop() as loop, capture_logs():
        yield World(loop)


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


def test_micro_times_are_utc_with_six_digits() -> None:
    assert (
        micro_time(datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=1)))) == "2026-02-03T03:05:06.000000Z"
    )
