"""Sweeps with given scores, and windows that are complete or not."""

from attrs import evolve
from sweep_doubles import SCENARIO

from dgdr_retune.replay import Metrics, RouterParameters
from dgdr_retune.sweep import (
    Candidate,
    CandidateResult,
    Demands,
    Failure,
    GridSection,
    Objective,
    Replication,
    Rules,
    Sweep,
)
from dgdr_retune.windows import Completeness
from dgdr_retune.windows._completeness import fingerprint

BASELINE = RouterParameters()
GRID = GridSection.model_validate(
    {"overlap_score_credit": 1, "prefill_load_scale": {"choices": [1, 2, 4, 8]}, "temperature": 0}
).expand(BASELINE)
DEMANDS = Demands(minimum_rows=500, frontends=("a", "b"))


def window(rows: int = 8006, names: tuple[str, ...] = ("a", "b"), gaps: int = 0) -> Completeness:
    return Completeness(
        rows=rows,
        frontends=len(names),
        fingerprints=tuple(sorted(map(fingerprint, names))),
        gap_count=gaps,
        gap_ms=gaps * 15_600,
    )


def swept(*candidates: list[float] | Failure, **changes: object) -> Sweep:
    """A sweep with these scores of the grid's points, the baseline first."""
    results = tuple(
        CandidateResult(
            candidate=Candidate(point, index),
            replications=()
            if isinstance(scores, Failure)
            else tuple(Replication(Metrics({"mean_ttft_ms": score}), score, 0.5) for score in scores),
            failure=scores if isinstance(scores, Failure) else None,
        )
        for index, (point, scores) in enumerate(zip(GRID.points, candidates, strict=False))
    )
    sweep = Sweep(
        grid=GRID,
        results=results,
        baseline=0,
        scenario=SCENARIO,
        objective=Objective.TTFT,
        rules=Rules(),
        engine="double",
        paired=True,
        budget_s=60,
        elapsed_s=3,
        exhausted=False,
    )
    return evolve(sweep, **changes)


def steady(score: float, replications: int = 8) -> list[float]:
    return [score] * replications
