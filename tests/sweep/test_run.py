"""A sweep from the first replay to the last, on executors whose scores are known."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_doubles import SCENARIO, TableExecutor

from dgdr_retune.replay import Metrics, RouterParameters
from dgdr_retune.sweep import (
    Failure,
    Grid,
    GridSection,
    Job,
    JobOutcome,
    Objective,
    Progress,
    Replayed,
    Rules,
    SlaMissingError,
    Sweep,
    run_sweep,
)

ON_GRID = RouterParameters(temperature=0.2)
OFF_GRID = RouterParameters(temperature=0.3)
GRID = GridSection.model_validate(
    {"overlap_score_credit": 1, "prefill_load_scale": {"choices": [1, 2, 4]}, "temperature": {"choices": [0, 0.2]}}
)


class VirtualTime(selectors.DefaultSelector):
    """Waiting takes no time: the clock jumps to the end of the wait."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "the loop waits for something that will not happen"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = VirtualTime()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


def virtually(main: Coroutine[Any, Any, Sweep]) -> Sweep:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def sweep(
    executor: TableExecutor,
    baseline: RouterParameters = ON_GRID,
    *,
    budget_s: float = 1e9,
    progress: Callable[[Progress], None] = lambda _: None,
    objective: Objective = Objective.TTFT,
) -> Sweep:
    grid: Grid = GRID.expand(baseline)
    return virtually(
        run_sweep(executor, grid, baseline, objective=objective, rules=Rules(), budget_s=budget_s, progress=progress)
    )


def noisy(seed: int = 3, candidates: int = 7) -> np.ndarray:
    return 100 + 3 * np.random.default_rng(seed).standard_normal((candidates, 32))


def replications(swept: Sweep) -> list[int]:
    return [len(result.replications) for result in swept.results]


def test_a_baseline_on_the_grid_is_the_grid_point() -> None:
    swept = sweep(TableExecutor(noisy()))
    assert len(swept.results) == 6
    assert swept.baseline == 1
    assert swept.results[1].candidate.router == ON_GRID
    assert [result.candidate.grid_index for result in swept.results] == list(range(6))


def test_a_baseline_off_the_grid_is_scored_beside_it() -> None:
    swept = sweep(TableExecutor(noisy()), OFF_GRID)
    assert len(swept.results) == 7
    assert swept.baseline == 6
    assert swept.results[6].candidate.router == OFF_GRID
    assert swept.results[6].candidate.grid_index is None


def test_every_score_is_the_one_of_its_candidate_and_replication() -> None:
    table = noisy()
    swept = sweep(TableExecutor(table))
    assert max(replications(swept)) == replications(swept)[swept.baseline]
    for position, result in enumerate(swept.results):
        scores = [replication.score for replication in result.replications]
        assert scores == table[position, : len(scores)].tolist()
        assert len(scores) >= 4


def test_each_job_is_handed_out_once_and_whole_replications_follow_each_other() -> None:
    executor = TableExecutor(noisy())
    swept = sweep(executor)
    jobs = [(job.candidate, job.replication) for batch in executor.batches for job in batch]
    assert len(jobs) == len(set(jobs)) == sum(replications(swept))
    for batch in executor.batches:
        order = [(job.replication, job.candidate != swept.baseline, job.candidate) for job in batch]
        assert order == sorted(order)


@settings(deadline=None, max_examples=30)
@given(
    random=st.randoms(use_true_random=False),
    parallelism=st.integers(1, 8),
    seed=st.integers(0, 1000),
    paired=st.booleans(),
)
def test_neither_the_order_in_which_jobs_end_nor_parallelism_changes_a_sweep(
    random: Any, parallelism: int, seed: int, *, paired: bool
) -> None:
    def shuffled(jobs: Sequence[Job]) -> Sequence[Job]:
        return random.sample(jobs, len(jobs))

    table = noisy(seed)
    table[2, 5] = np.nan
    plain = sweep(TableExecutor(table, paired=paired), OFF_GRID)
    other = sweep(TableExecutor(table, paired=paired, order=shuffled, parallelism=parallelism, job_s=1.0), OFF_GRID)
    assert [scores(result) for result in other.results] == [scores(result) for result in plain.results]


def scores(result: Any) -> tuple[list[float], Failure | None]:
    return [replication.score for replication in result.replications], result.failure


