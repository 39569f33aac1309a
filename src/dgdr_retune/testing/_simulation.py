"""One run of one scenario, which is a function of its seed, and what became of it."""

import asyncio
import functools
import traceback
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from dgdr_retune.testing._exchange import Exchange
from dgdr_retune.testing._faults import Fault, Faults
from dgdr_retune.testing._observer import Observer
from dgdr_retune.testing._operators import Operate, Operators, operate
from dgdr_retune.testing._part import CLAIMS, EVENTS, LEASES, RUNS
from dgdr_retune.testing._scenarios import Scenario
from dgdr_retune.testing._stage import Stage
from dgdr_retune.testing._state import difference, end_state
from dgdr_retune.testing._store import Write
from dgdr_retune.testing._virtual_loop import VirtualLoop, VirtualTimeError
from dgdr_retune.testing._world import NAMESPACE, World

State = Mapping[str, list[str]]

HISTORY: Final = 60
"""How many of the last events a failure shows."""
_SLOW: Final = (3.0, 20.0)
_FAULTS_S: Final = (30.0, 400.0)
_SPELL_S: Final = (2.0, 30.0)
_JUMP_S: Final = 3600.0
_LOOK_EVERY_S: Final = 5.0
_QUIET_S: Final = 60.0
_QUIET_FOR_GOOD_S: Final = 900.0
_UNTIL_S: Final = 80_000.0


@frozen
class Outcome:
    """What became of a run.

    Attributes:
        scenario: its name.
        seed: of the run.
        problems: what must never be; empty if all is well.
        state: what the world has come to.
        fired: how often each kind of fault happened.
        crashes: what a killed process had written last, and how often.
        writes: what the operator wrote, without Leases and Events, and how often.
        history: the last events.
        virtual_s: how long it took in the world.
    """

    scenario: str
    seed: int
    problems: tuple[str, ...]
    state: State
    fired: Counter[Fault]
    crashes: Counter[str]
    writes: Counter[str]
    history: tuple[str, ...]
    virtual_s: float

    def __str__(self) -> str:
        """For people: how to repeat it, what is wrong, and what happened last."""
        repeat = f"dgdr-retune-simulate --first {self.seed} --seeds 1 --scenario {self.scenario}"
        return "\n".join((repeat, *self.problems, "history:", *self.history))


def simulate(
    scenario: Scenario,
    seed: int,
    *,
    faults: Faults | None = None,
    dies_after: int = 0,
    operate: Operate = operate,
    wanted: State | None = None,
) -> Outcome:
    """Play a scenario.

    Args:
        scenario: what happens.
        seed: decides how long everything takes.
        faults: what goes wrong, such as ``Faults.of_seed(seed)``; without them, nothing does.
        dies_after: the operator dies once, after so many writes; 0 for never.
        operate: what a process of the operator does.
        wanted: what the world must come to; without it, what the scenario says of it.
    """
    with VirtualLoop() as loop:
        return _Run(
            loop,
            scenario,
            seed,
            faults=Faults.none() if faults is None else faults,
            dies_after=dies_after,
            operate=operate,
            wanted=wanted,
        ).outcome()


@functools.cache
def undisturbed(scenario: Scenario) -> Outcome:
    """The run of a scenario in which nothing goes wrong, to which others are compared."""
    return simulate(scenario, 0)


