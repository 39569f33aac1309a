"""From a sweep and its window to a decision."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sweep_cases import BASELINE, DEMANDS, GRID, steady, swept, window

from dgdr_retune.sweep import (
    Decision,
    Demands,
    Failure,
    Interval,
    Objective,
    Rules,
    Sweep,
    TrafficInterval,
    best_of,
    decide,
    failed,
    no_traffic,
    rank,
)
from dgdr_retune.windows import Completeness, Counts


def decided(*candidates: list[float] | Failure, **changes: object) -> Decision:
    sweep = swept(*candidates, **changes)
    return decide(sweep, window(), DEMANDS, elsewhere(sweep, Interval(1.5, 90)))


def elsewhere(sweep: Sweep, interval: Interval | None, blocks: int = 16) -> TrafficInterval:
    """The best candidate's improvement over other traffic."""
    best = best_of(sweep)
    return TrafficInterval(best.candidate.router if best else BASELINE, interval, blocks, 15_000.0)


def test_a_proven_improvement_is_recommended_with_all_that_it_rests_on() -> None:
    decision = decided(steady(4.493), steady(4.6), steady(3.778), Failure("engine_failed", "broken"))
    assert (decision.outcome, decision.failure) == ("recommended", None)
    assert (decision.router, decision.baseline) == (GRID.points[2], GRID.points[0])
    assert decision.best is not None
    assert decision.best.candidate.grid_index == 2
    assert decision.best.improvement == pytest.approx(15.9, abs=0.05)
    assert decision.best.interval == Interval(decision.best.improvement, decision.best.improvement)
    assert decision.baseline_standing is not None
    assert decision.baseline_standing.score == pytest.approx(4.493)
    assert decision.evidence is not None
    assert (decision.evidence.candidates, decision.evidence.failed_candidates) == (3, 1)
    assert (decision.evidence.replications, decision.evidence.replays) == (8, 24)
    assert decision.reasons[0] == (
        "The candidate overlap_score_credit 1, prefill_load_scale 4, temperature 0 improves TTFT by 15.91 % "
        "(joint 95 % interval 15.91 to 15.91 %, 8 replications), which is proven to be more than 1 %."
    )
    assert decision.reasons[2] == "1 of 3 candidates are out of the comparison: broken."


def test_an_improvement_that_meets_the_margin_is_not_enough() -> None:
    decision = decided(steady(100), steady(99))
    assert (decision.outcome, decision.router) == ("kept", BASELINE)
    assert decision.best is not None
    assert decision.best.improvement == 1
    assert "No candidate is proven to improve TTFT by more than 1 %" in decision.reasons[0]


def test_an_improvement_within_the_noise_is_not_enough() -> None:
    noise = np.linspace(-10, 10, 8)
    decision = decided(steady(100), (95 + noise).tolist())
    assert decision.outcome == "kept"
    assert decision.best is not None
    assert decision.best.improvement == pytest.approx(5)
    assert decision.best.interval is not None
    assert decision.best.interval.lower < 1 < decision.best.interval.upper


def test_of_two_that_are_proven_the_surer_is_recommended() -> None:
    noise = np.linspace(-2, 2, 8)
    decision = decided(steady(100), (80 + noise).tolist(), steady(81))
    assert decision.best is not None
    assert decision.best.candidate.grid_index == 2


def test_of_equals_the_lowest_grid_index_wins_and_the_baseline_before_all() -> None:
    assert decided(steady(100), steady(90), steady(80), steady(80)).router == GRID.points[2]
    level = swept(steady(100), steady(100), steady(100), steady(100))
    assert [standing.candidate.grid_index for standing in rank(level)] == [0, 1, 2, 3]
    assert decide(level, window(), DEMANDS).outcome == "kept"
    moved = swept(steady(100), steady(100), steady(100), steady(100), baseline=2)
    assert [standing.candidate.grid_index for standing in rank(moved)] == [2, 0, 1, 3]


def test_those_who_stayed_longer_rank_first_and_failures_last() -> None:
    order = rank(swept(steady(100), Failure("engine_failed", "broken"), steady(50, 4), steady(90)))
    assert [standing.candidate.grid_index for standing in order] == [3, 0, 2, 1]
    assert order[3].failure == Failure("engine_failed", "broken")


@pytest.mark.parametrize(
    ("completeness", "reason"),
    [
        (window(rows=499), "below_minimum_rows"),
        (window(names=("a",)), "missing_frontend"),
        (evolve(window(), fingerprints=None), "frontends_unknown"),
    ],
)
def test_a_window_that_falls_short_is_never_more_than_kept_and_says_why(
    completeness: Completeness, reason: str
) -> None:
    decision = decide(swept(steady(100), steady(50)), completeness, DEMANDS)
    assert (decision.outcome, decision.router) == ("kept", BASELINE)
    (shortfall,) = decision.shortfalls
    assert shortfall.reason == reason
    assert decision.reasons[1] == f"The parameters in force are kept because {shortfall.message}."
    assert decision.best is not None
    assert decision.best.candidate.grid_index == 1
    assert "proven to be more than 1 %" in decision.reasons[0]


