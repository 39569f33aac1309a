"""The work queue, on virtual time."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from dgdr_retune.kube import Backoff, WorkQueue
from dgdr_retune.kube._queue import BACKOFF
from dgdr_retune.testing import VirtualLoop

Reconcile = Callable[[str], Awaitable[float | None]]


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with VirtualLoop() as loop:
        yield loop


def queue(backoff: Backoff = BACKOFF) -> WorkQueue[str]:
    return WorkQueue(rng=random.Random(1), backoff=backoff)  # noqa: S311 - the same each time


async def run_for(seconds: float, queue: WorkQueue[str], reconcile: Reconcile, workers: int = 1) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await queue.run(reconcile, workers)


class Recorder:
    """Notes when a key is begun and ended; each takes ``seconds``."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.begun: list[tuple[float, str]] = []
        self.ended: list[tuple[float, str]] = []

    async def __call__(self, key: str) -> float | None:
        clock = asyncio.get_running_loop().time
        self.begun.append((clock(), key))
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.ended.append((clock(), key))
        return None


def test_a_key_that_is_added_often_is_reconciled_once(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        work, recorder = queue(), Recorder()
        for _ in range(100):
            work.add("a")
        work.add("b")
        assert work.depth == 2
        await run_for(10, work, recorder)
        assert recorder.begun == [(0, "a"), (0, "b")]
        assert work.depth == 0

    loop.run(scenario())


def test_a_key_that_is_added_while_it_runs_runs_once_more_afterwards(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        work, recorder = queue(), Recorder(2)
        work.add("a")
        loop.call_later(1, work.add, "a")
        loop.call_later(1.5, work.add, "a")
        await run_for(10, work, recorder, workers=4)
        assert recorder.begun == [(0, "a"), (2, "a")]

    loop.run(scenario())


def test_a_delay_that_ends_while_the_key_runs_is_kept(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        work, recorder = queue(), Recorder(2)
        work.add("a")
        loop.call_later(0.5, work.add, "a", 1)
        await run_for(10, work, recorder, workers=4)
        assert recorder.begun == [(0, "a"), (2, "a")]

    loop.run(scenario())


@pytest.mark.parametrize("delays", [(5, 3), (3, 5), (5, 3, 4)])
def test_of_several_delays_the_earliest_holds(loop: VirtualLoop, delays: tuple[float, ...]) -> None:
    async def scenario() -> None:
        work, recorder = queue(), Recorder()
        for delay in delays:
            work.add("a", delay)
        assert work.depth == 0
        await run_for(10, work, recorder)
        assert recorder.begun == [(3, "a")]

    loop.run(scenario())


def test_no_delay_beats_a_delay(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        work, recorder = queue(), Recorder()
        work.add("a", 5)
        work.add("a")
        work.add("a", 1)
        await run_for(10, work, recorder)
        assert recorder.begun == [(0, "a")]

    loop.run(scenario())


def test_a_key_is_looked_at_again_when_its_reconciliation_asks_for_it(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        begun: list[float] = []

        async def reconcile(key: str) -> float | None:
            assert key == "a"
            begun.append(loop.time())
            return 3 if len(begun) < 3 else None

        work = queue()
        work.add("a")
        await run_for(60, work, reconcile)
        assert begun == [0, 3, 6]

    loop.run(scenario())


def test_failures_in_a_row_wait_longer_up_to_a_bound_and_a_success_starts_anew(loop: VirtualLoop) -> None:
    failing = 12
    begun: list[float] = []

    async def reconcile(_: str) -> float | None:
        begun.append(loop.time())
        if len(begun) % (failing + 1) == 0:
            return 100
        raise ValueError

    async def scenario() -> None:
        work = queue(Backoff(first_s=1, cap_s=60))
        work.add("a")
        await run_for(3000, work, reconcile)

    loop.run(scenario())
    waits = [later - earlier for earlier, later in pairwise(begun)]
    for number, wait in enumerate(waits[: 2 * (failing + 1)]):
        failure = number % (failing + 1)
        if failure == failing:
            assert wait == pytest.approx(100)
            continue
        whole = min(60, 2**failure)
        assert whole / 2 <= wait <= whole
    assert len({round(wait, 6) for wait in waits[:failing]}) == failing


def test_an_event_cuts_a_backoff_short(loop: VirtualLoop) -> None:
    begun: list[float] = []

    async def reconcile(_: str) -> float | None:
        begun.append(loop.time())
        if len(begun) == 1:
            raise ValueError
        return None

    async def scenario() -> None:
        work = queue(Backoff(first_s=50, cap_s=50))
        work.add("a")
        loop.call_later(1, work.add, "a")
        await run_for(200, work, reconcile)

    loop.run(scenario())
    assert begun == [0, 1]


def test_a_failing_key_does_not_hold_up_the_others_and_is_logged_when_its_failure_changes(loop: VirtualLoop) -> None:
    begun: list[str] = []

    async def reconcile(key: str) -> float | None:
        begun.append(key)
        if key == "bad" and begun.count("bad") < 10:
            raise ValueError("one" if begun.count("bad") < 5 else "two")
        return None

    async def scenario() -> None:
        work = queue()
        work.add("bad")
        work.add("good")
        await run_for(300, work, reconcile)

    with capture_logs() as logs:
        loop.run(scenario())
    assert begun == ["bad", "good"] + ["bad"] * 9
    assert [(line["event"], line["key"], line["failures"]) for line in logs] == [
        ("reconcile_failed", "bad", 1),
        ("reconcile_failed", "bad", 5),
        ("reconcile_recovered", "bad", 9),
    ]


def test_a_cancellation_from_within_is_a_failure_of_the_key_and_costs_no_worker(loop: VirtualLoop) -> None:
    begun: list[str] = []

    async def reconcile(key: str) -> float | None:
        begun.append(key)
        if begun.count(key) == 1:
            future = loop.create_future()
            future.cancel()
            await future
        return None

    async def scenario() -> None:
        work = queue()
        work.add("a")
        work.add("b")
        await run_for(60, work, reconcile)

    loop.run(scenario())
    assert sorted(begun) == ["a", "a", "b", "b"]


def test_stopping_ends_what_runs_and_leaves_nothing(loop: VirtualLoop) -> None:
    async def scenario() -> None:
        work, recorder = queue(), Recorder(100)
        for key in "abcd":
            work.add(key)
        work.add("e", 20)
        loop.call_later(1, work.add, "a")
        await run_for(10, work, recorder, workers=2)
        assert recorder.begun == [(0, "a"), (0, "b")]
        assert recorder.ended == [(10, "a"), (10, "b")]
        work.add("f")
        work.add("g", 1)
        assert work.depth == 0
        await asyncio.Event().wait()

    with pytest.raises(Exception, match="no timer is set at 10"):
        loop.run(scenario())


@frozen
class Pass:
    """One reconciliation: how long it takes and how it ends."""

    seconds: float
    ends: float | str | None


@frozen
class Add:
    at: float
    key: str
    after_s: float


# Times of adding end in .25, runs last whole seconds: no two things happen at the same time.
ADDS = st.builds(
    Add,
    at=st.integers(0, 40).map(lambda second: second + 0.25),
    key=st.sampled_from("abc"),
    after_s=st.sampled_from([0.0, 0.0, 0.5, 3.5, 17.5]),
)
PASSES = st.builds(Pass, seconds=st.integers(0, 6).map(float), ends=st.sampled_from([None, None, 4.125, "fails"]))


@settings(deadline=None, max_examples=200)
@given(st.lists(ADDS, max_size=25), st.lists(PASSES, max_size=20), st.integers(1, 4))
def test_whatever_is_added_is_reconciled_in_time_by_one_worker_a_key(
    adds: list[Add], passes: list[Pass], workers: int
) -> None:
    runs: dict[str, list[tuple[float, float]]] = {key: [] for key in "abc"}
    running: set[str] = set()
    wanted: list[Add] = []

    async def reconcile(key: str) -> float | None:
        assert key not in running
        running.add(key)
        assert len(running) <= workers
        planned = passes[len([*runs["a"], *runs["b"], *runs["c"]]) % len(passes)] if passes else Pass(0, None)
        begun = loop.time()
        runs[key].append((begun, begun + planned.seconds))
        await asyncio.sleep(planned.seconds)
        running.discard(key)
        if begun > 60:
            return None
        if planned.ends == "fails":
            wanted.append(Add(loop.time(), key, 2.0))
            raise ValueError
        if isinstance(planned.ends, float):
            wanted.append(Add(loop.time(), key, planned.ends))
            return planned.ends
        return None

    async def scenario() -> None:
        work = queue(Backoff(first_s=2.0, cap_s=2.0))
        for add in adds:
            loop.call_at(add.at, work.add, add.key, add.after_s)
        await run_for(500, work, reconcile, workers)

    with VirtualLoop() as loop, capture_logs():
        loop.run(scenario())

    for add in [*adds, *wanted]:
        due = add.at + add.after_s
        began = [begin for begin, _ in runs[add.key] if begin >= add.at]
        assert began, add
        if workers >= 3:
            busy_until = max((end for begin, end in runs[add.key] if begin < due), default=due)
            assert min(began) <= max(due, busy_until), add
    assert sum(map(len, runs.values())) <= len(adds) + len(wanted)
