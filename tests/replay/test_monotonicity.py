"""What more workers, other arrivals, longer times and larger caches do to latencies and reuse.

Of a single window more workers can make a request wait longer, as in any list scheduling (R. Graham, "Bounds on
multiprocessing timing anomalies", 1969). So the rules here are exact where queueing theory proves them, and else hold
for the mean over windows drawn from one population, within the standard error of that mean.
"""

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from replay_cases import Case, Request, cases, disaggregated_cases, part, request, scenario, worker

from dgdr_retune.replay import (
    EngineSpecification,
    FixedTiming,
    PolynomialTiming,
    RouterParameters,
    Scenario,
    Trace,
    WorkerSpecification,
    load_trace,
    trace_of,
)
from dgdr_retune.replay._simulation import compiled_run, simulate

Floats = NDArray[np.float64]

ROLES = ("aggregated", "prefill", "decode")
SLOT_MS = 10
WINDOWS = 16
NOISE = 5.0
"""Standard errors of a mean over windows; of 16 that are level, one in ten thousand is further off."""


def ttft_ms(trace: Trace, scenario: Scenario, router: RouterParameters, replication: int = 0) -> Floats:
    outcome = simulate(trace, scenario, router, replication, compiled_run())
    return outcome.first_token_ms - outcome.arrival_ms


@st.composite
def _careful_routers(draw: st.DrawFn) -> RouterParameters:
    return RouterParameters(
        overlap_score_credit=draw(st.sampled_from([0.0, 1.0])),
        prefill_load_scale=draw(st.sampled_from([0.0, 0.25, 1.0, 4.0])),
        decode_active_request_weight=draw(st.sampled_from([0.0, 0.7])),
    )


