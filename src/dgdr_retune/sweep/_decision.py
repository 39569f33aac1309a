"""A decision: what to do with the routers after one window, and what that rests on."""

from collections.abc import Sequence
from typing import Literal, Protocol

from attrs import frozen

from dgdr_retune.replay import RouterParameters
from dgdr_retune.sweep._executor import Failure
from dgdr_retune.sweep._objective import Objective
from dgdr_retune.sweep._rules import Rules
from dgdr_retune.sweep._standings import Standing

Outcome = Literal["kept", "recommended", "no_traffic", "failed"]


class Gap(Protocol):
    """A time without an arrival at one frontend, in unix milliseconds."""

    @property
    def frontend(self) -> str: ...
    @property
    def start_ms(self) -> int: ...
    @property
    def end_ms(self) -> int: ...


class Completeness(Protocol):
    """How much of a window's traffic its rows hold."""

    @property
    def rows(self) -> int: ...
    @property
    def minimum_rows(self) -> int: ...
    @property
    def frontends_seen(self) -> tuple[str, ...]: ...
    @property
    def frontends_expected(self) -> tuple[str, ...]: ...
    @property
    def gaps(self) -> Sequence[Gap]: ...


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
        completeness: of the window; None when there was none.
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
    completeness: Completeness | None
    evidence: Evidence | None
    reasons: tuple[str, ...]


def no_traffic(
    baseline: RouterParameters, *, objective: Objective, rules: Rules, completeness: Completeness | None = None
) -> Decision:
    """The decision on a window without a single request."""
    return Decision(
        outcome="no_traffic",
        failure=None,
        router=baseline,
        baseline=baseline,
        objective=objective,
        rules=rules,
        best=None,
        baseline_standing=None,
        completeness=completeness,
        evidence=None,
        reasons=("No request arrived and ended in the window, so there is nothing to decide on.",),
    )


def failed(
    failure: Failure,
    baseline: RouterParameters,
    *,
    objective: Objective,
    rules: Rules,
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
        completeness=completeness,
        evidence=None,
        reasons=(failure.message,),
    )