def test_a_failed_replay_takes_its_candidate_out_and_no_other() -> None:
    table = noisy()
    table[3, 2] = np.nan
    swept = sweep(TableExecutor(table))
    assert swept.results[3].failure == Failure("engine_failed", "replication 2 is not in the table")
    assert replications(swept)[3] == 2
    assert all(result.failure is None for result in swept.results if result is not swept.results[3])


def test_of_several_failures_the_first_replications_is_told() -> None:
    table = noisy()
    table[3, [1, 3]] = np.nan
    for order in (tuple, reversed_jobs):
        result = sweep(TableExecutor(table, order=order)).results[3]
        assert result.failure == Failure("engine_failed", "replication 1 is not in the table")
        assert len(result.replications) == 1


def reversed_jobs(jobs: Sequence[Job]) -> Sequence[Job]:
    return jobs[::-1]


@pytest.mark.parametrize("score", [inf, np.nan])
def test_without_a_baseline_the_sweep_ends(score: float) -> None:
    table = noisy()
    table[1, 0] = score
    assert replications(sweep(TableExecutor(table))) == [1, int(score == inf), 1, 1, 1, 1]


def test_when_all_candidates_fail_the_sweep_ends() -> None:
    table = np.full((6, 32), np.nan)
    table[1] = 100
    assert replications(sweep(TableExecutor(table))) == [0, 1, 0, 0, 0, 0]


def test_a_job_without_an_outcome_has_failed() -> None:
    class Forgetful(TableExecutor):
        async def replay(self, jobs: Sequence[Job], report: Callable[[JobOutcome], None]) -> None:
            await super().replay([job for job in jobs if job.candidate != 4], report)

    swept = sweep(Forgetful(noisy()))
    failure = swept.results[4].failure
    assert failure is not None
    assert failure.reason == "no_outcome"


def test_the_budget_ends_a_sweep_with_what_is_there() -> None:
    swept = sweep(TableExecutor(noisy(), parallelism=1, job_s=1.0), budget_s=3.5)
    assert swept.exhausted
    assert swept.elapsed_s == 3.5
    assert replications(swept) == [1, 1, 1, 0, 0, 0]


def test_a_budget_that_is_short_of_a_full_sweep_goes_to_the_best() -> None:
    table = noisy()
    table[4] -= 30
    swept = sweep(TableExecutor(table, parallelism=1, job_s=1.0), budget_s=6 + 2 * 31)
    assert swept.exhausted
    assert replications(swept)[4] >= 8
    assert replications(swept) == [1, replications(swept)[4], 1, 1, replications(swept)[4], 1]


def test_a_long_budget_is_not_exhausted() -> None:
    swept = sweep(TableExecutor(noisy(), job_s=1.0), budget_s=1000)
    assert not swept.exhausted
    assert swept.elapsed_s < 1000


def test_a_timeout_of_the_executor_is_not_taken_for_the_budgets() -> None:
    def time_out(_: Sequence[Job]) -> Sequence[Job]:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        sweep(TableExecutor(noisy(), order=time_out))


def test_progress_counts_every_job_up_to_a_total_that_only_shrinks() -> None:
    seen: list[Progress] = []
    swept = sweep(TableExecutor(noisy(), job_s=1.0), progress=seen.append)
    assert [event.done for event in seen] == list(range(1, sum(replications(swept)) + 1))
    totals = [event.total for event in seen]
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] == len(seen)
    elapsed = [event.elapsed_s for event in seen]
    assert elapsed == sorted(elapsed)
    assert seen[0].contenders == 5
    assert isinstance(seen[0].outcome, Replayed)
    assert seen[0].outcome.job == Job(1, ON_GRID, 0)


def test_an_objective_of_an_sla_is_refused_without_one() -> None:
    executor = TableExecutor(noisy(), scenario=evolve(SCENARIO, sla=None))
    with pytest.raises(SlaMissingError):
        sweep(executor, objective=Objective.GOODPUT)
    assert not executor.batches


def test_a_goodput_that_the_engine_does_not_give_fails_the_candidate() -> None:
    swept = sweep(TableExecutor(noisy()), objective=Objective.GOODPUT)
    failure = swept.results[0].failure
    assert failure is not None
    assert failure.reason == "metric_missing"


def test_metrics_are_kept_as_the_engine_gave_them() -> None:
    table = noisy()
    assert sweep(TableExecutor(table)).results[5].replications[1].metrics == Metrics({"mean_ttft_ms": table[5, 1]})
