"""A decision: what to do with the routers after one window, and what that rests on."""

from typing import Literal

from attrs import evolve, frozen

from dgdr_retune.replay import RouterParameters
from dgdr_retune.sweep._executor import Failure
from dgdr_retune.sweep._objective import Objective
from dgdr_retune.sweep._rules import Rules
from dgdr_retune.sweep._standings import Standing
from dgdr_retune.sweep._traffic import TrafficInterval
from dgdr_retune.windows import Completeness, Counts, Shortfall

Outcome = Literal["kept", "recommended", "no_traffic", "failed"]


@frozen
class Demands:
    """What a window must hold before a decision on it may change anything.

    Attributes:
        minimum_rows: requests.
        frontends: names of the frontends that must have recorded; None where they are not known, and not judged.
    """

    minimum_rows: int = 0
    frontends: tuple[str, ...] | None = None


@frozen
class Evidence:
    """What a decision rests on.

    Attributes:
        engine: who replayed.
        paired: whether candidates met the same random numbers.
        candidates: compared to the baseline, which is not counted.
        failed_candidates: of these, out of the comparison because a replay failed or had no finite score.
        replications: of the baseline; a candidate has its own number.
        replays: that were made in all.
        elapsed_s: seconds that the sweep took.
        budget_exhausted: whether there would have been more replays with more time.
    """

    engine: str
    paired: bool
    candidates: int
    failed_candidates: int
    replications: int
    replays: int
    elapsed_s: float
    budget_exhausted: bool


@frozen
class Decision:
    """What to do with the routers after one window.

    Attributes:
        outcome: `kept` and `recommended` come from a comparison; `no_traffic` and `failed` change nothing either.
        failure: why it failed; only then.
        router: the parameters to run: the best candidate's if recommended, else those in force.
        baseline: the parameters in force.
        objective: what was compared.
        rules: the margin and confidence that were asked for.
        best: the recommended candidate; if none is, the best-ranked one, as information. None without a comparison.
        baseline_standing: the baseline's own scores.
        traffic: the best candidate's improvement over other traffic like the window's; None without one, or where the
            objective has none.
        completeness: of the window; None when there was none.
        demands: what the window had to hold.
        shortfalls: what of this it does not hold.
        evidence: of the sweep; None when there was none.
        reasons: the reasons in words, one sentence each.
    """

    outcome: Outcome
    failure: Failure | None
    router: RouterParameters
    baseline: RouterParameters
    objective: Objective
    rules: Rules
    best: Standing | None
    baseline_standing: Standing | None
    traffic: TrafficInterval | None
    completeness: Completeness | None
    demands: Demands
    shortfalls: tuple[Shortfall, ...]
    evidence: Evidence | None
    reasons: tuple[str, ...]


def no_traffic(
    baseline: RouterParameters,
    *,
    objective: Objective,
    rules: Rules,
    demands: Demands,
    completeness: Completeness | None = None,
    counts: Counts | None = None,
) -> Decision:
    """The decision on a window without a single request; `counts` are those of its cut, if there was one."""
    decision = failed(
        Failure("no_traffic", f"{_silence(counts or Counts())}, so there is nothing to decide on."),
        baseline,
        objective=objective,
        rules=rules,
        demands=demands,
        completeness=completeness,
    )
    return evolve(decision, outcome="no_traffic", failure=None)


def failed(
    failure: Failure,
    baseline: RouterParameters,
    *,
    objective: Objective,
    rules: Rules,
    demands: Demands,
    completeness: Completeness | None = None,
) -> Decision:
    """The decision when the window could not be cut or loaded, or the sweep could not be made."""
    return Decision(
        outcome="failed",
        failure=failure,
        router=baseline,
        baseline=baseline,
        objective=objective,
        rules=rules,
        best=None,
        baseline_standing=None,
        traffic=None,
        completeness=completeness,
        demands=demands,
        shortfalls=(),
        evidence=None,
        reasons=(failure.message,),
    )


def _silence(counts: Counts) -> str:
    if counts.censored:
        running = "1 was" if counts.censored == 1 else f"{counts.censored} were"
        said = f"No request of the window had ended by its cutoff ({running} still running)"
    else:
        said = "No request arrived and ended in the window"
    if counts.malformed:
        said += f" ({counts.malformed} malformed rows were read, whose window is unknown)"
    return said
