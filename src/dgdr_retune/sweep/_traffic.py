"""Whether an improvement belongs to the window's traffic or to its accidents: its interval over blocks of time.

Replications meet the same arrivals, so their interval says nothing of the next window's. The window's time is cut into
blocks, each a small sample of the traffic, and the improvement is a ratio of sums over them, with Fieller's interval as
for replications. This is the method of batch means (B. Schmeiser, "Batch size effects in the analysis of simulation
output", 1982, who finds 10 to 30 batches enough); blocks are merged in pairs while neighbours are correlated, as a
queue that has built up in one block is still there in the next.
"""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.replay import RequestTimes, RouterParameters, Sla, Trace
from dgdr_retune.sweep._comparison import Scores, intervals
from dgdr_retune.sweep._objective import Objective
from dgdr_retune.sweep._rules import Rules
from dgdr_retune.sweep._standings import Interval

Floats = NDArray[np.float64]

MOST_BLOCKS = 32
LEAST_BLOCKS = 8
CORRELATED = 0.2
"""Of neighbouring blocks; about one standard error of a correlation of 32 that are independent."""


@frozen
class TrafficInterval:
    """The improvement of one candidate over other traffic like the window's.

    Attributes:
        router: of the candidate.
        interval: percent, at the rules' confidence, of this candidate alone; None where it cannot be given.
        blocks: of time that it rests on; 0 where there are no latencies to judge by.
        block_ms: length of one, milliseconds of recorded time.
    """

    router: RouterParameters
    interval: Interval | None
    blocks: int
    block_ms: float


def traffic_interval(
    trace: Trace,
    router: RouterParameters,
    times: Sequence[RequestTimes],
    baseline: Sequence[RequestTimes],
    *,
    objective: Objective,
    sla: Sla | None,
    rules: Rules,
) -> TrafficInterval | None:
    """Judge one candidate against the baseline by the latencies of the same replications.

    None for an objective that is no sum over requests: throughput is what arrives.

    Args:
        trace: the window.
        router: the candidate.
        times: its latencies in replications 0, 1, 2, …; their mean counts, so that the random choices of one do not.
            Without any there is no interval.
        baseline: the latencies of the parameters in force; of two numbers of replications the lower counts.
        objective: what is compared.
        sla: what counts as good.
        rules: the confidence.
    """
    if not objective.is_sum_over_requests:
        return None
    if not times or not baseline or not len(trace):
        return TrafficInterval(router, None, 0, 0.0)
    parts = np.zeros((2, len(trace)))
    for pair in zip(baseline, times, strict=False):
        for which, replayed in enumerate(pair):
            parts[which] += _parts(objective, replayed, trace, sla)
    parts[:, ~np.isfinite(parts).all(axis=0)] = 0.0
    first, last = int(trace.arrival_ms.min()), int(trace.arrival_ms.max())
    block = (trace.arrival_ms - first) * MOST_BLOCKS // (last - first + 1)
    sums: Floats = np.stack([np.bincount(block, weights=part, minlength=MOST_BLOCKS) for part in parts])
    sampled = int((np.bincount(block, minlength=MOST_BLOCKS) > 0).sum())
    while sums.shape[1] > LEAST_BLOCKS and _correlation(sums) > CORRELATED:
        sums = sums[:, ::2] + sums[:, 1::2]
    scores = Scores(values=sums, baseline=0, minimised=objective.minimised, paired=True)
    comparison = intervals(scores, (1 - rules.confidence) / 2)
    lower, upper = float(comparison.lower[1]), float(comparison.upper[1])
    bounded = sampled >= LEAST_BLOCKS and isfinite(lower) and isfinite(upper)
    return TrafficInterval(
        router=router,
        interval=Interval(lower, upper) if bounded else None,
        blocks=sums.shape[1],
        block_ms=(last - first + 1) / sums.shape[1],
    )


def holds(traffic: TrafficInterval | None, objective: Objective, rules: Rules) -> bool:
    """Whether the improvement exceeds the margin over other traffic too; of throughput that cannot be asked."""
    if traffic is None:
        return not objective.is_sum_over_requests
    return traffic.interval is not None and traffic.interval.lower > rules.min_improvement_percentage


def _parts(objective: Objective, times: RequestTimes, trace: Trace, sla: Sla | None) -> Floats:
    """What each request adds to the objective, up to a factor that candidates all but share.

    That is the replay's duration for goodput. A user's rate is that of the request's mean gap, for each of its tokens.
    """
    match objective:
        case Objective.TTFT:
            return times.ttft_ms
        case Objective.E2E_LATENCY:
            return times.e2e_ms
        case Objective.THROUGHPUT_PER_USER:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.maximum(trace.output_length - 1, 0) / times.itl_ms
    good = np.isfinite(times.e2e_ms)
    for value, bound in zip(
        (times.ttft_ms, times.itl_ms, times.e2e_ms),
        (sla.ttft_ms, sla.itl_ms, sla.e2e_ms) if sla else (None, None, None),
        strict=True,
    ):
        if bound is not None:
            good = good & ~(value > bound)
    return np.where(good, trace.output_length, 0).astype(np.float64)


def _correlation(sums: Floats) -> float:
    """Of neighbouring blocks' residuals from the common ratio; 0 without any."""
    baseline, candidate = sums
    total = baseline.sum()
    residual = candidate - (candidate.sum() / total if total else 0.0) * baseline
    around = residual - residual.mean()
    variance = float((around**2).sum())
    return float((around[1:] * around[:-1]).sum()) / variance if variance > 0 else 0.0
