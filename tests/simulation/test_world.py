"""What a real cluster cannot be asked: a node that is lost, and how long a pod's volumes outlive it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dgdr_retune.testing import Script, VirtualLoop, Waiting, World
from dgdr_retune.testing._part import JOBS, PODS
from dgdr_retune.testing._store import Key, Write

Json = Any

JOB = Key(JOBS, "default", "demo")


@pytest.fixture
def world() -> Iterator[World]:
    with VirtualLoop() as loop:
        yield World(loop, seed=3)


def start(world: World, script: Script) -> None:
    world.script = script
    containers = [{"name": name, "image": "any"} for name in ("sweeper", "publisher")]
    spec = {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
    world.access("people").create(JOBS, "default", {"metadata": {"name": "demo"}, "spec": spec})


def pod(world: World) -> Json:
    return next(world.access("people").all(PODS, "default"), None)


def play(world: World, *steps: Callable[[], Any] | float) -> None:
    """Do one thing after another; a number is how many seconds pass."""

    async def main() -> None:
        for step in steps:
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                step()

    world.loop.run(main())


def test_a_pod_that_is_deleted_has_ended_before_its_volumes_are_gone_and_is_gone_after_that(world: World) -> None:
    people = world.access("people")
    phases: list[tuple[float, str]] = []

    def note(write: Write) -> None:
        if write.key.resource == PODS:
            phases.append((world.loop.time(), write.new["status"]["phase"] if write.new else "gone"))

    def delete() -> None:
        people.delete(JOB, "Foreground")
        world.server.store.listen(note)

    start(world, Script(sweeper_s=1000.0, stop_s=5.0, unmount_s=40.0))
    play(world, 20.0, delete, 100.0)
    ended = next(time for time, phase in phases if phase == "Failed")
    gone = next(time for time, phase in phases if phase == "gone")
    assert 25 <= ended <= 27
    assert gone - ended >= 40
    assert people.get(JOB) is None


def test_the_pods_of_a_lost_node_are_deleted_and_stay(world: World) -> None:
    people = world.access("people")
    start(world, Script(sweeper_s=1000.0))
    play(world, 20.0, world.lose_node, 2000.0)
    assert "deletionTimestamp" in pod(world)["metadata"]
    assert pod(world)["status"]["phase"] == "Running"
    conditions = [each["type"] for each in people.get(JOB)["status"]["conditions"]]
    assert conditions == ["FailureTarget"]
    play(world, lambda: people.delete(JOB, "Foreground"), 1000.0)
    assert people.get(JOB) is not None
    play(world, world.node.come_back, 60.0)
    assert (pod(world), people.get(JOB)) == (None, None)


def test_a_node_that_is_back_in_time_loses_nothing(world: World) -> None:
    start(world, Script(sweeper_s=100.0))
    play(world, 20.0, world.lose_node, 200.0)
    assert pod(world)["status"]["phase"] == "Running"
    play(world, world.node.come_back, 400.0)
    assert "deletionTimestamp" not in pod(world)["metadata"]


def test_a_container_waits_until_the_cause_is_gone(world: World) -> None:
    start(world, Script(waiting=Waiting("publisher", "ErrImagePull", "not found")))
    play(world, 20.0)
    sweeper, publisher = pod(world)["status"]["containerStatuses"]
    assert publisher["state"] == {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    assert sweeper["state"] == {"running": {}}
    assert pod(world)["status"]["phase"] == "Pending"
    world.script = Script()
    play(world, 20.0)
    assert pod(world)["status"]["phase"] == "Running"


def test_a_pod_that_is_deleted_before_its_job_was_counted_fails_the_job(world: World) -> None:
    people = world.access("people")

    def delete(write: Write) -> None:
        if write.key.resource == PODS and write.type == "ADDED":
            world.loop.call_soon(people.delete, write.key)

    world.server.store.listen(delete)
    start(world, Script())
    play(world, 60.0)
    assert people.get(JOB)["status"]["conditions"][-1]["type"] == "Failed"


def test_a_job_waits_for_its_account(world: World) -> None:
    people = world.access("people")
    spec = {"template": {"spec": {"serviceAccountName": "publisher", "containers": []}}}
    people.create(JOBS, "default", {"metadata": {"name": "demo"}, "spec": spec})
    play(world, 20.0)
    assert pod(world) is None
    people.create("/serviceaccounts", "default", {"metadata": {"name": "publisher"}})
    play(world, 20.0)
    assert pod(world) is not None
