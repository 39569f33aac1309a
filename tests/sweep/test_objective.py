"""What a sweep improves, and what a missing metric counts as."""

from math import inf, isnan, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.replay import Metrics, Sla
from dgdr_retune.sweep import MetricMissingError, Objective, SlaMissingError

FULL = {
    "mean_ttft_ms": 1.0,
    "mean_e2e_latency_ms": 2.0,
    "output_throughput_tok_s": 30.0,
    "mean_output_token_throughput_per_user": 4.0,
    "goodput_output_throughput_tok_s": 15.0,
    "gpu_hours": 0.01,
    "duration_ms": 7200.0,  # 0.002 hours: 5 GPUs
}


@pytest.mark.parametrize(
    ("spelling", "minimised", "needs_sla", "score"),
    [
        ("TTFT", True, False, 1),
        ("E2ELatency", True, False, 2),
        ("Throughput", False, False, 30),
        ("ThroughputPerGPU", False, False, 6),
        ("ThroughputPerUser", False, False, 4),
        ("Goodput", False, True, 15),
        ("GoodputPerGPU", False, True, 3),
    ],
)
def test_each_objective_reads_its_metric_in_its_direction(
    *, spelling: str, minimised: bool, needs_sla: bool, score: float
) -> None:
    objective = Objective(spelling)
    assert (objective.minimised, objective.needs_sla) == (minimised, needs_sla)
    assert objective.score(Metrics(FULL)) == pytest.approx(score, rel=1e-12)


def test_these_are_all_objectives() -> None:
    assert len(Objective) == 7


@pytest.mark.parametrize("value", [None, nan, inf, -inf])
def test_a_metric_that_is_missing_or_not_finite_never_wins(value: float | None) -> None:
    for objective in Objective:
        metrics = {name: number for name, number in FULL.items() if name != objective.metric}
        if value is not None:
            metrics[objective.metric] = value
        if objective.needs_sla:
            with pytest.raises(MetricMissingError, match=objective.metric):
                objective.score(Metrics(metrics))
        else:
            assert objective.score(Metrics(metrics)) == (inf if objective.minimised else 0)


@pytest.mark.parametrize("name", ["gpu_hours", "duration_ms"])
@pytest.mark.parametrize("value", [None, 0.0, -1.0, nan, inf])
def test_without_gpu_time_the_score_per_gpu_is_zero(name: str, value: float | None) -> None:
    metrics = {key: number for key, number in FULL.items() if key != name}
    if value is not None:
        metrics[name] = value
    assert Objective.THROUGHPUT_PER_GPU.score(Metrics(metrics)) == 0
    assert Objective.GOODPUT_PER_GPU.score(Metrics(metrics)) == 0


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(FULL)), st.floats()))
def test_a_score_is_never_nan(metrics: dict[str, float]) -> None:
    for objective in Objective:
        try:
            score = objective.score(Metrics(metrics))
        except MetricMissingError:
            assert objective.needs_sla
        else:
            assert not isnan(score)


def test_only_an_objective_of_an_sla_needs_one() -> None:
    for objective in Objective:
        objective.check(Sla(ttft_ms=500))
        if objective.needs_sla:
            with pytest.raises(SlaMissingError, match="give `sla`"):
                objective.check(None)
        else:
            objective.check(None)
