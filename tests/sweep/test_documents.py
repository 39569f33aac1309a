"""A decision and a sweep as JSON."""

import json
from math import inf, nan

import pytest
from attrs import asdict, evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_cases import BASELINE, DEMANDS, GRID, steady, swept, window
from sweep_doubles import SCENARIO

from dgdr_retune.replay import Metrics, PolynomialTiming
from dgdr_retune.sweep import (
    Failure,
    Interval,
    Objective,
    Replication,
    Rules,
    TrafficInterval,
    decide,
    decision_document,
    failed,
    no_traffic,
    sweep_document,
)
from dgdr_retune.windows import Gap

ROUTER = {
    "overlap_score_credit": 1.0,
    "overlap_score_credit_decay": 0.0,
    "prefill_load_scale": 1.0,
    "decode_active_request_weight": 0.0,
    "host_cache_hit_weight": 0.75,
    "disk_cache_hit_weight": 0.25,
    "shared_cache_multiplier": 0.0,
    "temperature": 0.0,
}
OBJECTIVE = {"name": "TTFT", "metric": "mean_ttft_ms", "minimised": True, "unit": "ms"}
RULES = {
    "min_improvement_percentage": 1.0,
    "confidence": 0.95,
    "initial_replications": 4,
    "maximum_replications": 32,
}


def through_json(document: dict[str, object]) -> dict[str, object]:
    """What a reader of the file sees; NaN and infinity raise."""
    text = json.dumps(document, allow_nan=False)
    read: dict[str, object] = json.loads(text)
    return read


def test_a_decision_is_written_whole() -> None:
    gap = Gap("a", 1000, 16600)
    completeness = evolve(window(gaps=1), names=("a", "b"), gaps=(gap,))
    sweep = swept(steady(100), steady(50))
    traffic = TrafficInterval(sweep.results[1].candidate.router, Interval(40.0, 60.0), 16, 72_000.0)
    decision = decide(sweep, completeness, DEMANDS, traffic)
    document = through_json(decision_document(decision))
    assert document == {
        "schema": "dgdr-retune/decision/v1",
        "outcome": "recommended",
        "failure": None,
        "reasons": list(decision.reasons),
        "router": {**ROUTER, "prefill_load_scale": 2.0},
        "baseline": ROUTER,
        "objective": OBJECTIVE,
        "rules": RULES,
        "best": {
            "grid_index": 1,
            "router": {**ROUTER, "prefill_load_scale": 2.0},
            "is_baseline": False,
            "compared_replications": 8,
            "score": 50.0,
            "improvement_percentage": 50.0,
            "interval_percentage": {"lower": 50.0, "upper": 50.0},
            "failure": None,
        },
        "baseline_standing": {
            "grid_index": 0,
            "router": ROUTER,
            "is_baseline": True,
            "compared_replications": 8,
            "score": 100.0,
            "improvement_percentage": 0.0,
            "interval_percentage": {"lower": 0.0, "upper": 0.0},
            "failure": None,
        },
        "traffic": {"interval_percentage": {"lower": 40.0, "upper": 60.0}, "blocks": 16, "block_ms": 72_000.0},
        "window": {
            "completeness": {
                "rows": 8006,
                "frontends": 2,
                "fingerprints": list(completeness.fingerprints or ()),
                "gap_count": 1,
                "gap_ms": 15600,
                "gaps": [{"frontend": "a", "start_ms": 1000, "end_ms": 16600}],
                "names": ["a", "b"],
                "digest": completeness.digest,
            },
            "demands": {"minimum_rows": 500, "frontends": ["a", "b"]},
            "shortfalls": [],
        },
        "evidence": {
            "engine": "double",
            "paired": True,
            "candidates": 1,
            "failed_candidates": 0,
            "replications": 8,
            "replays": 16,
            "elapsed_s": 3,
            "budget_exhausted": False,
        },
    }