@pytest.mark.parametrize(
    ("interval", "blocks", "outcome", "said"),
    [
        (
            Interval(1.5, 90),
            16,
            "recommended",
            "1.50 to 90.00 % (95 % interval over 16 blocks of 15 s), so it should hold",
        ),
        (Interval(1.0, 90), 16, "kept", "other traffic like this may not show it"),
        (Interval(-20, 90), 8, "kept", "-20.00 to 90.00 % (95 % interval over 8 blocks of 15 s): other traffic"),
        (None, 8, "kept", "are too few or too uneven to judge"),
        (None, 0, "kept", "could not be replayed to judge"),
    ],
)
def test_what_other_traffic_may_not_show_is_kept_whatever_replications_prove(
    interval: Interval | None, blocks: int, outcome: str, said: str
) -> None:
    sweep = swept(steady(100), steady(50))
    traffic = elsewhere(sweep, interval, blocks)
    decision = decide(sweep, window(), DEMANDS, traffic)
    assert decision.outcome == outcome
    assert decision.traffic is traffic
    assert said in decision.reasons[1]
    assert decision.router == (traffic.router if outcome == "recommended" else BASELINE)


def test_only_an_objective_that_no_blocks_of_time_can_judge_is_decided_without_them() -> None:
    latency = decide(swept(steady(100), steady(50)), window(), DEMANDS)
    assert (latency.outcome, latency.router) == ("kept", BASELINE)
    assert "could not be replayed to judge" in latency.reasons[1]
    throughput = decide(swept(steady(100), steady(200), objective=Objective.THROUGHPUT), window(), DEMANDS)
    assert (throughput.outcome, throughput.router) == ("recommended", GRID.points[1])
    assert "not judged: the objective is not made up of requests" in throughput.reasons[1]


def test_blocks_of_time_prove_nothing_that_replications_do_not() -> None:
    traffic = TrafficInterval(GRID.points[1], Interval(20, 30), 16, 15_000.0)
    decision = decide(swept(steady(100), steady(99)), window(), DEMANDS, traffic)
    assert (decision.outcome, len(decision.reasons)) == ("kept", 1)


def test_blocks_of_time_of_another_candidate_prove_nothing_of_the_best() -> None:
    another = TrafficInterval(GRID.points[2], Interval(50, 60), 16, 15_000.0)
    for sweep in (swept(steady(100), steady(50), steady(90)), swept(steady(100))):
        decision = decide(sweep, window(), DEMANDS, another)
        assert (decision.outcome, decision.router, decision.traffic) == ("kept", BASELINE, None)