@given(
    arrivals=st.lists(st.integers(0, 12), max_size=12).map(lambda more: [1, *more]),
    blocks=st.integers(1, 3),
    workers=st.integers(1, 5),
    router=_careful_routers(),
)
@settings(deadline=None, max_examples=100)
def test_equal_prompts_wait_as_in_one_queue_for_all_workers_and_with_one_more_none_waits_longer(
    arrivals: list[int], blocks: int, workers: int, router: RouterParameters
) -> None:
    """Services of one slot that begin and end together: the shortest queue is as good as a common one (G/D/n)."""
    requests = []
    for slot, count in enumerate(arrivals):
        for _ in range(count):
            first = 1 + blocks * len(requests)
            requests.append(request(slot * SLOT_MS, list(range(first, first + blocks)), 1))
    trace = trace_of(requests)

    def waits(replicas: int) -> list[float]:
        engine = scenario(replicas=replicas, max_sequences=1, timing=FixedTiming(SLOT_MS, 3))
        return (ttft_ms(trace, engine, router) - SLOT_MS).tolist()

    def common_queue(replicas: int) -> list[float]:
        before = accumulate(arrivals, lambda queued, count: max(0, queued + count - replicas), initial=0)
        return [
            float((queued + place) // replicas * SLOT_MS)
            for queued, count in zip(before, arrivals, strict=False)
            for place in range(count)
        ]

    fewer, more = waits(workers), waits(workers + 1)
    assert fewer == common_queue(workers)
    assert more == common_queue(workers + 1)
    assert all(a <= b for a, b in zip(more, fewer, strict=True))


@given(case=cases(), data=st.data())
@settings(deadline=None, max_examples=100)
def test_one_at_a_time_on_one_worker_nobody_waits_longer_when_arrivals_are_further_apart(
    case: Case, data: st.DataObject
) -> None:
    """A queue in order of arrival whose services do not depend on it (D. Lindley, 1952)."""
    pool = evolve(
        case.scenario.specification.pools[0], max_sequences=1, max_batched_tokens=8192, timing=FixedTiming(7, 2)
    )
    engine = Scenario(EngineSpecification("vllm", "aggregated", pool))
    further = list(
        accumulate(data.draw(st.lists(st.integers(0, 50), min_size=len(case.requests), max_size=len(case.requests))))
    )
    apart = [
        evolve(one, received_ms=one.received_ms + later) for one, later in zip(case.requests, further, strict=True)
    ]
    early, late = (ttft_ms(trace_of(each), engine, case.router) for each in (case.requests, apart))
    tokens = case.trace.output_length > 0
    assert (late <= early + 1e-6)[tokens].all()


@given(case=cases(workers=3, roomy=False) | disaggregated_cases(workers=3, roomy=False))
@settings(deadline=None, max_examples=100)
def test_when_all_takes_twice_as_long_every_latency_is_exactly_twice_as_long(case: Case) -> None:
    """No time stands in the simulator but those that it is given."""

    def times(factor: int) -> list[Floats]:
        start = case.requests[0].received_ms
        slower = [evolve(one, received_ms=start + factor * (one.received_ms - start)) for one in case.requests]
        engine = evolve(case.scenario, specification=_fixed(case.scenario.specification, factor))
        outcome = simulate(trace_of(slower), engine, case.router, 1)
        return [outcome.first_token_ms, outcome.second_token_ms, outcome.end_ms, outcome.gap_ms]

    for once, twice in zip(times(1), times(2), strict=True):
        assert np.array_equal(2 * once, twice, equal_nan=True)


def _fixed(specification: EngineSpecification, factor: int) -> EngineSpecification:
    timing = FixedTiming(prefill_ms=7 * factor, decode_ms=3 * factor)
    pools = {role: getattr(specification, role) for role in ROLES}
    return evolve(specification, **{role: pool and evolve(pool, timing=timing) for role, pool in pools.items()})


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_one_request_at_a_time_finds_no_less_in_a_larger_cache(seed: int) -> None:
    """Least recently used eviction is a stack algorithm (R. Mattson et al., 1970), and a worker's cache is one.

    It evicts a prompt's end before its beginning, so what is left of it can be found.
    """
    draw = np.random.default_rng(seed)
    requests = []
    for row in range(60):
        path = draw.integers(1, 4, draw.integers(1, 5)).tolist()
        hashes = list(accumulate(path, lambda key, branch: 4 * key + branch))  # prompts are paths in a tree
        requests.append(request(1000 * row, hashes, 1))
    calm = trace_of(requests)
    reused = [
        simulate(calm, scenario(blocks=blocks), RouterParameters(), 0, compiled_run()).reused_most
        for blocks in range(5, 15)
    ]
    assert (np.diff(reused, axis=0) >= 0).all()


def drawn_window(draw: np.random.Generator, gap_ms: float) -> Trace:
    """Forty prompts that have nothing in common, with exponential gaps."""
    requests: list[Request] = []
    at_ms, block = 0.0, 0
    for _ in range(40):
        blocks = int(draw.integers(1, 9))
        requests.append(request(round(at_ms), list(range(block, block + blocks)), int(draw.integers(1, 25))))
        at_ms += draw.exponential(gap_ms)
        block += blocks
    return trace_of(requests)


@st.composite
def _pools(draw: st.DrawFn) -> WorkerSpecification:
    sequences = draw(st.sampled_from([1, 2, 8, 64]))
    timing = draw(st.sampled_from([FixedTiming(10, 3), PolynomialTiming()]))
    return worker(
        replicas=draw(st.integers(1, 4)),
        blocks=draw(st.sampled_from([20, 1200])),
        max_sequences=sequences,
        max_batched_tokens=draw(st.sampled_from([64, 512, 8192])),
        timing=timing,
    )


@st.composite
def _deployments(draw: st.DrawFn) -> EngineSpecification:
    if draw(st.booleans()):
        return EngineSpecification("vllm", "aggregated", draw(_pools()))
    return EngineSpecification("vllm", "disaggregated", None, prefill=draw(_pools()), decode=draw(_pools()))


def with_workers(deployment: EngineSpecification, replicas: Callable[[int], int]) -> EngineSpecification:
    """The same deployment with another number of workers in each pool."""
    pools = {role: getattr(deployment, role) for role in ROLES}
    return evolve(
        deployment, **{role: pool and evolve(pool, replicas=replicas(pool.replicas)) for role, pool in pools.items()}
    )


def mean_latencies(traces: list[Trace], deployment: EngineSpecification, router: RouterParameters) -> Floats:
    """float64[windows, 2]: the means of TTFT and end-to-end latency, each window in a replication of its own."""
    means = []
    for replication, trace in enumerate(traces):
        outcome = simulate(trace, Scenario(deployment), router, replication, compiled_run())
        means.append([(times - outcome.arrival_ms).mean() for times in (outcome.first_token_ms, outcome.end_ms)])
    return np.array(means)


def in_standard_errors(gains: Floats) -> Floats:
    """The mean over windows in units of its standard error; 0 where all are 0."""
    error = gains.std(axis=0, ddof=1) / np.sqrt(len(gains))
    return np.divide(gains.mean(axis=0), error, out=np.zeros(gains.shape[1]), where=error > 0)


@given(
    seed=st.integers(0, 2**32),
    gap_ms=st.sampled_from([1.0, 5.0, 20.0, 60.0]),
    deployment=_deployments(),
    twice=st.booleans(),
    router=_careful_routers(),
    temperature=st.sampled_from([0.0, 0.3]),
)
@settings(deadline=None, max_examples=25)
def test_more_workers_never_mean_more_wait_in_expectation(
    *,
    seed: int,
    gap_ms: float,
    deployment: EngineSpecification,
    twice: bool,
    router: RouterParameters,
    temperature: float,
) -> None:
    router = evolve(router, temperature=temperature)
    draw = np.random.default_rng(seed)
    traces = [drawn_window(draw, gap_ms) for _ in range(WINDOWS)]
    larger = with_workers(deployment, lambda replicas: 2 * replicas if twice else replicas + 1)
    gains = mean_latencies(traces, deployment, router) - mean_latencies(traces, larger, router)
    assert (in_standard_errors(gains) >= -NOISE).all()


@pytest.mark.parametrize("credit", [0.0, 1.0])
def test_of_recorded_traffic_in_excess_twice_the_workers_serve_each_part_sooner(
    recorded_window: Path, credit: float
) -> None:
    """Chats share prompts here; what more workers compute again is less than what they save."""
    trace = load_trace(recorded_window)
    traces = [part(trace, first, first + 100) for first in range(0, 100 * WINDOWS, 100)]
    deployment = EngineSpecification("vllm", "aggregated", worker(timing=PolynomialTiming()))
    router = RouterParameters(overlap_score_credit=credit)
    fewer = mean_latencies(traces, deployment, router)
    for workers in (2, 4, 8):
        more = mean_latencies(
            traces, evolve(deployment, aggregated=worker(replicas=workers, timing=PolynomialTiming())), router
        )
        assert (in_standard_errors(fewer - more) > NOISE).all()
        fewer = more


def test_a_router_that_knows_no_caches_makes_idle_workers_compute_a_prompt_more_often() -> None:
    """Why the rule above is for prompts that have nothing in common."""
    calm = trace_of([request(1000 * row, list(range(20)), 2) for row in range(10)])
    blind = RouterParameters(overlap_score_credit=0.0)
    one, four = (
        ttft_ms(calm, scenario(replicas=replicas, timing=PolynomialTiming()), blind).mean() for replicas in (1, 4)
    )
    assert one < four
