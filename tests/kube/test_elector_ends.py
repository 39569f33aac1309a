"""How a term ends: by its work, by a stop, by others, and while answers are lost."""

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs
from tests.kube.elections import (
    HANGS_S,
    NAME,
    NAMESPACE,
    RETRY_S,
    Trip,
    World,
)

from dgdr_retune.kube import (
    LEASES,
    Term,
)
from dgdr_retune.testing import VirtualLoop


@pytest.fixture
def world() -> Iterator[World]:
    with VirtualLoop() as loop, capture_logs():
        yield World(loop)


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