def test_a_sweep_without_the_parameters_in_force_cannot_be_made() -> None:
    for results in ((), swept(steady(100)).results):
        with pytest.raises(ValueError, match=f"position in the {len(results)} results"):
            evolve(swept(steady(100)), results=results, baseline=len(results))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"initial_replications": 0}, "initial_replications"),
        ({"maximum_replications": 3}, r"at least initial_replications \(4\): 3"),
        ({"confidence": 0.0}, "confidence"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": nan}, "confidence"),
        ({"min_improvement_percentage": -1.0}, "min_improvement_percentage"),
        ({"min_improvement_percentage": inf}, "min_improvement_percentage"),
        ({"min_improvement_percentage": nan}, "min_improvement_percentage"),
    ],
)
def test_rules_by_which_nothing_could_be_judged_cannot_be_made(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Rules(**values)


def test_of_many_missing_frontends_a_few_are_named() -> None:
    demands = Demands(frontends=tuple(f"frontend-{number}" for number in range(50)))
    decision = decide(swept(steady(100), steady(50)), window(), demands)
    assert decision.outcome == "kept"
    assert len(decision.shortfalls) == 50
    assert decision.reasons[6] == "The window falls short in 45 more points."
    assert len(decision.reasons) == 8


def test_gaps_a_short_budget_and_an_unpaired_engine_are_said() -> None:
    sweep = swept(steady(100), steady(50), [], exhausted=True, paired=False)
    decision = decide(sweep, window(gaps=2), DEMANDS, elsewhere(sweep, Interval(1.5, 90)))
    assert decision.outcome == "recommended"
    unseen = "1 of 2 candidates were not replayed at all."
    assert decision.reasons[2:] == (
        f"The budget of 60 s was too short for all replications that were planned; {unseen}",
        "The engine does not share random numbers among candidates, so intervals are wider.",
        "The recording has 2 gaps of 10 s or more, 31.2 s in all.",
    )


def test_when_the_baseline_failed_the_decision_has_failed() -> None:
    decision = decided(Failure("worker_died", "the worker process died"), steady(50))
    assert decision.outcome == "failed"
    assert decision.failure == Failure(
        "baseline_failed", "The parameters in force could not be scored: the worker process died."
    )
    assert decision.router == BASELINE
    assert decision.reasons[0] == decision.failure.message


@pytest.mark.parametrize("score", [inf, nan, -inf])
def test_a_baseline_without_a_finite_score_has_failed(score: float) -> None:
    decision = decided([100, score], steady(50))
    assert decision.failure is not None
    assert decision.failure.reason == "baseline_failed"
    assert "no finite mean_ttft_ms" in decision.failure.message


@pytest.mark.parametrize("score", [inf, nan])
def test_a_candidate_with_one_score_that_is_not_finite_never_wins(score: float) -> None:
    decision = decided(steady(100, 9), [*steady(50), score], steady(100, 9))
    assert decision.outcome == "kept"
    assert decision.evidence is not None
    assert decision.evidence.failed_candidates == 1


def test_when_all_candidates_failed_the_decision_has_failed() -> None:
    broken = Failure("engine_failed", "broken")
    decision = decided(steady(100), broken, [inf], broken)
    assert decision.outcome == "failed"
    assert decision.failure is not None
    assert decision.failure.reason == "all_candidates_failed"
    assert decision.router == BASELINE


@pytest.mark.parametrize("candidates", [([], [], []), ([100.0], [], [])])
def test_a_budget_too_short_for_one_comparison_is_a_failure(candidates: tuple[list[float], ...]) -> None:
    decision = decided(*candidates, exhausted=True)
    assert decision.outcome == "failed"
    assert decision.failure is not None
    assert decision.failure.reason == "budget_too_short"


def test_one_replication_proves_nothing() -> None:
    decision = decided(steady(100, 1), steady(50, 1), exhausted=True)
    assert decision.outcome == "kept"
    assert "1 replication: too few or too uneven for an interval" in decision.reasons[0]


def test_too_few_replications_prove_nothing_and_it_says_how_many_it_takes() -> None:
    decision = decided(steady(100, 5), steady(50, 5), exhausted=True)
    assert decision.outcome == "kept"
    assert "5 replications, of which at least 8 are needed" in decision.reasons[0]


def test_a_baseline_of_zero_is_kept_and_explained() -> None:
    decision = decided(steady(0), steady(50), objective=Objective.THROUGHPUT)
    assert decision.outcome == "kept"
    assert decision.reasons[0].startswith("With the parameters in force Throughput is 0, so no improvement")
    assert "reaches 50 tokens/s" in decision.reasons[0]


def test_a_grid_of_the_baseline_alone_keeps_it() -> None:
    decision = decided(steady(100))
    assert decision.outcome == "kept"
    assert decision.best is None
    assert decision.reasons == ("The grid holds no candidate but the parameters in force.",)


def test_a_window_without_traffic_and_a_failed_cut_change_nothing() -> None:
    for decision in (
        no_traffic(BASELINE, objective=Objective.TTFT, rules=Rules(), demands=DEMANDS, completeness=window(rows=0)),
        failed(
            Failure("trace_corrupt", "too much is damaged"),
            BASELINE,
            objective=Objective.TTFT,
            rules=Rules(),
            demands=DEMANDS,
        ),
    ):
        assert decision.outcome in {"no_traffic", "failed"}
        assert (decision.failure is None) == (decision.outcome == "no_traffic")
        assert decision.router == decision.baseline == BASELINE
        assert len(decision.reasons) == 1


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (None, "No request arrived and ended in the window, so"),
        (Counts(), "No request arrived and ended in the window, so"),
        (Counts(censored=1), "No request of the window had ended by its cutoff (1 was still running), so"),
        (Counts(censored=12), "No request of the window had ended by its cutoff (12 were still running), so"),
        (Counts(malformed=3), "ended in the window (3 malformed rows were read, whose window is unknown), so"),
    ],
)
def test_a_window_without_traffic_says_what_was_left_out(counts: Counts | None, said: str) -> None:
    decision = no_traffic(BASELINE, objective=Objective.TTFT, rules=Rules(), demands=DEMANDS, counts=counts)
    assert said in decision.reasons[0]


@settings(deadline=None)
@given(
    table=arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(0, 9)), elements=st.floats()),
    failures=st.sets(st.integers(0, 3)),
    paired=st.booleans(),
    objective=st.sampled_from([Objective.TTFT, Objective.THROUGHPUT]),
    complete=st.booleans(),
    judged=st.booleans(),
)
def test_what_is_recommended_is_finite_proven_and_not_the_baseline(
    table: np.ndarray, failures: set[int], objective: Objective, *, paired: bool, complete: bool, judged: bool
) -> None:
    broken = Failure("engine_failed", "broken")
    candidates = [broken if row in failures else scores.tolist() for row, scores in enumerate(table)]
    completeness = window() if complete else window(rows=1)
    sweep = swept(*candidates, paired=paired, objective=objective)
    decision = decide(sweep, completeness, DEMANDS, elsewhere(sweep, Interval(1.5, 90)) if judged else None)
    assert decision.reasons
    assert (decision.failure is not None) == (decision.outcome == "failed")
    if decision.outcome != "recommended":
        assert decision.router == BASELINE
        return
    best = decision.best
    assert complete
    assert judged or objective is Objective.THROUGHPUT
    assert best is not None
    assert decision.router == best.candidate.router != BASELINE
    assert best.candidate.grid_index not in failures
    assert np.isfinite(table[best.candidate.grid_index]).all()
    assert best.interval is not None
    assert 1 < best.interval.lower <= best.interval.upper < inf
