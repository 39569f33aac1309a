"""The executor on this machine: worker processes, their failures and their end."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from sweep_doubles import SCENARIO, Dying, Engine, Hanging, Refusing, Unloadable, small_trace

from dgdr_retune._process import processors
from dgdr_retune.replay import RequestTimes, RouterParameters
from dgdr_retune.sweep import (
    Failure,
    GridSection,
    Job,
    JobFailed,
    JobOutcome,
    LocalExecutor,
    Objective,
    Replayed,
    Rules,
    run_sweep,
)

Result = TypeVar("Result")
HANGS = RouterParameters(overlap_score_credit=0)
GRID = GridSection.model_validate(
    {"overlap_score_credit": {"choices": [0, 0.5, 1]}, "prefill_load_scale": {"choices": [1, 0.5]}, "temperature": 0}
)
IN_TIME = 120.0
"""Seconds after which a test gives up on what must come at once."""


def local(engine: Engine, processes: int = 2) -> LocalExecutor:
    return LocalExecutor(engine, small_trace(), SCENARIO, processes)


def jobs(replications: int = 2) -> list[Job]:
    routers = [RouterParameters(overlap_score_credit=credit) for credit in (0, 0.5, 1)]
    return [Job(index, router, number) for number in range(replications) for index, router in enumerate(routers)]


def run(main: Coroutine[Any, Any, Result]) -> Result:
    async def bounded() -> Result:
        async with asyncio.timeout(IN_TIME):
            return await main

    return asyncio.run(bounded())


async def replayed(executor: LocalExecutor, work: list[Job]) -> dict[tuple[int, int], JobOutcome]:
    outcomes: list[JobOutcome] = []
    await executor.replay(work, outcomes.append)
    assert sorted((outcome.job for outcome in outcomes), key=work.index) == work
    return {(outcome.job.candidate, outcome.job.replication): outcome for outcome in outcomes}


async def once(engine: Engine, work: list[Job], processes: int = 2) -> dict[tuple[int, int], JobOutcome]:
    async with local(engine, processes) as executor:
        return await replayed(executor, work)


def pids(outcomes: dict[tuple[int, int], JobOutcome]) -> set[int]:
    return {int(outcome.metrics["pid"]) for outcome in outcomes.values() if isinstance(outcome, Replayed)}


def failures(outcomes: dict[tuple[int, int], JobOutcome]) -> dict[tuple[int, int], Failure]:
    return {at: outcome.failure for at, outcome in outcomes.items() if isinstance(outcome, JobFailed)}


def runs(pid: int) -> bool:
    """Whether a process does anything still: one that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until_gone(pids: set[int]) -> None:
    while any(map(runs, pids)):  # noqa: ASYNC110 -- processes of others set no event
        await asyncio.sleep(0.01)


async def until_written(directory: Path, files: int) -> set[int]:
    while len(names := os.listdir(directory)) < files:  # noqa: ASYNC110, PTH208 -- as above; names are what is wanted
        await asyncio.sleep(0.01)
    return set(map(int, names))


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_an_outcome_depends_on_its_job_alone(processes: int) -> None:
    engine = Engine()
    outcomes = run(once(engine, jobs(), processes))
    for job in jobs():
        outcome = outcomes[job.candidate, job.replication]
        expected = engine.replay(small_trace(), SCENARIO, job.router, job.replication)
        assert isinstance(outcome, Replayed)
        assert outcome.metrics["mean_ttft_ms"] == expected["mean_ttft_ms"]
        assert outcome.elapsed_s >= 0
    assert os.getpid() not in pids(outcomes)


def test_a_sweep_is_the_same_with_one_process_or_three() -> None:
    async def sweep(processes: int) -> list[list[float]]:
        async with local(Engine(), processes) as executor:
            swept = await run_sweep(
                executor,
                GRID.expand(RouterParameters()),
                RouterParameters(),
                objective=Objective.TTFT,
                rules=Rules(),
                budget_s=IN_TIME,
            )
        return [[replication.score for replication in result.replications] for result in swept.results]

    assert run(sweep(1)) == run(sweep(3))


def test_there_are_never_more_workers_than_jobs_and_they_stay_for_later_jobs() -> None:
    async def main() -> None:
        async with local(Engine(), processes=8) as executor:
            first = pids(await replayed(executor, jobs(1)[:1]))
            second = pids(await replayed(executor, jobs(1)[:1]))
            assert first == second
            assert len(first) == 1

    run(main())


def test_auto_is_one_process_for_each_core_that_may_be_used() -> None:
    executor = LocalExecutor(Engine(), small_trace(), SCENARIO)
    assert executor.parallelism == processors()


def test_the_latencies_of_every_request_come_back_as_the_engine_gave_them() -> None:
    async def main() -> RequestTimes | None:
        async with local(Engine()) as executor:
            return await executor.request_times(RouterParameters(), 3)

    times, expected = run(main()), Engine().request_times(small_trace(), SCENARIO, RouterParameters(), 3)
    assert times is not None
    np.testing.assert_array_equal(times.ttft_ms, expected.ttft_ms)
    np.testing.assert_array_equal(times.itl_ms, expected.itl_ms)
    np.testing.assert_array_equal(times.e2e_ms, expected.e2e_ms)


