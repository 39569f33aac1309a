"""All scores of one sweep: what was replayed, how often, and what came of it."""

from attrs import Attribute, field, frozen

from dgdr_retune.replay import Metrics, RouterParameters, Scenario
from dgdr_retune.sweep._executor import Failure
from dgdr_retune.sweep._grid import Grid
from dgdr_retune.sweep._objective import Objective
from dgdr_retune.sweep._rules import Rules


@frozen
class Candidate:
    """Router parameters under test; `grid_index` is None for a baseline that is off the grid."""

    router: RouterParameters
    grid_index: int | None


@frozen
class Replication:
    """One replay of a candidate: its metrics, the objective's score (may be infinite) and the seconds it took."""

    metrics: Metrics
    score: float
    elapsed_s: float


@frozen
class CandidateResult:
    """What is known of one candidate.

    Attributes:
        candidate: the parameters.
        replications: replications 0, 1, 2, … without a gap.
        failure: the first failure of one of its replays (lowest replication); such a candidate never wins.
    """

    candidate: Candidate
    replications: tuple[Replication, ...]
    failure: Failure | None = None


@frozen
class Sweep:
    """A finished sweep.

    Attributes:
        grid: the points.
        results: one for each grid point, by grid index, then the baseline's if it is off the grid.
        baseline: position in `results` of the parameters in force.
        scenario: what all candidates share.
        objective: what is compared.
        rules: how it is compared.
        engine: the engine's name.
        paired: whether all candidates met the same random numbers.
        budget_s: seconds that the sweep was given.
        elapsed_s: seconds that it took.
        exhausted: whether the budget ended it, or kept contenders from being replayed.

    Raises:
        ValueError: `baseline` is no position in `results`: without the parameters in force nothing can be decided.
    """

    grid: Grid
    results: tuple[CandidateResult, ...]
    baseline: int = field()
    scenario: Scenario
    objective: Objective
    rules: Rules
    engine: str
    paired: bool
    budget_s: float
    elapsed_s: float
    exhausted: bool

    @baseline.validator
    def _has_a_result(self, attribute: "Attribute[int]", value: int) -> None:
        if not 0 <= value < len(self.results):
            raise ValueError(f"{attribute.name} must be a position in the {len(self.results)} results: {value}")
