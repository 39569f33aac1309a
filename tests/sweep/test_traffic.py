"""The improvement over blocks of the window's time."""

import tracemalloc

import numpy as np
import pytest
from attrs import evolve

from dgdr_retune.replay import RequestTimes, RouterParameters, Sla, Trace
from dgdr_retune.sweep import Objective, Rules, TrafficInterval, traffic_interval

ROUTER = RouterParameters(prefill_load_scale=4)
MINUTES_MS = 1_200_000


def window(requests: int = 4000, *, output_length: int = 11) -> Trace:
    arrival_ms = np.linspace(1_796_040_000_000, 1_796_040_000_000 + MINUTES_MS - 1, requests).astype(np.int64)
    ones = np.ones(requests, dtype=np.int32)
    return Trace(
        block_size=64,
        arrival_ms=arrival_ms,
        input_length=ones,
        output_length=ones * output_length,
        hash_start=np.arange(requests + 1, dtype=np.int64),
        hashes=np.arange(requests, dtype=np.uint64),
    )


def latencies(ttft_ms: np.ndarray) -> RequestTimes:
    return RequestTimes(ttft_ms=ttft_ms, itl_ms=ttft_ms / 10, e2e_ms=2 * ttft_ms)


def judged(
    baseline: np.ndarray, candidate: np.ndarray, objective: Objective = Objective.TTFT, **changes: object
) -> TrafficInterval:
    trace = window(len(baseline))
    given = {"sla": None, "rules": Rules(), **changes}
    traffic = traffic_interval(
        trace, ROUTER, [latencies(candidate)], [latencies(baseline)], objective=objective, **given
    )
    assert traffic is not None
    assert traffic.router == ROUTER
    return traffic


def test_an_improvement_of_every_block_is_narrow_and_one_of_a_single_block_is_not() -> None:
    rng = np.random.default_rng(3)
    baseline = rng.gamma(2, 50, 4000)
    steady = judged(baseline, 0.8 * baseline)
    assert steady.interval is not None
    assert (steady.interval.lower, steady.interval.upper) == pytest.approx((20, 20))
    lucky = baseline.copy()
    lucky[1000:1100] = 0
    baseline[1000:1100] = 5000
    once = judged(baseline, lucky)
    assert once.interval is None or once.interval.lower < 0


def test_the_interval_holds_the_improvement_of_other_traffic_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        base = rng.gamma(2, 50, 1600)
        interval = judged(base, 0.9 * base * rng.lognormal(0, 0.5, 1600) / np.exp(0.125)).interval
        assert interval is not None
        held += interval.lower <= 10 <= interval.upper
    assert 400 * 0.92 <= held <= 400 * 0.98


@pytest.mark.parametrize(("lasts", "least"), [(1 / 32, 0.87), (1 / 16, 0.8), (1 / 8, 0.7)])
def test_the_interval_holds_less_often_the_longer_what_one_request_meets_is_felt(lasts: float, least: float) -> None:
    rng = np.random.default_rng(11)
    requests = 800
    decay = np.exp(-np.arange(4 * requests) / (lasts * requests))
    decay /= np.sqrt((decay**2).sum())
    held = 0
    for _ in range(400):
        felt = np.convolve(rng.normal(size=5 * requests), decay, "valid")[:requests]
        interval = judged(100 + 20 * rng.normal(size=requests), 90 + 20 * felt).interval
        held += interval is None or interval.lower <= 10 <= interval.upper
    assert 400 * least <= held <= 400 * 0.96


def test_blocks_are_merged_while_a_queue_lasts_from_one_to_the_next() -> None:
    rng = np.random.default_rng(7)
    baseline = rng.gamma(20, 5, 3200)
    independent = judged(baseline, baseline * rng.uniform(0.5, 1.1, 3200))
    slow = np.repeat(rng.normal(0, 30, 4), 800)
    correlated = judged(baseline, baseline + slow)
    assert (independent.blocks, correlated.blocks) == (32, 8)
    assert independent.block_ms == pytest.approx(MINUTES_MS / 32)
    assert correlated.block_ms == pytest.approx(MINUTES_MS / 8)