@pytest.mark.parametrize("engine", [Refusing(), Dying(), Unloadable()])
def test_where_that_replay_fails_there_are_no_latencies(engine: Engine) -> None:
    async def main() -> RequestTimes | None:
        async with local(engine) as executor:
            return await executor.request_times(RouterParameters(overlap_score_credit=0), 0)

    assert run(main()) is None


def test_an_engine_that_refuses_or_fails_fails_its_job_alone() -> None:
    outcomes = run(once(Refusing(), jobs()))
    assert failures(outcomes) == {
        (0, 0): Failure("replay_failed", "timing is missing; give `timing`"),
        (0, 1): Failure("replay_failed", "timing is missing; give `timing`"),
        (1, 0): Failure("engine_failed", "ZeroDivisionError: half"),
        (1, 1): Failure("engine_failed", "ZeroDivisionError: half"),
    }


def test_an_engine_that_cannot_be_loaded_fails_every_job_with_the_cause() -> None:
    failed = failures(run(once(Unloadable(), jobs(1))))
    assert len(failed) == 3
    assert all(failure.reason == "engine_failed" for failure in failed.values())
    assert all("invalid literal for int()" in failure.message for failure in failed.values())


def test_a_killed_worker_fails_its_job_alone_and_is_replaced() -> None:
    outcomes = run(once(Dying(), jobs(3), processes=1))
    failed = failures(outcomes)
    assert sorted(failed) == [(0, 0), (0, 1), (0, 2)]
    assert all(failure.reason == "worker_died" for failure in failed.values())
    assert "killed by signal 9" in failed[0, 0].message
    assert len(pids(outcomes)) == 3


def test_a_worker_that_is_killed_while_idle_fails_no_job() -> None:
    async def main() -> None:
        async with local(Engine(), processes=1) as executor:
            (pid,) = pids(await replayed(executor, jobs(1)))
            os.kill(pid, signal.SIGKILL)
            while not executor._workers[0].ended():  # noqa: ASYNC110 -- as above
                await asyncio.sleep(0.01)
            assert not failures(await replayed(executor, jobs(1)))

    run(main())


def test_a_worker_that_cannot_be_started_fails_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    failed = failures(run(once(Engine(), jobs(1))))
    assert len(failed) == 3
    assert "could not be started" in failed[0, 0].message


def test_cancelling_kills_workers_and_their_children_at_once_and_the_executor_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with local(Hanging(directory=tmp_path)) as executor:
            outcomes: list[JobOutcome] = []
            work = asyncio.create_task(executor.replay([Job(0, HANGS, 0), Job(0, HANGS, 1)], outcomes.append))
            hanging = await until_written(tmp_path, 4)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            await until_gone(hanging)
            assert not outcomes
            assert not failures(await replayed(executor, [Job(2, RouterParameters(), 0)]))

    run(main())


def test_a_job_that_takes_too_long_is_killed_and_fails_alone(tmp_path: Path) -> None:
    async def main() -> None:
        executor = LocalExecutor(Hanging(directory=tmp_path), small_trace(), SCENARIO, 1, timeout_s=5.0)
        async with executor:
            found = failures(await replayed(executor, [Job(0, HANGS, 0), Job(1, RouterParameters(), 0)]))
            assert found == {(0, 0): Failure("replay_timeout", "the replay took longer than 5 s")}
            assert await executor.request_times(HANGS, 0) is None
            await until_gone(await until_written(tmp_path, 4))

    run(main())


def test_the_end_of_the_budget_kills_what_hangs(tmp_path: Path) -> None:
    async def main() -> None:
        async with local(Hanging(directory=tmp_path)) as executor:
            swept = await run_sweep(
                executor,
                GRID.expand(RouterParameters()),
                RouterParameters(),
                objective=Objective.TTFT,
                rules=Rules(),
                budget_s=2.0,
            )
            assert swept.exhausted
            assert swept.elapsed_s < IN_TIME
            await until_gone(await until_written(tmp_path, 0))

    run(main())


def test_nothing_is_left_after_the_executor() -> None:
    async def main() -> tuple[set[int], int]:
        before = open_files()
        outcomes = await once(Engine(), jobs())
        return pids(outcomes), open_files() - before

    left, descriptors = run(main())
    assert left
    assert not any(map(runs, left))
    assert descriptors == 0


PARENT = """
import asyncio, sys
from pathlib import Path
from sweep_doubles import SCENARIO, Hanging, small_trace
from dgdr_retune.replay import RequestTimes, RouterParameters
from dgdr_retune.sweep import Job, LocalExecutor

async def main():
    async with LocalExecutor(Hanging(directory=Path(sys.argv[1])), small_trace(), SCENARIO, 2) as executor:
        await executor.replay([Job(0, RouterParameters(overlap_score_credit=0), r) for r in range(2)], print)

asyncio.run(main())
"""


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
def test_workers_die_with_their_parent(tmp_path: Path, signal_number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], env=environment, stderr=subprocess.DEVNULL)

    async def main() -> None:
        written = await until_written(tmp_path, 4)
        workers = {pid for pid in written if os.getpgid(pid) == pid}
        assert len(workers) == 2
        parent.send_signal(signal_number)
        await until_gone(workers if signal_number == signal.SIGKILL else written)

    try:
        run(main())
    finally:
        parent.kill()
        parent.wait()
        for pid in map(int, (path.name for path in tmp_path.iterdir())):
            if runs(pid):
                os.kill(pid, signal.SIGKILL)