class _Run:
    def __init__(
        self,
        loop: VirtualLoop,
        scenario: Scenario,
        seed: int,
        *,
        faults: Faults,
        dies_after: int,
        operate: Operate,
        wanted: State | None,
    ) -> None:
        self._loop = loop
        self._scenario = scenario
        self._seed = seed
        self._wanted = wanted
        self._history: deque[str] = deque(maxlen=HISTORY)
        self._faults = faults
        self._rng = faults.rng
        pace = self._rng.choice(_SLOW) if self._faults.strikes(Fault.SLOW_CLUSTER) else 1.0
        self._world = World(loop, seed, pace=pace, admission=scenario.admission)
        self._observer = Observer(self._world.server.store, loop.time, lambda actor: actor.startswith("operator-"))
        self._operators = Operators(
            self._world,
            operate,
            count=2 if self._faults.strikes(Fault.TWO_OPERATORS) else 1,
            faults=self._faults,
            settings=scenario.settings,
            dies_after=dies_after,
            tell=self._heard,
        )
        self._stage = Stage(self._world, self._operators, self._observer, self._world.access("people"))
        self._changed_at_s = 0.0
        self._world.server.store.listen(self._written)

    def outcome(self) -> Outcome:
        problems: list[str] = []
        try:
            self._loop.run(self._main(), until_s=_UNTIL_S)
        except (VirtualTimeError, AssertionError) as error:
            problems = [str(error)]
        except Exception as error:  # noqa: BLE001 -- whatever failed, its seed and its history are to be shown
            problems = ["".join(traceback.format_exception(error))]
        problems = [*map(str, self._observer.problems), *self._operators.problems, *problems, *self._differences()]
        return Outcome(
            self._scenario.name,
            self._seed,
            tuple(problems),
            end_state(self._world.server.store),
            self._faults.fired,
            self._operators.crashes,
            Counter(self._operators.writes),
            tuple(self._history),
            self._loop.time(),
        )

    async def _main(self) -> None:
        self._operators.start()
        others = [asyncio.create_task(self._weather()), asyncio.create_task(self._watch_the_time())]
        try:
            await self._scenario.play(self._stage)
            await others[0]
            await self._settle()
        finally:
            for task in others:
                task.cancel()
            await self._operators.stop()

    async def _weather(self) -> None:
        """What goes wrong without anybody having called, until the faults end."""
        end_s = self._loop.time() + self._rng.uniform(*_FAULTS_S)
        while not self._faults.are_over and self._loop.time() < end_s:
            await asyncio.sleep(self._rng.uniform(*_SPELL_S))
            self._disturb_process()
            await self._disturb_cluster()
        self._faults.end()
        for each in self._operators.running.values():
            each.process.clock_offset_s = 0.0

    def _disturb_process(self) -> None:
        running = list(self._operators.running.values())
        if not running:
            return
        one = self._rng.choice(running)
        if self._faults.strikes(Fault.CRASH):
            if self._rng.random() < 0.7:  # noqa: PLR2004 - rather after a write than anywhere
                one.client.dies_after = len(one.client.actions) + self._rng.randint(1, 3)
            else:
                one.client.dies_before = one.client.calls + self._rng.randint(1, 10)
        if self._faults.strikes(Fault.CLOCK_JUMP):
            one.process.clock_offset_s += self._rng.uniform(-_JUMP_S, _JUMP_S)
            self._note(f"the clock of {one.client.name} jumps")
        if self._faults.strikes(Fault.FROZEN):
            self._note(f"{one.client.name} is frozen")
            one.process.freeze()
            self._loop.call_later(self._rng.uniform(5.0, 60.0), one.process.thaw)

    async def _disturb_cluster(self) -> None:
        if self._faults.strikes(Fault.COMPACTION):
            self._world.server.compact()
        if not self._world.node.is_lost and self._faults.strikes(Fault.NODE_LOST):
            self._note("the node is lost")
            self._world.lose_node()
            await asyncio.sleep(self._rng.uniform(5.0, 200.0))
            self._world.node.come_back()

    async def _watch_the_time(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if self._faults.are_over and self._operators.are_well:
                self._observer.pass_time(_LOOK_EVERY_S)

    async def _settle(self) -> None:
        """Wait until nothing happens any more: for a while if all is as it should be, else for long."""
        while True:
            quiet_s = self._loop.time() - self._changed_at_s
            if quiet_s >= _QUIET_FOR_GOOD_S or (quiet_s >= _QUIET_S and not self._differences()):
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    def _differences(self) -> list[str]:
        """What is not as it should be."""
        if self._wanted is not None:
            return difference(self._wanted, end_state(self._world.server.store))
        reasons = {
            run["metadata"]["name"]: self._stage.reason_of(run["metadata"]["name"])
            for run in self._stage.people.all(RUNS, NAMESPACE)
        }
        claims = {claim["metadata"]["name"]: claim for claim in self._stage.people.all(CLAIMS, NAMESPACE)}
        found = [] if reasons == self._scenario.comes_to else [f"the Runs are {reasons}"]
        if sorted(claims) != sorted(self._scenario.claims_left):
            found.append(f"the claims are {sorted(claims)}")
        held = [name for name, claim in claims.items() if "dgdr-run" in str(claim["metadata"]["finalizers"])]
        return [*found, *(f"{name} is held for ever" for name in held)]

    def _written(self, write: Write) -> None:
        actor = self._world.desk.actor
        self._observer.saw(write, actor)
        if write.key.resource not in (LEASES, EVENTS):
            self._changed_at_s = self._loop.time()
            self._note(f"{actor}: {write.type.lower()} {write.key.resource} {write.key.name}")

    def _heard(self, exchange: Exchange) -> None:
        self._observer.heard(exchange)
        if not exchange.is_done and exchange.action.is_write:
            action, answer = exchange.action, exchange.answer
            self._note(f"{exchange.client}: {action.kind} {action.name} is refused: {answer.code}")

    def _note(self, event: str) -> None:
        self._history.append(f"{self._loop.time():10.3f}  {event}")
