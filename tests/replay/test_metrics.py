import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_cases import Case, cases, disaggregated, disaggregated_cases, request, scenario

from dgdr_retune.replay import BuiltInEngine, FixedTiming, Metrics, RouterParameters, Sla, trace_of
from dgdr_retune.replay._metrics import _distribution, request_times, summarize
from dgdr_retune.replay._simulation import simulate

DISTRIBUTIONS = ("ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms", "output_token_throughput_per_user")
STATISTICS = ("mean", "min", "max", "median", "p75", "p90", "p95", "p99", "std")

# Two requests at once on one worker, 10 ms a prompt and 3 ms a decode: first tokens at 10, then at 13, 16 and 19.
PAIR = (request(0, [1, 2], 3, tokens=100), request(0, [1, 3], 4, tokens=100))
FIXED = {"timing": FixedTiming(prefill_ms=10.0, decode_ms=3.0), "replicas": 2, "gpus_per_worker": 4}


def metrics(sla: Sla | None = None, requests: Any = PAIR, **changes: Any) -> Metrics:
    shared = evolve(scenario(**{**FIXED, **changes}), sla=sla)
    trace = trace_of(requests)
    # Load alone decides, and the request weight is what load there is: the second request goes to the other worker.
    return BuiltInEngine().replay(trace, shared, RouterParameters(overlap_score_credit=0.0), 0)


def test_counts_and_rates() -> None:
    values = metrics(replicas=1).values
    assert values["num_requests"] == values["completed_requests"] == 2
    assert (values["total_input_tokens"], values["total_output_tokens"]) == (200, 7)
    assert values["processed_tokens"] == 207
    assert values["committed_prefill_tokens"] == 136
    assert values["duration_ms"] == 19.0
    assert values["request_throughput_rps"] == pytest.approx(2 / 0.019)
    assert values["input_throughput_tok_s"] == pytest.approx(200 / 0.019)
    assert values["output_throughput_tok_s"] == pytest.approx(7 / 0.019)
    assert values["total_throughput_tok_s"] == pytest.approx(207 / 0.019)
    assert values["prefix_cache_reused_ratio"] == values["first_admission_prefix_cache_reused_ratio"] == 64 / 200


def test_gpu_hours_are_those_of_all_workers_until_the_last_event() -> None:
    values = metrics().values
    assert values["decode_worker_seconds"] == pytest.approx(2 * values["duration_ms"] / 1000)
    assert values["decode_gpus_per_worker"] == 4
    assert values["gpu_hours"] == pytest.approx(2 * 4 * values["duration_ms"] / 3_600_000)
    assert values["prefill_worker_seconds"] == values["prefill_gpus_per_worker"] == 0


def test_gpu_hours_are_those_of_prefill_and_decode_workers() -> None:
    shared = disaggregated({"replicas": 3, "gpus_per_worker": 2}, {"replicas": 2, "gpus_per_worker": 4})
    values = BuiltInEngine().replay(trace_of(PAIR), shared, RouterParameters(), 0).values
    seconds = values["duration_ms"] / 1000
    assert values["prefill_worker_seconds"] == pytest.approx(3 * seconds)
    assert values["decode_worker_seconds"] == pytest.approx(2 * seconds)
    assert (values["prefill_gpus_per_worker"], values["decode_gpus_per_worker"]) == (2, 4)
    assert values["gpu_hours"] == pytest.approx((3 * 2 + 2 * 4) * seconds / 3600)


def test_latencies_of_a_disaggregated_deployment() -> None:
    """Both prompts in a pass of 10 ms, then on to the decode worker, where each token takes 3 ms."""
    values = BuiltInEngine().replay(trace_of(PAIR), disaggregated(), RouterParameters(), 0).values
    assert (values["min_ttft_ms"], values["max_ttft_ms"]) == (13.0, 13.0)
    assert values["mean_itl_ms"] == 3.0
    assert (values["min_e2e_latency_ms"], values["max_e2e_latency_ms"]) == (19.0, 22.0)
    assert values["committed_prefill_tokens"] == 136


