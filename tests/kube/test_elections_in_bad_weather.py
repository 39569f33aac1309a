"""Whatever happens to three candidates, two never lead at once, and one leads in the end."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from attrs import field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.kube.elections import (
    NAME,
    NAMESPACE,
    Candidate,
    Trip,
    World,
    usual,
)

from dgdr_retune.kube import (
    Term,
)
from dgdr_retune.testing import VirtualLoop

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
