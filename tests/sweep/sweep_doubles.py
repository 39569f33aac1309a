"""Replay engines and executors whose results are known, importable by worker processes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from attrs import field, frozen

from dgdr_retune.replay import (
    EngineSpecification,
    FixedTiming,
    Metrics,
    ReplayError,
    RequestTimes,
    RouterParameters,
    Scenario,
    Sla,
    Trace,
    WorkerSpecification,
)
from dgdr_retune.sweep import Failure, Job, JobFailed, JobOutcome, Replayed

WORKERS = WorkerSpecification(
    replicas=4,
    gpus_per_worker=1,
    max_batched_tokens=8192,
    max_sequences=64,
    block_size=64,
    blocks=1200,
    prefix_caching=True,
    timing=FixedTiming(prefill_ms=10, decode_ms=5),
)
SCENARIO = Scenario(EngineSpecification("vllm", "aggregated", WORKERS), sla=Sla(ttft_ms=500))


def small_trace(requests: int = 3) -> Trace:
    ones = np.ones(requests, dtype=np.int32)
    return Trace(
        block_size=64,
        arrival_ms=np.arange(requests, dtype=np.int64),
        input_length=ones,
        output_length=ones,
        hash_start=np.arange(requests + 1, dtype=np.int64),
        hashes=np.arange(requests, dtype=np.uint64),
    )


@frozen
class Engine:
    """TTFT is the prefill load scale plus replication-dependent noise; also tells the process that replayed."""

    name: str = "double"
    paired: bool = True

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        print("engines may print")  # noqa: T201 -- and it must not matter
        ttft = 100 * router.prefill_load_scale + scenario.speedup + replication / 8 + int(trace.hashes.sum())
        return Metrics({"mean_ttft_ms": ttft, "pid": float(os.getpid())})

    def request_times(
        self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int
    ) -> RequestTimes:
        ttft = self.replay(trace, scenario, router, replication)["mean_ttft_ms"] + np.arange(len(trace))
        return RequestTimes(ttft_ms=ttft, itl_ms=np.where(ttft > ttft[0], ttft / 10, np.nan), e2e_ms=2 * ttft)


@frozen
class Refusing(Engine):
    """Refuses credit 0 by its own error, raises another for credit 0.5."""

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        if router.overlap_score_credit == 0:
            raise ReplayError("timing is missing; give `timing`")
        if router.overlap_score_credit == 0.5:
            raise ZeroDivisionError("half")
        return super().replay(trace, scenario, router, replication)


@frozen
class Dying(Engine):
    """Its process is killed in replays with credit 0, as by the system when memory is short."""

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        if router.overlap_score_credit == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().replay(trace, scenario, router, replication)


@frozen
class Hanging(Engine):
    """Never ends where the credit is not 1; writes its process id and its child's into a directory once it hangs."""

    directory: Path = field(kw_only=True)

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        if router.overlap_score_credit == 1:
            return super().replay(trace, scenario, router, replication)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        for pid in (os.getpid(), child.pid):
            (self.directory / str(pid)).touch()
        time.sleep(600)
        raise AssertionError("nobody waits so long")


class Unloadable(Engine):
    """Cannot be unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return int, ("not a number",)


@frozen
class TableExecutor:
    """Scores come from a table: TTFT of candidate c in replication r is `table[c, r]`, NaN fails the job.

    Each job takes `job_s` seconds of the event loop's clock; jobs of a batch end in the order that `order` gives.
    """

    table: np.ndarray
    paired: bool = True
    parallelism: int = 2
    job_s: float = 0.0
    order: Callable[[Sequence[Job]], Sequence[Job]] = tuple
    engine: str = "table"
    scenario: Scenario = SCENARIO
    batches: list[Sequence[Job]] = field(factory=list)

    async def replay(self, jobs: Sequence[Job], report: Callable[[JobOutcome], None]) -> None:
        self.batches.append(jobs)
        for done, job in enumerate(self.order(jobs), 1):
            if done % self.parallelism == 0:
                await asyncio.sleep(self.job_s)
            report(self._outcome(job))

    def _outcome(self, job: Job) -> JobOutcome:
        score = float(self.table[job.candidate, job.replication])
        if np.isnan(score):
            return JobFailed(job, Failure("engine_failed", f"replication {job.replication} is not in the table"))
        return Replayed(job, Metrics({"mean_ttft_ms": score}), self.job_s)
