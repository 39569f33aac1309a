"""What the built-in engine's replays must show, whatever the numbers."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from replay_cases import Case, cases, disaggregated, request, scenario

from dgdr_retune.replay import (
    BuiltInEngine,
    CalibratedTiming,
    EngineSectionError,
    FixedTiming,
    RouterParameters,
    TraceError,
    trace_of,
)
from dgdr_retune.replay._simulation import simulate

# Arrivals so far apart that every worker is idle and in the same state but for its cache.
CALM = tuple(request(1000 * row, [row + 1], 2) for row in range(400))


def test_a_window_of_another_block_size_is_refused_with_what_to_set() -> None:
    trace = trace_of((request(0, [1], 1, block_size=32),))
    for call in (BuiltInEngine().replay, BuiltInEngine().request_times):
        with pytest.raises(TraceError, match=r"set kv_cache\.block_size to 32"):
            call(trace, scenario(), RouterParameters(), 0)


@pytest.mark.parametrize(
    ("pools", "path"),
    [
        (({"timing": CalibratedTiming(5, 0, 2, 0, 7)}, {}), "engine.workers.prefill.timing"),
        (({}, {"timing": CalibratedTiming(5, 0, 2, 0, 7)}), "engine.workers.decode.timing"),
        (({}, {"block_size": 16}), "engine.workers.decode.kv_cache.block_size"),
    ],
)
def test_pools_that_do_not_go_together_are_refused_as_in_a_configuration(pools: tuple[dict, dict], path: str) -> None:
    trace = trace_of((request(0, [1], 1),))
    for call in (BuiltInEngine().replay, BuiltInEngine().request_times):
        with pytest.raises(EngineSectionError) as refused:
            call(trace, disaggregated(*pools), RouterParameters(), 0)
        assert refused.value.path == path


@given(cases())
@settings(deadline=None, max_examples=60)
def test_with_one_worker_no_parameter_of_the_router_matters(case: Case) -> None:
    plain = simulate(case.trace, case.scenario, RouterParameters(), 0)
    other = simulate(case.trace, case.scenario, case.router, 5)
    assert np.array_equal(plain.end_ms, other.end_ms)
    assert np.array_equal(plain.reused_most, other.reused_most)


def test_ties_at_temperature_0_are_broken_evenly_and_otherwise_in_each_replication() -> None:
    trace = trace_of(CALM)
    outcomes = [simulate(trace, scenario(replicas=4), RouterParameters(), replication) for replication in range(2)]
    counts = Counter(outcomes[0].worker.tolist())
    assert set(counts) == {0, 1, 2, 3}
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 16.3  # chi-squared, p = 0.001
    assert not np.array_equal(outcomes[0].worker, outcomes[1].worker)


def test_candidates_meet_the_same_random_numbers_for_the_same_request() -> None:
    """Where two candidates see a tie for a request, they choose alike, whatever they chose before."""
    trace = trace_of(CALM)
    choices = [
        simulate(trace, scenario(replicas=4), RouterParameters(prefill_load_scale=scale), 0).worker.tolist()
        for scale in (0.25, 1.0, 16.0)
    ]
    assert choices[0] == choices[1] == choices[2]


def test_the_choice_at_a_temperature_follows_the_softmax_of_the_costs() -> None:
    """Two idle workers, one of which has half of the prompt cached: costs 2 and 1, odds 1 to e at temperature 1."""
    requests = []
    for row in range(600):
        requests += [request(2000 * row, [row + 1], 1), request(2000 * row + 1000, [row + 1, row + 10_000], 1)]
    router = RouterParameters(temperature=1.0)
    outcome = simulate(trace_of(tuple(requests)), scenario(replicas=2, blocks=10_000), router, 0)
    returned = np.count_nonzero(outcome.worker[::2] == outcome.worker[1::2])
    share = np.e / (np.e + 1)
    assert abs(returned - 600 * share) < 4 * np.sqrt(600 * share * (1 - share))


def test_overlap_credit_sends_a_chat_back_to_its_cache_and_load_sends_it_away() -> None:
    chat = [request(1000 * turn, list(range(turn + 4)), 2) for turn in range(20)]
    faithful = simulate(trace_of(tuple(chat)), scenario(replicas=4), RouterParameters(), 0)
    assert len(set(faithful.worker.tolist())) == 1
    assert faithful.reused_most.tolist() == [0, *((turn + 3) * 64 for turn in range(1, 20))]
    burst = [request(0, [1, 2, 3, 4], 100), *(request(200 + k, [1, 2, 3, 4], 100) for k in range(8))]
    spread = simulate(trace_of(tuple(burst)), scenario(replicas=3), RouterParameters(overlap_score_credit=0.0), 0)
    assert set(spread.worker.tolist()) == {0, 1, 2}


def test_the_router_learns_of_cached_blocks_when_the_pass_ends() -> None:
    """A request that arrives within the pass that computes its prefix cannot be sent after it."""
    requests = (request(0, [1, 2], 1), request(5, [1, 2], 1), request(100, [1, 2], 1))
    router = RouterParameters(prefill_load_scale=1.0)
    outcome = simulate(trace_of(requests), scenario(replicas=2), router, 0)
    assert outcome.worker[0] != outcome.worker[1]
    assert outcome.reused_most.tolist() == [0, 0, 64]


def test_blocks_released_longest_ago_are_evicted_first_and_a_prefix_after_what_follows_it() -> None:
    first, second = [1, 2, 3], [4, 5, 6]
    fill = request(200, [7, 8], 1)
    again = (request(300, first, 1), request(400, second, 1))
    requests = (request(0, first, 1), request(100, second, 1), fill, *again)
    outcome = simulate(trace_of(requests), scenario(blocks=6), RouterParameters(), 0)
    # The fill takes blocks 3 and 2 of the first; its return takes the second's blocks from the end.
    assert outcome.reused_most.tolist() == [0, 0, 0, 64, 64]


def test_without_prefix_caching_nothing_is_reused_or_known_to_the_router() -> None:
    requests = tuple(request(1000 * row, [1, 2, 3], 2) for row in range(30))
    outcome = simulate(trace_of(requests), scenario(replicas=2, prefix_caching=False), RouterParameters(), 0)
    assert outcome.reused_most.max() == 0
    assert set(outcome.worker.tolist()) == {0, 1}


def test_a_long_prompt_is_computed_in_chunks_of_the_token_budget() -> None:
    requests = (request(0, [*range(10)], 2),)
    specification = scenario(max_batched_tokens=128, timing=FixedTiming(prefill_ms=7.0, decode_ms=3.0))
    outcome = simulate(trace_of(requests), specification, RouterParameters(), 0)
    assert outcome.first_token_ms.tolist() == [5 * 7.0]
    assert outcome.end_ms.tolist() == [5 * 7.0 + 3.0]


def test_arrivals_are_closer_together_by_the_speedup() -> None:
    requests = (request(1_000, [1], 1), request(4_000, [2], 1))
    outcome = simulate(trace_of(requests), scenario(speedup=3.0), RouterParameters(), 0)
    assert outcome.arrival_ms.tolist() == [0.0, 1000.0]
    assert outcome.end_ms.tolist() == [10.0, 1010.0]


def test_more_workers_never_mean_more_wait_on_average() -> None:
    draw = np.random.default_rng(3)
    requests = []
    for at_ms in np.cumsum(draw.integers(0, 8, 300)).tolist():
        prompt = [int(draw.integers(1, 20)), *(int(block) for block in draw.integers(100, 10**9, 3))]
        requests.append(request(at_ms, prompt, int(draw.integers(1, 40))))
    trace = trace_of(tuple(requests))
    waits = []
    for workers in (1, 2, 4, 8):
        outcomes = [
            simulate(trace, scenario(replicas=workers, blocks=200), RouterParameters(temperature=0.5), replication)
            for replication in range(8)
        ]
        waits.append(np.mean([outcome.first_token_ms - outcome.arrival_ms for outcome in outcomes]))
    assert all(fewer >= more for fewer, more in pairwise(waits))


def test_more_than_62_workers_are_told_apart_like_fewer() -> None:
    """Masks of workers take more than one word then."""
    many = scenario(replicas=130)
    warm = tuple(request(0, [row + 1], 1) for row in range(130))
    back = tuple(request(1000 * (row + 1), [row + 1, 1000 + row], 1) for row in range(130))
    outcome = simulate(trace_of((*warm, *back)), many, RouterParameters(), 0)
    assert sorted(outcome.worker[:130].tolist()) == list(range(130))
    assert outcome.worker[130:].tolist() == outcome.worker[:130].tolist()
    assert outcome.reused_most[130:].tolist() == [64] * 130


def test_a_request_that_alone_fills_its_worker_ends_and_the_others_go_on() -> None:
    requests = (request(0, [1, 2], 500), request(10_000, [3], 5))
    outcome = simulate(trace_of(requests), scenario(blocks=4), RouterParameters(), 0)
    assert outcome.output_length.tolist() == [4 * 64 + 1 - 128, 5]
    assert not outcome.refused.any()


def test_request_times_are_those_of_the_replay_that_the_metrics_sum_up() -> None:
    trace = trace_of(CALM[:50])
    shared = scenario(replicas=3)
    router = RouterParameters(temperature=0.7)
    times = BuiltInEngine().request_times(trace, shared, router, 4)
    metrics = BuiltInEngine().replay(trace, evolve(shared), router, 4)
    assert metrics["mean_ttft_ms"] == pytest.approx(times.ttft_ms.mean())
    assert metrics["mean_e2e_latency_ms"] == pytest.approx(times.e2e_ms.mean())
    assert metrics["mean_tpot_ms"] == pytest.approx(times.itl_ms.mean())
