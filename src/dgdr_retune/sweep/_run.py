"""One sweep from the first replay to the last: executor, allocation and comparison tied together."""

import asyncio
from collections.abc import Callable
from itertools import count, takewhile
from math import inf
from statistics import median

from attrs import define, field, frozen

from dgdr_retune.replay import RouterParameters
from dgdr_retune.sweep._allocation import Batch, next_batch, planned_replays
from dgdr_retune.sweep._comparison import compare
from dgdr_retune.sweep._errors import MetricMissingError
from dgdr_retune.sweep._executor import Executor, Failure, Job, JobFailed, JobOutcome
from dgdr_retune.sweep._grid import Grid
from dgdr_retune.sweep._objective import Objective
from dgdr_retune.sweep._rules import Rules
from dgdr_retune.sweep._standings import score_table
from dgdr_retune.sweep._sweep import Candidate, CandidateResult, Replication, Sweep


@frozen
class Progress:
    """One job has ended.

    Attributes:
        outcome: of that job.
        done: jobs that have ended.
        total: jobs of the whole sweep as far as can be said: an upper bound that shrinks when contenders leave early.
        contenders: candidates that are still being replayed, the baseline not counted.
        elapsed_s: since the sweep began.
    """

    outcome: JobOutcome
    done: int
    total: int
    contenders: int
    elapsed_s: float


async def run_sweep(
    executor: Executor,
    grid: Grid,
    baseline: RouterParameters,
    *,
    objective: Objective,
    rules: Rules,
    budget_s: float,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Sweep:
    """Replay a grid and the baseline, which is scored even when it is off the grid.

    When the budget has passed, the replays at hand are cancelled and the sweep ends with what is there. Its scores
    depend on neither the executor's parallelism nor the order in which jobs end; how many replays there are depends on
    the time they take only if the budget is short.

    Args:
        executor: replays the jobs.
        grid: the candidates.
        baseline: the parameters in force.
        objective: what is compared.
        rules: how.
        budget_s: seconds for the whole sweep, on the event loop's clock.
        progress: called in the event loop after each job; must return at once.

    Raises:
        SlaMissingError: the objective needs an SLA that the scenario does not have.
    """
    objective.check(executor.scenario.sla)
    candidates = [Candidate(router, index) for index, router in enumerate(grid.points)]
    own = grid.index(baseline)
    if own is None:
        own = len(candidates)
        candidates.append(Candidate(baseline, None))
    record = _Record(candidates, own, objective, executor.paired, asyncio.get_running_loop().time)
    exhausted = False
    try:
        async with asyncio.timeout(budget_s) as deadline:
            while batch := record.next_batch(rules, (budget_s - record.elapsed_s()) * executor.parallelism):
                exhausted |= batch.curtailed
                await _replay(executor, record, batch, rules, progress)
    except TimeoutError:
        if not deadline.expired():
            raise
        exhausted = True
    return Sweep(
        grid=grid,
        results=record.results(),
        baseline=own,
        scenario=executor.scenario,
        objective=objective,
        rules=rules,
        engine=executor.engine,
        paired=executor.paired,
        budget_s=budget_s,
        elapsed_s=record.elapsed_s(),
        exhausted=exhausted,
    )


async def _replay(
    executor: Executor, record: "_Record", batch: Batch, rules: Rules, progress: Callable[[Progress], None]
) -> None:
    """Replay one batch and record an outcome for each of its jobs."""
    jobs = record.jobs(batch)
    waiting = {(job.candidate, job.replication): job for job in jobs}
    later = planned_replays(len(batch.contenders), batch.start, rules) - len(jobs)

    def report(outcome: JobOutcome) -> None:
        del waiting[outcome.job.candidate, outcome.job.replication]
        record.add(outcome)
        progress(
            Progress(
                outcome=outcome,
                done=record.done,
                total=record.done + len(waiting) + later,
                contenders=len(batch.contenders),
                elapsed_s=record.elapsed_s(),
            )
        )

    await executor.replay(jobs, report)
    for job in list(waiting.values()):
        report(JobFailed(job, Failure("no_outcome", "the executor ended without an outcome for this replay")))


@define
class _Record:
    """What has been replayed so far, by candidate position and replication."""

    candidates: list[Candidate]
    baseline: int
    objective: Objective
    paired: bool
    clock: Callable[[], float]
    begun: float = field(init=False)
    replications: dict[tuple[int, int], Replication] = field(factory=dict)
    failures: dict[tuple[int, int], Failure] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.begun = self.clock()

    def elapsed_s(self) -> float:
        return self.clock() - self.begun

    @property
    def done(self) -> int:
        return len(self.replications) + len(self.failures)

    def add(self, outcome: JobOutcome) -> None:
        at = outcome.job.candidate, outcome.job.replication
        if isinstance(outcome, JobFailed):
            self.failures[at] = outcome.failure
            return
        try:
            score = self.objective.score(outcome.metrics)
        except MetricMissingError as error:
            self.failures[at] = Failure(error.reason, str(error))
            return
        self.replications[at] = Replication(outcome.metrics, score, outcome.elapsed_s)

    def next_batch(self, rules: Rules, worker_seconds: float) -> Batch | None:
        """The next batch that so many seconds of all workers together reach for."""
        scores = score_table(self.results(), self.baseline, self.objective, paired=self.paired)
        if self.done and not scores.replications[self.baseline]:
            return None  # without a baseline there is nothing to compare
        cost_s = median(replication.elapsed_s for replication in self.replications.values()) if self.replications else 0
        affordable = worker_seconds / cost_s if cost_s else inf
        return next_batch(scores, compare(scores, rules), rules, affordable)

    def jobs(self, batch: Batch) -> list[Job]:
        """Whole replications one after another, so that a budget that ends here leaves candidates level."""
        return [
            Job(position, self.candidates[position].router, replication)
            for replication in range(batch.start, batch.stop)
            for position in (self.baseline, *batch.contenders)
        ]

    def results(self) -> tuple[CandidateResult, ...]:
        return tuple(
            CandidateResult(candidate, self._without_gap(position), self._first_failure(position))
            for position, candidate in enumerate(self.candidates)
        )

    def _without_gap(self, position: int) -> tuple[Replication, ...]:
        present = takewhile(lambda replication: (position, replication) in self.replications, count())
        return tuple(self.replications[position, replication] for replication in present)

    def _first_failure(self, position: int) -> Failure | None:
        failed = [replication for candidate, replication in self.failures if candidate == position]
        return self.failures[position, min(failed)] if failed else None
