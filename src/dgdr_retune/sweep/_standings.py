"""The candidates in order, each with what is known of it: the comparison's arrays as values for people and files."""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from attrs import frozen

from dgdr_retune.sweep._comparison import Comparison, Scores, compare
from dgdr_retune.sweep._executor import Failure
from dgdr_retune.sweep._objective import Objective
from dgdr_retune.sweep._sweep import Candidate, CandidateResult, Sweep

MAX_SCORE = 1e100


@frozen
class Interval:
    """Both ends of an improvement's confidence interval, in percent of the baseline's score."""

    lower: float
    upper: float


@frozen
class Standing:
    """One candidate in the ranking. Every number is finite.

    Attributes:
        candidate: the parameters.
        baseline: whether these are the parameters in force.
        replications: replays that the comparison rests on.
        score: mean score over them, in the objective's unit; None without any.
        improvement: percent by which it improves on the baseline (positive is better), None where there is nothing to
            compare or the baseline's score is 0.
        interval: of the improvement, None where replays are too few or too noisy for one.
        failure: why it is out of the comparison.
    """

    candidate: Candidate
    baseline: bool
    replications: int
    score: float | None
    improvement: float | None
    interval: Interval | None
    failure: Failure | None


def score_table(results: Sequence[CandidateResult], baseline: int, objective: Objective, *, paired: bool) -> Scores:
    """The scores of all candidates that are in the comparison.

    One with a failed replay is not, nor is one with a score that is not finite: neither can win.
    """
    width = max((len(result.replications) for result in results), default=0)
    values = np.full((len(results), width), np.nan)
    for row, result in zip(values, results, strict=True):
        own = [replication.score for replication in result.replications]
        if result.failure is None and all(map(_usable, own)):
            row[: len(own)] = own
    return Scores(values=values, baseline=baseline, minimised=objective.minimised, paired=paired)


def compare_sweep(sweep: Sweep) -> Comparison:
    """Compare every candidate of a sweep to its baseline."""
    return compare(score_table(sweep.results, sweep.baseline, sweep.objective, paired=sweep.paired), sweep.rules)


def rank(sweep: Sweep) -> tuple[Standing, ...]:
    """All candidates, the best first.

    Those that stayed for more stages come first, as fewer replays say less; among them the larger improvement. Ties go
    to the baseline, then to the lowest grid index. Those out of the comparison come last.
    """
    comparison = compare_sweep(sweep)
    return tuple(standing(sweep, comparison, position) for position in ranking(sweep, comparison))


def ranking(sweep: Sweep, comparison: Comparison) -> list[int]:
    """Positions of all candidates, the best first, as in `rank`."""

    def key(position: int) -> tuple[int, float, bool, int]:
        replications, gain = int(comparison.replications[position]), float(comparison.gain[position])
        stages = sum(replications >= stage for stage in sweep.rules.stages)
        return -stages if replications else 1, -gain if replications else 0.0, position != sweep.baseline, position

    return sorted(range(len(sweep.results)), key=key)


def standing(sweep: Sweep, comparison: Comparison, position: int) -> Standing:
    """What is known of the candidate at this position."""
    result = sweep.results[position]
    failure = result.failure
    if failure is None and not all(_usable(replication.score) for replication in result.replications):
        failure = Failure("score_not_finite", f"a replay has no finite {sweep.objective.metric}")
    lower, upper = float(comparison.lower[position]), float(comparison.upper[position])
    return Standing(
        candidate=result.candidate,
        baseline=position == sweep.baseline,
        replications=int(comparison.replications[position]),
        score=_finite(comparison.score[position]),
        improvement=_finite(comparison.improvement[position]),
        interval=Interval(lower, upper) if isfinite(lower) and isfinite(upper) else None,
        failure=failure,
    )


def _usable(score: float) -> bool:
    """Whether sums of squares of it stay finite; false for NaN and infinity."""
    return abs(score) < MAX_SCORE


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None