def test_latencies() -> None:
    values = metrics(replicas=1).values
    assert [values[f"{name}_ttft_ms"] for name in STATISTICS] == [10.0] * 8 + [0.0]
    assert values["mean_ttst_ms"] == values["mean_tpot_ms"] == values["mean_itl_ms"] == 3.0
    assert (values["min_e2e_latency_ms"], values["max_e2e_latency_ms"], values["std_e2e_latency_ms"]) == (
        16.0,
        19.0,
        1.5,
    )
    assert values["median_e2e_latency_ms"] == 19.0  # rank (2 - 1) / 2 rounds up
    assert values["mean_output_token_throughput_per_user"] == pytest.approx(1000 / 3)
    assert [values[f"num_{name}_samples"] for name in ("ttft", "tpot", "e2e_latency")] == [2.0] * 3


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=60).map(sorted), st.data())
@settings(deadline=None, max_examples=100)
def test_weighted_statistics_are_those_of_the_repeated_samples(values: list[float], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(values), max_size=len(values)))
    repeated = np.sort(np.repeat(values, weights))
    found = _distribution("x", np.array(values), np.array(weights))
    assert found["mean_x"] == pytest.approx(repeated.mean())
    assert found["std_x"] == pytest.approx(repeated.std(), abs=1e-6 * repeated.max())
    assert (found["min_x"], found["max_x"]) == (repeated[0], repeated[-1])
    for name, percent in (("median", 50), ("p75", 75), ("p90", 90), ("p95", 95), ("p99", 99)):
        rank = (len(repeated) - 1) * percent / 100
        assert found[f"{name}_x"] == repeated[math.floor(rank + 0.5)]


@pytest.mark.parametrize(
    ("sla", "good"),
    [
        (Sla(ttft_ms=10.0), 2),
        (Sla(ttft_ms=9.9), 0),
        (Sla(itl_ms=3.0), 2),
        (Sla(itl_ms=2.9), 0),
        (Sla(ttft_ms=10.0, itl_ms=3.0), 2),
        (Sla(e2e_ms=16.0), 1),
        (Sla(e2e_ms=19.0), 2),
    ],
)
def test_goodput_counts_requests_within_every_bound_and_their_output(sla: Sla, good: int) -> None:
    values = metrics(sla, replicas=1).values
    tokens = {0: 0, 1: 3, 2: 7}[good]
    assert values["goodput_completed_requests"] == good
    assert values["goodput_request_throughput_rps"] == pytest.approx(good / 0.019)
    assert values["goodput_output_throughput_tok_s"] == pytest.approx(tokens / 0.019)


@pytest.mark.parametrize(
    ("output", "sla", "good"),
    [(1, Sla(itl_ms=0.1), 1), (0, Sla(itl_ms=100.0), 0), (0, Sla(ttft_ms=100.0), 0), (0, Sla(e2e_ms=100.0), 1)],
)
def test_a_request_without_gaps_or_tokens_meets_only_bounds_that_it_can_have(output: int, sla: Sla, good: int) -> None:
    assert metrics(sla, (request(0, [1], output),))["goodput_completed_requests"] == good


def test_metrics_that_do_not_exist_are_absent() -> None:
    values = metrics(requests=(request(0, [1], 0),)).values
    assert not any(name.startswith("goodput") for name in values)
    assert not any(f"{statistic}_{name}" in values for statistic in STATISTICS for name in DISTRIBUTIONS)
    assert values["num_ttft_samples"] == 0
    assert values["duration_ms"] == 10.0
    assert metrics().get("goodput_completed_requests") is None


def test_a_refused_request_is_no_completed_one_and_has_no_latency() -> None:
    values = metrics(requests=(request(0, [1], 4), request(5, [*range(10, 20)], 4)), replicas=1, blocks=6).values
    assert (values["num_requests"], values["completed_requests"], values["num_ttft_samples"]) == (2, 1, 1)
    assert (values["total_input_tokens"], values["total_output_tokens"]) == (64, 4)


@given(cases(workers=3, roomy=False) | disaggregated_cases(workers=3, roomy=False))
@settings(deadline=None, max_examples=100)
def test_every_metric_is_a_finite_float(case: Case) -> None:
    outcome = simulate(case.trace, case.scenario, case.router, 0)
    values = summarize(outcome, case.trace, evolve(case.scenario, sla=Sla(ttft_ms=30.0, itl_ms=5.0))).values
    assert all(type(value) is float and math.isfinite(value) for value in values.values())


@given(cases(workers=3, roomy=False) | disaggregated_cases(workers=3, roomy=False))
@settings(deadline=None, max_examples=100)
def test_request_times_and_metrics_tell_the_same_story(case: Case) -> None:
    outcome = simulate(case.trace, case.scenario, case.router, 0)
    values = summarize(outcome, case.trace, case.scenario)
    times = request_times(outcome)
    for name, samples in (("ttft_ms", times.ttft_ms), ("tpot_ms", times.itl_ms), ("e2e_latency_ms", times.e2e_ms)):
        known = samples[~np.isnan(samples)]
        assert len(samples) == len(case.requests)
        if len(known):
            assert values[f"mean_{name}"] == pytest.approx(known.mean())
            assert known.min() >= 0.0
