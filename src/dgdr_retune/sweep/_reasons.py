"""A decision's reasons in words.

They quote names and messages that come from data and engines: whoever shows them escapes them.
"""

from collections.abc import Sequence

from dgdr_retune.replay import RouterParameters
from dgdr_retune.sweep._standings import Standing
from dgdr_retune.sweep._sweep import Sweep
from dgdr_retune.sweep._traffic import TrafficInterval, holds
from dgdr_retune.windows import GAP_MS, Completeness, Shortfall


def verdict(sweep: Sweep, best: Standing | None, *, proven: bool) -> str:
    """What the comparison says of the best candidate."""
    if best is None:
        return "The grid holds no candidate but the parameters in force."
    rules, objective, name = sweep.rules, sweep.objective, _parameters(best.candidate.router)
    margin = f"more than {rules.min_improvement_percentage:g} %"
    if best.improvement is None:
        return (
            f"With the parameters in force {objective} is 0, so no improvement can be given in percent, and nothing "
            f"is proven; the best-ranked candidate ({name}) reaches {best.score:.4g} {objective.unit}."
        )
    measured = f"{best.improvement:.2f} % ({_interval(sweep, best)})"
    if proven:
        return f"The candidate {name} improves {objective} by {measured}, which is proven to be {margin}."
    return f"No candidate is proven to improve {objective} by {margin}; the best-ranked ({name}) is at {measured}."


def next_window(traffic: TrafficInterval | None, sweep: Sweep) -> list[str]:
    """What blocks of the window's time say of a candidate that replications have proven."""
    if traffic is None and not sweep.objective.is_sum_over_requests:
        return ["Whether this holds for other traffic is not judged: the objective is not made up of requests."]
    if traffic is None or traffic.interval is None:
        cause = "are too few or too uneven" if traffic and traffic.blocks else "could not be replayed"
        return [f"The parameters in force are kept because the latencies over the window's time {cause} to judge."]
    interval = (
        f"{traffic.interval.lower:.2f} to {traffic.interval.upper:.2f} % ({100 * sweep.rules.confidence:g} % interval "
        f"over {traffic.blocks} blocks of {traffic.block_ms / 1000:.3g} s)"
    )
    over = f"over the window's time the improvement is {interval}"
    if holds(traffic, sweep.objective, sweep.rules):
        return [f"Also {over}, so it should hold for other traffic like this."]
    return [f"The parameters in force are kept because {over}: other traffic like this may not show it."]


def held_back(shortfalls: Sequence[Shortfall], shown: int = 5) -> list[str]:
    """Why the window must not change anything; empty when it may."""
    reasons = [f"The parameters in force are kept because {shortfall.message}." for shortfall in shortfalls[:shown]]
    if len(shortfalls) > shown:
        reasons.append(f"The window falls short in {len(shortfalls) - shown} more points.")
    return reasons


def remarks(sweep: Sweep, others: Sequence[Standing], completeness: Completeness) -> list[str]:
    """What else a reader should know of the decision."""
    said = []
    failures = [other.failure for other in others if other.failure is not None]
    if failures:
        said.append(f"{len(failures)} of {len(others)} candidates are out of the comparison: {failures[0].message}.")
    if sweep.exhausted:
        unseen = sum(not other.replications and other.failure is None for other in others)
        said.append(
            f"The budget of {sweep.budget_s:g} s was too short for all replications that were planned"
            + (f"; {unseen} of {len(others)} candidates were not replayed at all." if unseen else ".")
        )
    if not sweep.paired:
        said.append("The engine does not share random numbers among candidates, so intervals are wider.")
    if completeness.gap_count:
        count = f"{completeness.gap_count} gap{'s' if completeness.gap_count > 1 else ''}"
        said.append(
            f"The recording has {count} of {GAP_MS // 1000} s or more, {completeness.gap_ms / 1000:.1f} s in all."
        )
    return said


def _interval(sweep: Sweep, best: Standing) -> str:
    """The interval, or why there is none, or why it proves nothing."""
    replications = f"{best.replications} replication{'s' if best.replications > 1 else ''}"
    if best.interval is None:
        return f"{replications}: too few or too uneven for an interval"
    joint = (
        f"joint {100 * sweep.rules.confidence:g} % interval {best.interval.lower:.2f} to {best.interval.upper:.2f} %, "
        f"{replications}"
    )
    if best.replications < sweep.rules.proof_replications:
        return f"{joint}, of which at least {sweep.rules.proof_replications} are needed"
    return joint


def _parameters(router: RouterParameters) -> str:
    return (
        f"overlap_score_credit {router.overlap_score_credit:g}, prefill_load_scale {router.prefill_load_scale:g}, "
        f"temperature {router.temperature:g}"
    )