def test_each_objective_is_judged_by_what_its_requests_add_to_it() -> None:
    baseline, candidate = np.full(640, 100.0), np.full(640, 80.0)
    candidate[::2] = 120.0
    sla = Sla(ttft_ms=110, itl_ms=50)
    expected = {
        Objective.TTFT: 0.0,
        Objective.E2E_LATENCY: 0.0,
        Objective.THROUGHPUT_PER_USER: 100 * ((100 / 80 + 100 / 120) / 2 - 1),
        Objective.GOODPUT: -50.0,
        Objective.GOODPUT_PER_GPU: -50.0,
    }
    for objective, improvement in expected.items():
        interval = judged(baseline, candidate, objective, sla=sla).interval
        assert interval is not None
        assert interval.lower <= improvement + 1e-9
        assert interval.upper >= improvement - 1e-9
        assert interval.upper - interval.lower < 1e-6


def test_an_objective_that_arrivals_set_has_no_such_interval() -> None:
    for objective in (Objective.THROUGHPUT, Objective.THROUGHPUT_PER_GPU):
        times = [latencies(np.ones(8))]
        assert traffic_interval(window(8), ROUTER, times, times, objective=objective, sla=None, rules=Rules()) is None


def test_without_latencies_nothing_is_said_to_hold() -> None:
    times = [latencies(np.ones(8))]
    for mine, theirs in (([], times), (times, [])):
        traffic = traffic_interval(window(8), ROUTER, mine, theirs, objective=Objective.TTFT, sla=None, rules=Rules())
        assert traffic == TrafficInterval(ROUTER, None, 0, 0.0)


def test_the_random_choices_of_one_replication_count_for_less_the_more_there_are() -> None:
    rng = np.random.default_rng(9)
    base = rng.gamma(2, 50, 1600)
    noisy = [latencies(base * rng.lognormal(-0.1, 0.8, 1600)) for _ in range(8)]
    trace, given = window(1600), {"objective": Objective.TTFT, "sla": None, "rules": Rules()}
    one = traffic_interval(trace, ROUTER, noisy[:1], [latencies(base)] * 8, **given)
    eight = traffic_interval(trace, ROUTER, noisy, [latencies(base)] * 8, **given)
    assert one is not None
    assert eight is not None
    assert one.interval is not None
    assert eight.interval is not None
    assert eight.interval.upper - eight.interval.lower < 0.5 * (one.interval.upper - one.interval.lower)


def test_a_request_that_one_of_the_two_never_served_counts_for_neither() -> None:
    baseline, candidate = np.full(640, 100.0), np.full(640, 50.0)
    candidate[3] = np.nan
    interval = judged(baseline, candidate).interval
    assert interval is not None
    assert interval.lower == pytest.approx(50)


@pytest.mark.parametrize("objective", [Objective.TTFT, Objective.GOODPUT, Objective.THROUGHPUT_PER_USER])
@pytest.mark.parametrize("latency", [0.0, 10.0, np.nan])
@pytest.mark.parametrize("output_length", [1, 11])
def test_traffic_of_one_moment_or_one_request_proves_nothing(
    objective: Objective, latency: float, output_length: int
) -> None:
    given = {"objective": objective, "sla": Sla(ttft_ms=5), "rules": Rules()}
    burst = window(100, output_length=output_length)
    for trace in (evolve(burst, arrival_ms=np.full(100, 7)), window(1, output_length=output_length)):
        baseline, candidate = (latencies(np.full(len(trace), value)) for value in (latency, latency / 2))
        traffic = traffic_interval(trace, ROUTER, [candidate], [baseline], **given)
        assert traffic is not None
        assert traffic.interval is None


@pytest.mark.parametrize(("blocks", "judged_at_all"), [(4, False), (7, False), (8, True)])
def test_requests_in_fewer_than_eight_blocks_of_time_prove_nothing_even_at_a_constant_ratio(
    blocks: int, *, judged_at_all: bool
) -> None:
    ttft_ms = np.full(blocks, 10.0)
    assert (judged(ttft_ms, 0.9 * ttft_ms).interval is not None) == judged_at_all


def test_eight_replications_of_a_large_window_are_judged_in_the_room_of_one() -> None:
    trace = window(100_000)
    times = [latencies(np.full(100_000, 10.0))] * 8
    tracemalloc.start()
    try:
        traffic_interval(trace, ROUTER, times, times, objective=Objective.TTFT, sla=None, rules=Rules())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50 * len(trace)