def test_a_decision_without_a_sweep_is_written_too() -> None:
    nothing = no_traffic(BASELINE, objective=Objective.TTFT, rules=Rules(), demands=DEMANDS)
    document = through_json(decision_document(nothing))
    assert document["outcome"] == "no_traffic"
    assert (document["best"], document["evidence"], document["failure"]) == (None, None, None)
    failure = Failure("trace_corrupt", "too much is damaged")
    document = through_json(
        decision_document(failed(failure, BASELINE, objective=Objective.TTFT, rules=Rules(), demands=DEMANDS))
    )
    assert document["failure"] == {"reason": "trace_corrupt", "message": "too much is damaged"}


def test_a_sweep_is_written_with_every_replication_of_every_candidate_the_best_first() -> None:
    sweep = swept(steady(100), steady(50), Failure("worker_died", "killed"), [40.0])
    document = through_json(sweep_document(sweep))
    candidates = document.pop("candidates")
    assert document == {
        "schema": "dgdr-retune/sweep/v1",
        "engine": "double",
        "paired": True,
        "scenario": {
            "specification": {
                **asdict(SCENARIO.specification),
                "aggregated": {
                    **asdict(SCENARIO.specification.aggregated),
                    "timing": {"type": "fixed", "prefill_ms": 10, "decode_ms": 5},
                },
            },
            "speedup": 1.0,
            "sla": {"ttft_ms": 500, "itl_ms": None, "e2e_ms": None},
        },
        "objective": OBJECTIVE,
        "rules": RULES,
        "grid": {
            "overlap_score_credit": [1.0],
            "prefill_load_scale": list(GRID.prefill_load_scale),
            "temperature": [0.0],
        },
        "budget_s": 60,
        "elapsed_s": 3,
        "budget_exhausted": False,
    }
    assert isinstance(candidates, list)
    assert [candidate["grid_index"] for candidate in candidates] == [1, 0, 3, 2]
    assert candidates[0]["replications"] == [
        {"score": 50.0, "elapsed_s": 0.5, "metrics": {"mean_ttft_ms": 50.0}} for _ in range(8)
    ]
    assert candidates[2]["interval_percentage"] is None
    assert candidates[3]["failure"] == {"reason": "worker_died", "message": "killed"}
    assert candidates[3]["replications"] == []


def test_a_timing_says_which_it_is() -> None:
    workers = evolve(SCENARIO.specification.aggregated, timing=PolynomialTiming())
    scenario = evolve(SCENARIO, specification=evolve(SCENARIO.specification, aggregated=workers))
    document = sweep_document(swept(steady(100), scenario=scenario))
    assert document["scenario"]["specification"]["aggregated"]["timing"] == {"type": "polynomial"}


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_what_is_not_finite_is_left_out(value: float) -> None:
    sweep = swept(steady(100), [50.0, value])
    second = sweep.results[1]
    odd = Replication(Metrics({"mean_ttft_ms": value, "duration_ms": 7.0}), value, 0.5)
    sweep = evolve(sweep, results=(sweep.results[0], evolve(second, replications=(second.replications[0], odd))))
    document = through_json(sweep_document(sweep))
    assert isinstance(document["candidates"], list)
    candidate = document["candidates"][1]
    assert candidate["score"] is None
    assert candidate["failure"]["reason"] == "score_not_finite"
    assert candidate["replications"][1] == {"score": None, "elapsed_s": 0.5, "metrics": {"duration_ms": 7.0}}


@settings(deadline=None)
@given(
    table=st.lists(st.lists(st.floats(), max_size=4), min_size=1, max_size=4),
    objective=st.sampled_from([Objective.TTFT, Objective.THROUGHPUT]),
    paired=st.booleans(),
)
def test_whatever_the_scores_both_documents_are_json(
    table: list[list[float]], objective: Objective, *, paired: bool
) -> None:
    sweep = swept(*table, objective=objective, paired=paired)
    through_json(sweep_document(sweep))
    through_json(decision_document(decide(sweep, window(), DEMANDS)))
