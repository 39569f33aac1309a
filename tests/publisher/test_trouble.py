"""Conflicts, deletions, and a server that refuses or does not answer."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.publisher.conftest import Play
from tests.publisher.playing import played
from tests.publisher.snapshots import candidate, snapshot
from tests.publisher.world import NAMESPACE, POD, RUN, Fault, World, stamp

from dgdr_retune.kube import PODS, Answer, Call, NotSentError
from dgdr_retune.publisher._act import CANDIDATES, RUNS
from dgdr_retune.publisher._errors import Exit

Json = Any


STATUS = {"reason": "Forbidden", "code": 403, "kind": "Status", "message": "not granted"}


def test_lost_replies_do_not_use_up_the_tries(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), phase="Succeeded"))
        world.transport.faults = [Fault(at=number, before=False, killed=False) for number in (1, 4, 5)]
        begun = world.loop.time()
        assert await played(world) is Exit.ACKNOWLEDGED
        assert [write.split()[0] for write in world.transport.writes] == ["POST", "DELETE", "POST", "PUT", "PATCH"]
        assert world.loop.time() - begun < 1

    play(scenario())


def test_a_write_of_the_run_in_between_is_a_conflict_and_is_taken_into_account(world: World, play: Play) -> None:
    async def scenario() -> None:
        async def interfere(call: Call) -> None:
            if call.method == "PATCH" and len([each for each in world.transport.calls if each.method == "PATCH"]) == 1:
                status = {"phase": "Failed", "jobRef": {"name": RUN}, "message": "from elsewhere"}
                fenced = {"metadata": stamp(await world.run()), "status": status}
                await world.admin.patch(RUNS, NAMESPACE, RUN, fenced, subresource="status")

        world.transport.on_call = interfere
        world.write(snapshot(phase="Succeeded"))
        assert await played(world) is Exit.ACKNOWLEDGED
        status = (await world.run())["status"]
        assert (status["phase"], status["jobRef"], status.get("message")) == ("Failed", {"name": RUN}, None)

    play(scenario())


def test_a_run_that_changes_all_the_time_is_given_up_after_three_tries(world: World, play: Play) -> None:
    async def scenario() -> None:
        async def interfere(call: Call) -> None:
            if call.method == "PATCH":
                count = {"status": {"startTime": f"2026-10-01T12:00:{len(world.transport.calls) % 60:02}Z"}}
                fenced = {"metadata": stamp(await world.run()), **count}
                await world.admin.patch(RUNS, NAMESPACE, RUN, fenced, subresource="status")

        world.transport.on_call = interfere
        world.write(snapshot(phase="Succeeded"))
        assert await played(world) is Exit.NOT_RECONCILED
        assert len(world.transport.writes) == 15

    play(scenario())


async def recreate_run(world: World) -> None:
    run = await world.run()
    await world.admin.delete(RUNS, NAMESPACE, RUN, uid=run["metadata"]["uid"])
    await world.make_run({**run, "metadata": {"name": RUN}, "status": None})


async def delete_run(world: World) -> None:
    await world.admin.delete(RUNS, NAMESPACE, RUN, uid=(await world.run())["metadata"]["uid"])


async def mark_run_for_deletion(world: World) -> None:
    uid = (await world.run())["metadata"]["uid"]
    await world.admin.delete(RUNS, NAMESPACE, RUN, uid=uid, propagation="Foreground")


async def mark_pod_for_deletion(world: World) -> None:
    uid = (await world.admin.get(PODS, NAMESPACE, POD))["metadata"]["uid"]
    await world.admin.delete(PODS, NAMESPACE, POD, uid=uid, propagation="Foreground")


async def delete_pod(world: World) -> None:
    uid = (await world.admin.get(PODS, NAMESPACE, POD))["metadata"]["uid"]
    await world.admin.delete(PODS, NAMESPACE, POD, uid=uid)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (recreate_run, "RunReplaced"),
        (delete_run, "RunGone"),
        (mark_run_for_deletion, "RunTerminating"),
        (mark_pod_for_deletion, "PodTerminating"),
        (delete_pod, "PodGone"),
    ],
)
def test_it_stops_at_once_when_there_is_nothing_to_publish_for(
    world: World, play: Play, event: Callable[[World], Awaitable[None]], reason: str
) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0)))

        async def happen() -> None:
            await event(world)
            world.write(snapshot(candidate(2.0)))
            world.transport.calls.clear()

        begun = world.loop.time()
        assert await played(world, [(1.5, happen)]) is Exit.NOT_RECONCILED
        assert world.loop.time() - begun < 2.1
        assert not world.transport.writes

    with capture_logs() as logs:
        play(scenario())
    assert logs[-1]["event"] == "stopped"
    assert logs[-1]["reason"] == reason


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"name": POD}},
        {"spec": {"containers": [{"name": "other", "image": "i"}]}},
    ],
)
def test_a_pod_that_is_not_a_runs_is_refused(world: World, play: Play, changes: Json) -> None:
    async def scenario() -> None:
        await delete_pod(world)
        await world.make_pod(**({"metadata": {"name": POD, "labels": {"nvidia.com/dgdr-run-uid": "u"}}} | changes))
        assert await played(world) is Exit.NOT_RECONCILED

    play(scenario())


def test_a_waiting_sweeper_is_one_that_has_not_ended(world: World, play: Play) -> None:
    async def scenario() -> None:
        await world.set_sweeper({"waiting": {"reason": "CreateContainerError"}})
        exit_ = await played(world, [(600.5, lambda: world.end_sweeper(2))])
        assert exit_ is Exit.ACKNOWLEDGED
        assert world.loop.time() > 600

    play(scenario())


def test_a_server_that_cannot_be_reached_is_waited_for(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), phase="Succeeded"))

        async def down(_: Call) -> None:
            if world.loop.time() < 900:
                raise NotSentError("no route")

        world.transport.on_call = down
        assert await played(world) is Exit.ACKNOWLEDGED
        assert world.loop.time() >= 900

    play(scenario())


def test_what_is_the_matter_is_said_once_and_again_when_it_comes_back(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0)))

        async def down(_: Call) -> None:
            if 2 < world.loop.time() < 100 or 200 < world.loop.time() < 300:
                raise NotSentError("no route")

        world.transport.on_call = down
        await played(world, [(400.5, lambda: world.end_sweeper(1))])

    with capture_logs() as logs:
        play(scenario())
    assert [each["event"] for each in logs if each["log_level"] == "warning"] == [
        "cannot read the own pod",
        "cannot read the own pod",
        "no valid final snapshot",
    ]


def refused_for(world: World, seconds: float, what: str) -> Callable[[Call], Awaitable[Answer | None]]:
    async def answer(call: Call) -> Answer | None:
        if what in call.path and world.loop.time() < seconds:
            return Answer(403, {}, json.dumps(STATUS).encode())
        return None

    return answer


@pytest.mark.parametrize(("seconds", "expected"), [(30, 0), (3000, 1)])
def test_rights_may_come_late_but_not_for_ever(world: World, play: Play, seconds: float, expected: int) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), phase="Succeeded"))
        world.transport.on_call = refused_for(world, seconds, "/pods/")
        assert await played(world) == expected
        assert world.loop.time() < 120

    play(scenario())


def test_what_cannot_be_published_is_tried_for_as_long_as_the_sweeper_runs_and_three_times_after(
    world: World, play: Play
) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0)))
        world.transport.on_call = refused_for(world, 1e9, CANDIDATES.plural)
        assert await played(world, [(1000.5, lambda: world.end_sweeper(0))]) is Exit.NOT_RECONCILED
        assert 1002 < world.loop.time() < 1005
        assert len([call for call in world.transport.calls if CANDIDATES.plural in call.path]) < 50

    play(scenario())
