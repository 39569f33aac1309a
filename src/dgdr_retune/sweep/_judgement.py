"""From a sweep and the window it rests on to a decision."""

from collections.abc import Sequence

import numpy as np

from dgdr_retune.sweep._allocation import proven
from dgdr_retune.sweep._decision import Decision, Demands, Evidence
from dgdr_retune.sweep._executor import Failure
from dgdr_retune.sweep._reasons import held_back, next_window, remarks, verdict
from dgdr_retune.sweep._standings import Standing, compare_sweep, ranking, standing
from dgdr_retune.sweep._sweep import Sweep
from dgdr_retune.sweep._traffic import TrafficInterval, holds
from dgdr_retune.windows import Completeness


def best_of(sweep: Sweep) -> Standing | None:
    """The candidate that a decision is about; None where nothing was compared.

    Of those proven better it is the one whose interval has the highest lower end (ties: the lowest grid index); if none
    is, the best-ranked.
    """
    comparison = compare_sweep(sweep)
    winners = np.flatnonzero(proven(comparison, sweep.rules)).tolist()
    if winners:
        surest = max(winners, key=lambda position: (comparison.lower[position], -position))
        return standing(sweep, comparison, surest)
    others = (position for position in ranking(sweep, comparison) if position != sweep.baseline)
    return next((standing(sweep, comparison, each) for each in others if comparison.replications[each]), None)


def decide(
    sweep: Sweep, completeness: Completeness, demands: Demands, traffic: TrafficInterval | None = None
) -> Decision:
    """Judge a sweep of a window.

    The best candidate is recommended if it is proven better by more than the margin, over replications and over blocks
    of the window's time, unless the window falls short of what is demanded of it.

    Args:
        sweep: the scores.
        completeness: of the window.
        demands: of the window.
        traffic: of the best candidate (`best_of`); one of another candidate counts as none. An objective that has no
            such interval is decided by replications alone; any other is not changed for without it.
    """
    comparison = compare_sweep(sweep)
    baseline = standing(sweep, comparison, sweep.baseline)
    others = [
        standing(sweep, comparison, position) for position in ranking(sweep, comparison) if position != sweep.baseline
    ]
    best = best_of(sweep)
    if traffic is not None and (best is None or traffic.router != best.candidate.router):
        traffic = None
    won = bool(proven(comparison, sweep.rules).any())
    failure = _failure(baseline, others)
    shortfalls = completeness.shortfalls(expected=demands.frontends, minimum_rows=demands.minimum_rows)
    recommended = best is not None and won and holds(traffic, sweep.objective, sweep.rules) and not shortfalls
    said = failure.message if failure else verdict(sweep, best, proven=won)
    further = next_window(traffic, sweep) if won else []
    return Decision(
        outcome="failed" if failure else "recommended" if recommended else "kept",
        failure=failure,
        router=best.candidate.router if best is not None and recommended else baseline.candidate.router,
        baseline=baseline.candidate.router,
        objective=sweep.objective,
        rules=sweep.rules,
        best=best,
        baseline_standing=baseline,
        traffic=traffic,
        completeness=completeness,
        demands=demands,
        shortfalls=shortfalls,
        evidence=Evidence(
            engine=sweep.engine,
            paired=sweep.paired,
            candidates=len(others),
            failed_candidates=sum(other.failure is not None for other in others),
            replications=baseline.replications,
            replays=sum(len(result.replications) for result in sweep.results),
            elapsed_s=sweep.elapsed_s,
            budget_exhausted=sweep.exhausted,
        ),
        reasons=(said, *held_back(shortfalls), *further, *remarks(sweep, others, completeness)),
    )


def _failure(baseline: Standing, others: Sequence[Standing]) -> Failure | None:
    """Why there is nothing to judge: a sweep that compared nothing is no success. It implies that nothing is proven."""
    if baseline.failure is not None:
        return Failure("baseline_failed", f"The parameters in force could not be scored: {baseline.failure.message}.")
    if not others or (baseline.replications and any(other.replications for other in others)):
        return None
    first = next((other.failure for other in others if other.failure is not None), None)
    if first is not None and all(other.failure is not None for other in others):
        return Failure("all_candidates_failed", f"None of {len(others)} candidates could be scored: {first.message}.")
    return Failure(
        "budget_too_short",
        "The budget ended before a single candidate was compared: raise `budget_seconds`, or try fewer points.",
    )
