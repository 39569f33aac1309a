"""The operator's processes in a simulated world: started, killed, stopped, and started again."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from attrs import frozen

from dgdr_retune.operator import Operator, Settings
from dgdr_retune.testing._client import Client
from dgdr_retune.testing._exchange import Exchange
from dgdr_retune.testing._faults import Faults
from dgdr_retune.testing._virtual_loop import VirtualProcess
from dgdr_retune.testing._world import OPERATOR_NAMESPACE, World

GRACE_S: Final = 10.0
"""How long a process may take to end when it is asked to, or killed."""
_SETTINGS: Final = {
    "operator_namespace": OPERATOR_NAMESPACE,
    "http_port": None,
    "lease_duration_seconds": 18,  # renewing the Lease is most of what an idle operator does
    "renew_deadline_seconds": 12.0,
    "retry_period_seconds": 4.0,
    "sweeper_image": "registry.example.com/sweeper:1",
    "publisher_image": "registry.example.com/publisher:1",
    "runtime_image": "registry.example.com/runtime:1.6.1",
}


class Operate(Protocol):
    """What one process of the operator does, until it is cancelled."""

    def __call__(
        self, client: Client, process: VirtualProcess, rng: random.Random, settings: Mapping[str, Any]
    ) -> Coroutine[Any, Any, None]:
        """Do it."""


async def operate(client: Client, process: VirtualProcess, rng: random.Random, settings: Mapping[str, Any]) -> None:
    """The operator as it is, without its servers."""
    told = Settings.model_validate({**_SETTINGS, "identity": client.name, **settings})
    await Operator(told, client, now=process.now, rng=rng).run()


@frozen
class Running:
    """A process that runs."""

    client: Client
    process: VirtualProcess


class Operators:
    """Some processes of the operator, each replaced when it ends.

    Attributes:
        running: those that run, by their place.
        crashes: what the killed ones had written last, and how often.
        writes: what those that ended have written, without Leases and Events.
        problems: what a process should not have done.

    Args:
        world: where they run.
        operate: what they do.
        count: how many run at a time.
        faults: what goes wrong.
        settings: of the operator, where they are not the default.
        dies_after: the number of writes of them all after which one dies; 0 for never.
        tell: told about each call that reached the server.
    """

    def __init__(
        self,
        world: World,
        operate: Operate,
        *,
        count: int,
        faults: Faults,
        settings: Mapping[str, Any],
        dies_after: int,
        tell: Callable[[Exchange], None],
    ) -> None:
        self.running: dict[int, Running] = {}
        self.crashes: Counter[str] = Counter()
        self.writes: list[str] = []
        self.problems: list[str] = []
        self._world = world
        self._operate = operate
        self._count = count
        self._faults = faults
        self._settings = settings
        self._dies_after = dies_after
        self._tell = tell
        self._started = 0
        self._rng = world.random("operators")
        self._keepers: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    @property
    def are_well(self) -> bool:
        """Whether at least one runs, and none is disturbed."""
        return bool(self.running) and not any(each.process.frozen for each in self.running.values())

    def start(self) -> None:
        """Start them; what ends is started again."""
        self._stopping.clear()
        self._keepers = [asyncio.create_task(self._keep(place)) for place in range(self._count)]

    async def stop(self) -> None:
        """Have them end as Kubernetes does when they are removed."""
        self._stopping.set()
        for keeper in self._keepers:
            await keeper
        self._keepers = []

    async def _keep(self, place: int) -> None:
        while not self._stopping.is_set():
            await self._run(place)
            if not self._stopping.is_set():
                await asyncio.sleep(self._rng.uniform(0.2, 8.0))

    async def _run(self, place: int) -> None:
        """One process, from its start to its end."""
        self._started += 1
        name = f"operator-{'ab'[place]}{self._started}"
        rng = self._world.random(name)
        client = Client(name, self._world.desk, faults=self._faults, rng=rng, tell=self._tell)
        client.dies_after = max(self._dies_after - len(self.writes), 0)
        process = self._world.loop.process(name)
        self.running[place] = Running(client, process)
        task = process.spawn(self._operate(client, process, self._world.random(f"{name} itself"), self._settings))
        died = asyncio.create_task(client.died.wait())
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({task, died, stopped}, return_when=asyncio.FIRST_COMPLETED)
        del self.running[place]
        process.thaw()
        died.cancel()
        stopped.cancel()
        if client.is_dead:
            self.crashes[client.actions[-1].kind if client.actions else "nothing"] += 1
        elif task.done():
            self.problems.append(f"{name} ended by itself{_cause(task)}")
        await self._end(name, task)
        self.writes += [action.kind for action in client.actions]
        client.kill()

    async def _end(self, name: str, task: asyncio.Task[None]) -> None:
        """See a process end that was killed or asked to end."""
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE_S)
        if not task.done():
            self.problems.append(f"{name} does not end")


def _cause(task: asyncio.Task[None]) -> str:
    error = None if task.cancelled() else task.exception()
    return "" if error is None else f": {error!r}"
