"""Replaying the candidates of a grid: one after another, all replications of one before the next."""

import asyncio
import sys
from collections.abc import Sequence
from math import ceil, isfinite

from attrs import define, evolve, field, frozen

from dgdr_retune._process import processors
from dgdr_retune.replay import Metrics, ReplayEngine, Scenario, Trace
from dgdr_retune.sweep import Failure, Job, JobFailed, JobOutcome, LocalExecutor, MetricMissingError, Objective
from dgdr_retune.sweeper._candidates import Candidate, Point, scored
from dgdr_retune.sweeper._errors import NothingFeasibleError, printable
from dgdr_retune.sweeper._snapshot import Evaluations, Snapshot, SnapshotFile


@frozen(kw_only=True)
class Plan:
    """What is replayed, and what is kept of it.

    Attributes:
        points: the candidates; each is replayed as if it were alone.
        scenario: what they share.
        objective: what they are ranked by.
        replications: of each.
        parallelism: replays at once at most; no more than there are processors for.
        timeout_s: seconds that one replay may take.
        most: so many candidates are published.
        interval_s: least seconds between two snapshots.
    """

    points: Sequence[Point]
    scenario: Scenario
    objective: Objective
    replications: int
    parallelism: int
    timeout_s: float
    most: int
    interval_s: float


async def evaluate(plan: Plan, engine: ReplayEngine, trace: Trace, file: SnapshotFile) -> Snapshot:
    """Replay every candidate, and write what is known so far, but not the end.

    Returns:
        What is to be written at the end.

    Errors: `NothingFeasibleError`: no candidate has a finite score.
    """
    processes = min(plan.parallelism, processors())
    record = _Record(plan, processes, file)
    jobs = [
        Job(position, point.router, replication)
        for position, point in enumerate(plan.points)
        for replication in range(plan.replications)
    ]
    executor = LocalExecutor(engine, trace, plan.scenario, processes, timeout_s=plan.timeout_s)
    async with executor, asyncio.TaskGroup() as group:
        publishing = group.create_task(record.publish())
        await executor.replay(jobs, record.add)
        publishing.cancel()
    return record.end(engine.name)


@define
class _Record:
    """What the replays said so far.

    Attributes:
        plan: what is replayed.
        processes: replays at once.
        file: where it is written.
        replayed: replays that have ended.
        outcomes: of candidates that are not done, by position.
        best: candidates with a result, best first, no more than are published.
        done: how many have a result.
        feasible: how many of these have a score.
        failures: of the others, by position.
        changed: whether there is something to write; at first, how much there is to do.
    """

    plan: Plan
    processes: int
    file: SnapshotFile
    replayed: int = 0
    outcomes: dict[int, list[JobOutcome]] = field(factory=dict)
    best: list[Candidate] = field(factory=list)
    done: int = 0
    feasible: int = 0
    failures: dict[int, Failure] = field(factory=dict)
    changed: asyncio.Event = field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.changed.set()

    def add(self, outcome: JobOutcome) -> None:
        self.replayed += 1
        position = outcome.job.candidate
        outcomes = self.outcomes.setdefault(position, [])
        outcomes.append(outcome)
        if len(outcomes) == self.plan.replications:
            self._close(position, sorted(self.outcomes.pop(position), key=lambda each: each.job.replication))
            self.changed.set()

    def _close(self, position: int, outcomes: list[JobOutcome]) -> None:
        replications: list[Metrics] = []
        for outcome in outcomes:
            if isinstance(outcome, JobFailed):
                self.failures[position] = outcome.failure
                return
            replications.append(outcome.metrics)
        try:
            candidate = scored(self.plan.points[position], replications, self.plan.objective)
        except MetricMissingError as error:
            self.failures[position] = Failure(error.reason, str(error))
            return
        self.done += 1
        self.feasible += isfinite(candidate.score)
        self.best = sorted([*self.best, candidate], key=lambda each: each.rank)[: self.plan.most]

    def snapshot(self) -> Snapshot:
        return Snapshot(evaluations=self._evaluations(), candidates=tuple(self.best))

    def _evaluations(self) -> Evaluations:
        """An executor begins replays in their order, which is that of the candidates."""
        count, replications = len(self.plan.points), self.plan.replications
        begun = ceil(min(count * replications, self.replayed + self.processes) / replications)
        return Evaluations(
            scheduled=count - begun,
            running=begun - self.done - len(self.failures),
            feasible=self.feasible,
            infeasible=self.done - self.feasible,
            failed=len(self.failures),
        )

    async def publish(self) -> None:
        """Write what has changed, at most every interval, beginning one interval after the first snapshot."""
        while True:
            await asyncio.sleep(self.plan.interval_s)
            await self.changed.wait()
            self.changed.clear()
            try:
                self.file.write(self.snapshot())
            except OSError as error:
                self.changed.set()
                sys.stderr.write(f"the snapshot was not written, and will be again: {error}\n")
                await asyncio.sleep(1.0)

    def end(self, engine: str) -> Snapshot:
        plan, snapshot = self.plan, self.snapshot()
        if not self.feasible:
            self.file.latest = snapshot
            first = self._first_failure() or "no request of the trace was completed"
            raise NothingFeasibleError(f"no feasible candidate found: {first}")
        message = (
            f"{self.done} of {len(plan.points)} candidates evaluated on engine {engine},"
            f" replications: {plan.replications}"
        )
        if self.failures:
            message += f"; {len(self.failures)} failed, the first by {self._first_failure()}"
        return evolve(snapshot, phase="Succeeded", message=message)

    def _first_failure(self) -> str:
        if not self.failures:
            return ""
        failure = self.failures[min(self.failures)]
        return printable(f"{failure.reason}: {failure.message}")
