"""A decision and a sweep as plain JSON values without NaN or infinity; `docs/decisions.md` documents both schemas."""

from math import isfinite
from typing import Any

from attrs import asdict

from dgdr_retune.replay import CalibratedTiming, FixedTiming, PolynomialTiming
from dgdr_retune.sweep._decision import Decision
from dgdr_retune.sweep._objective import Objective
from dgdr_retune.sweep._standings import Standing, compare_sweep, ranking, standing
from dgdr_retune.sweep._sweep import CandidateResult, Replication, Sweep
from dgdr_retune.sweep._traffic import TrafficInterval

DECISION_SCHEMA = "dgdr-retune/decision/v1"
SWEEP_SCHEMA = "dgdr-retune/sweep/v1"

_TIMINGS: dict[type, str] = {FixedTiming: "fixed", PolynomialTiming: "polynomial", CalibratedTiming: "calibrated"}


def decision_document(decision: Decision) -> dict[str, Any]:
    """A decision as JSON values."""
    return {
        "schema": DECISION_SCHEMA,
        "outcome": decision.outcome,
        "failure": asdict(decision.failure) if decision.failure else None,
        "reasons": list(decision.reasons),
        "router": asdict(decision.router),
        "baseline": asdict(decision.baseline),
        "objective": _objective(decision.objective),
        "rules": asdict(decision.rules),
        "best": _standing(decision.best) if decision.best else None,
        "baseline_standing": _standing(decision.baseline_standing) if decision.baseline_standing else None,
        "traffic": _traffic(decision.traffic) if decision.traffic else None,
        "window": {
            "completeness": asdict(decision.completeness) if decision.completeness else None,
            "demands": asdict(decision.demands),
            "shortfalls": [asdict(shortfall) for shortfall in decision.shortfalls],
        },
        "evidence": asdict(decision.evidence) if decision.evidence else None,
    }


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """A sweep as JSON values: every candidate, the best first, with every replication's metrics."""
    comparison = compare_sweep(sweep)
    return {
        "schema": SWEEP_SCHEMA,
        "engine": sweep.engine,
        "paired": sweep.paired,
        "scenario": asdict(sweep.scenario, value_serializer=_with_type),
        "objective": _objective(sweep.objective),
        "rules": asdict(sweep.rules),
        "grid": {
            "overlap_score_credit": list(sweep.grid.overlap_score_credit),
            "prefill_load_scale": list(sweep.grid.prefill_load_scale),
            "temperature": list(sweep.grid.temperature),
        },
        "budget_s": sweep.budget_s,
        "elapsed_s": sweep.elapsed_s,
        "budget_exhausted": sweep.exhausted,
        "candidates": [
            _standing(standing(sweep, comparison, position)) | _replications(sweep.results[position])
            for position in ranking(sweep, comparison)
        ],
    }


def _with_type(_owner: object, _attribute: object, value: Any) -> Any:
    """A timing says which one it is, as in the engine section."""
    return {"type": _TIMINGS[type(value)], **asdict(value)} if type(value) in _TIMINGS else value


def _objective(objective: Objective) -> dict[str, Any]:
    return {
        "name": objective.value,
        "metric": objective.metric,
        "minimised": objective.minimised,
        "unit": objective.unit,
    }


def _traffic(traffic: TrafficInterval) -> dict[str, Any]:
    return {
        "interval_percentage": asdict(traffic.interval) if traffic.interval else None,
        "blocks": traffic.blocks,
        "block_ms": traffic.block_ms,
    }


def _standing(known: Standing) -> dict[str, Any]:
    return {
        "grid_index": known.candidate.grid_index,
        "router": asdict(known.candidate.router),
        "is_baseline": known.baseline,
        "compared_replications": known.replications,
        "score": known.score,
        "improvement_percentage": known.improvement,
        "interval_percentage": asdict(known.interval) if known.interval else None,
        "failure": asdict(known.failure) if known.failure else None,
    }


def _replications(result: CandidateResult) -> dict[str, Any]:
    return {"replications": [_replication(replication) for replication in result.replications]}


def _replication(replication: Replication) -> dict[str, Any]:
    """A value that is not finite is left out, as one that the replay does not have."""
    return {
        "score": replication.score if isfinite(replication.score) else None,
        "elapsed_s": replication.elapsed_s,
        "metrics": {name: value for name, value in replication.metrics.values.items() if isfinite(value)},
    }
