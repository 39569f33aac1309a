"""The best candidate and the parameters in force replayed for every request's latency, and judged by them over time."""

import asyncio
from contextlib import suppress
from typing import Protocol

from attrs import frozen

from dgdr_retune.replay import RequestTimes, RouterParameters, Trace
from dgdr_retune.sweep._judgement import best_of
from dgdr_retune.sweep._sweep import Sweep
from dgdr_retune.sweep._traffic import TrafficInterval, traffic_interval

TIMED_REPLICATIONS = 8
"""Of each of the two, where their latencies are judged; one is enough to show them."""

TIMED_SECONDS = 60.0
"""For all of these but the first of each, for which there is as long as the sweep's budget, where that is more."""


class TimedExecutor(Protocol):
    """Replays one window and tells the latency of every request."""

    @property
    def trace(self) -> Trace:
        """The window."""
        ...

    async def request_times(self, router: RouterParameters, replication: int) -> RequestTimes | None:
        """Latencies in one replay; None where it fails."""
        ...


@frozen(eq=False)
class OverTime:
    """What the latencies of single requests say of a sweep's best candidate.

    Attributes:
        baseline: latencies of the parameters in force in replication 0; None where that replay failed or took too long.
        best: the same of the best candidate; None also where there is none.
        traffic: for `decide`; None without a best candidate, or where the objective has no such interval.
    """

    baseline: RequestTimes | None
    best: RequestTimes | None
    traffic: TrafficInterval | None


async def judge_over_time(executor: TimedExecutor, sweep: Sweep) -> OverTime:
    """Judge the best candidate of a sweep over the window's time.

    Both are replayed one replication after another, until there are enough or the time for them has passed: the
    interval rests on those that both have.

    Args:
        executor: of the window that was swept.
        sweep: with its baseline and scores.
    """
    best = best_of(sweep)
    in_force = sweep.results[sweep.baseline].candidate.router
    routers = (in_force,) if best is None else (in_force, best.candidate.router)
    wanted = TIMED_REPLICATIONS if best is not None and sweep.objective.is_sum_over_requests else 1

    async def replayed(replication: int) -> list[RequestTimes | None]:
        return [await executor.request_times(router, replication) for router in routers]

    rounds: list[list[RequestTimes | None]] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(max(TIMED_SECONDS, sweep.budget_s)):
            rounds.append(await replayed(0))
        async with asyncio.timeout(TIMED_SECONDS):
            while len(rounds) < wanted and all(times is not None for times in rounds[-1]):
                rounds.append(await replayed(len(rounds)))
    first = rounds[0] if rounds else [None, None]
    if best is None:
        return OverTime(first[0], None, None)
    pairs = [(base, own) for base, own in rounds if base is not None and own is not None]
    traffic = traffic_interval(
        executor.trace,
        best.candidate.router,
        [own for _, own in pairs],
        [base for base, _ in pairs],
        objective=sweep.objective,
        sla=sweep.scenario.sla,
        rules=sweep.rules,
    )
    return OverTime(first[0], first[1], traffic)
