"""Every write may be the last of a process, and every reply may be lost: what is there at the end is the same."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.publisher.conftest import Play
from tests.publisher.playing import Script, played
from tests.publisher.snapshots import SERVICE, candidate, deployment, manifest, snapshot, unmaterialized
from tests.publisher.world import CONDITION, NAMESPACE, RUN, Fault, World, stamp

from dgdr_retune.api import SNAPSHOT_FILE
from dgdr_retune.kube import Call
from dgdr_retune.publisher._act import CANDIDATES, RUNS
from dgdr_retune.publisher._errors import Exit

Json = Any


def check_invariants(world: World) -> Callable[[Call], Awaitable[None]]:
    """What holds after each write, whatever was killed or lost before."""
    evaluated: dict[str, Json] = {}

    async def check(call: Call) -> None:
        candidates, run = await world.candidates(), await world.run()
        named_ = [each["name"] for each in run["status"].get("candidateRefs", [])]
        assert len(named_) == len(set(named_))
        assert all(candidates[name].get("status") for name in named_), "the Run names what is not whole"
        assert (run["status"]["phase"], run["status"]["conditions"]) == ("Running", [CONDITION])
        for each in candidates.values():
            uid, status = each["metadata"]["uid"], each.get("status")
            assert evaluated.setdefault(uid, status) in (None, status), "a status was written twice"
            evaluated[uid] = status
        assert call.method != "PUT" or call.path.endswith("/status")

    return check


def story(world: World) -> Script:
    """Candidates come, change places, fail and go; files are missing, half and regressing; then the end."""
    one, two, three = candidate(1.0), candidate(2.0, manifest=manifest(deployment(), SERVICE)), candidate(3.0)
    return [
        (0.5, lambda: world.write(snapshot(run={"message": "starting"}, round_=0))),
        (2.5, lambda: world.write(snapshot(one, two, evaluated=2))),
        (4.5, lambda: world.write(b"schemaVersion: 1\nrun: {phase")),
        (6.5, lambda: world.write(snapshot(three, one, unmaterialized(4.0), round_=2, evaluated=4))),
        (8.5, lambda: world.write(snapshot(round_=1))),
        (10.5, lambda: world.write(snapshot(two, three, phase="Succeeded", round_=2, evaluated=6))),
        (12.5, lambda: world.end_sweeper(0)),
    ]


@pytest.fixture
def undisturbed(world: World, play: Play) -> tuple[int, Json]:
    """How many writes the story takes without faults, and what is there at its end."""

    async def scenario() -> tuple[int, Json]:
        world.transport.after_write = check_invariants(world)
        assert await played(world, story(world)) is Exit.ACKNOWLEDGED
        return len(world.transport.writes), await world.end_state()

    count, state = play(scenario())
    assert (count, len(state["candidates"])) == (14, 2)
    return count, state


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "reply lost"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_every_write_may_be_the_last_of_a_process_and_every_reply_may_be_lost(
    world: World, play: Play, undisturbed: tuple[int, Json], *, before: bool, killed: bool
) -> None:
    count, state = undisturbed

    async def scenario(faults: list[Fault]) -> None:
        for each in (await world.candidates()).values():
            await world.admin.delete(CANDIDATES, NAMESPACE, each["metadata"]["name"], uid=each["metadata"]["uid"])
        cleared = {"metadata": stamp(await world.run()), "status": dict.fromkeys(state["run"])}
        cleared["status"] |= {"phase": "Running", "conditions": [CONDITION]}
        await world.admin.patch(RUNS, NAMESPACE, RUN, cleared, subresource="status")
        await world.set_sweeper({"running": {}})
        (world.directory / SNAPSHOT_FILE).unlink()
        world.transport.begin(faults)
        world.transport.after_write = check_invariants(world)
        assert await played(world, story(world)) is Exit.ACKNOWLEDGED
        assert await world.end_state() == state

    for number in range(1, count + 1):
        play(scenario([Fault(number, before, killed)]))
    # and one after another, which meets the writes that only a repair makes
    for number in range(1, count):
        play(scenario([Fault(number, before, killed), Fault(number + 1, before, killed)]))
    play(scenario([Fault(number, before, killed) for number in range(1, 3 * count, 3)]))
