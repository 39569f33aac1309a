"""The simulator and Dynamo's own replay, on windows where chance has no say, agree request by request."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from replay_cases import Case, cases, disaggregated, disaggregated_cases, records, request, scenario

from dgdr_retune.replay import PolynomialTiming, RouterParameters, Sla
from dgdr_retune.replay._dynamo import _message
from dgdr_retune.replay._dynamo_child import _pools
from dgdr_retune.replay._metrics import summarize
from dgdr_retune.replay._simulation import _loop as loop
from dgdr_retune.replay._simulation import _state as s
from dgdr_retune.replay._simulation import _transfer as transfer
from dgdr_retune.replay._simulation import simulate

pytestmark = pytest.mark.dynamo


SKETCHED = ("itl_ms", "output_token_throughput_per_user")
OF_THE_MACHINE = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}
NO_NUMBERS = {"kv_eviction_policy", "power_w", "power_coverage"}


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("window") / "window.jsonl"


def native(case: Case, window: Path) -> Any:
    core = pytest.importorskip("dynamo._core")
    config = pytest.importorskip("dynamo.llm").KvRouterConfig
    window.write_text(records(case.requests))
    asked = _message(case.scenario, case.router, per_request=True)
    return core.run_mocker_trace_replay(
        [str(window)],
        trace_format="dynamo",
        router_mode="kv_router",
        router_config=config.from_json(json.dumps(asked.router)),
        arrival_speedup_ratio=asked.speedup,
        sla_ttft_ms=asked.ttft_ms,
        sla_itl_ms=asked.itl_ms,
        sla_e2e_ms=asked.e2e_ms,
        capture_per_request=True,
        **_pools(core, asked),
    )


def told_apart(case: Case) -> Case:
    """The runtime's numbers for requests are random: none may look like another at the same time."""
    taken: set[tuple[int, int, int]] = set()
    requests = []
    for one in case.requests:
        output = one.output_tokens
        while (one.received_ms, one.input_length, output) in taken:
            output += 1
        taken.add((one.received_ms, one.input_length, output))
        requests.append(evolve(one, output_tokens=output))
    return evolve(case, requests=tuple(requests))


def in_rows(case: Case, result: Any) -> list[dict[str, Any]]:
    found = {
        (one["arrival_time_ms"], one["input_length"], one["requested_output_length"]): one for one in result.per_request
    }
    first = case.requests[0].received_ms
    speedup = case.scenario.speedup
    return [found[(one.received_ms - first) / speedup, one.input_length, one.output_tokens] for one in case.requests]


def close(ours: float, theirs: float | None) -> bool:
    if theirs is None:
        return math.isnan(ours)
    return abs(ours - theirs) <= max(1e-9 * abs(theirs), 1e-6)


def check_requests(case: Case, outcome: Any, theirs: list[dict[str, Any]]) -> None:
    for row, one in enumerate(theirs):
        refused = one["terminal_status"] != "completed"
        reused = max((admission["reused_input_tokens"] for admission in one["admission_history"]), default=None)
        second = one["ttst_ms"] if one["ttst_ms"] is None else one["first_token_ms"] + one["ttst_ms"]
        where = f"row {row} of {case}"
        assert bool(outcome.refused[row]) == refused, where
        assert close(outcome.first_token_ms[row], one["first_token_ms"]), where
        assert close(outcome.second_token_ms[row], second), where
        assert refused or close(outcome.end_ms[row], one["terminal_time_ms"]), where
        assert outcome.output_length[row] == one["output_length"], where
        assert refused or outcome.reused_most[row] == reused, where


def check_metrics(case: Case, outcome: Any, result: Any) -> None:
    ours = summarize(outcome, case.trace, case.scenario)
    for name, value in result.summary.items():
        if name in OF_THE_MACHINE | NO_NUMBERS:
            continue
        found = ours.get(name)
        if found is None:
            assert value == 0.0, f"{name} of {case}"
        elif name.endswith(SKETCHED) and name.split("_")[0] in ("median", "p75", "p90", "p95", "p99"):
            assert found == pytest.approx(value, rel=2e-3), f"{name} of {case}"
        else:
            assert found == pytest.approx(value, rel=1e-9, abs=1e-6), f"{name} of {case}"
    assert set(ours.values) <= set(result.summary)


def outgrows_its_worker(case: Case) -> bool:
    """The runtime fails as a whole when a request alone fills its worker's cache; ours ends that request."""
    specification = case.scenario.specification
    limit = specification.context_length or math.inf
    capacities = [pool.blocks * pool.block_size for pool in specification.pools]
    return any(
        one.input_length <= min(capacities) and min(one.input_length + one.output_tokens, limit) > capacities[-1] + 1
        for one in case.requests
    )


SLAS = st.sampled_from([None, Sla(ttft_ms=60.0, itl_ms=9.0), Sla(ttft_ms=100.0), Sla(itl_ms=7.0), Sla(e2e_ms=300.0)])


@given(cases(roomy=False), SLAS)
@settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_worker_agrees_on_every_request_and_metric(window: Path, case: Case, sla: Sla | None) -> None:
    case = told_apart(evolve(case, scenario=evolve(case.scenario, sla=sla)))
    assume(not outgrows_its_worker(case))
    result = native(case, window)
    outcome = simulate(case.trace, case.scenario, case.router, 0)
    check_requests(case, outcome, in_rows(case, result))
    check_metrics(case, outcome, result)


@given(cases(workers=4))
@settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_workers_agree_once_ties_are_broken_alike(window: Path, case: Case) -> None:
    """The simulator takes the runtime's choice; at temperature 0 it must be one of the cheapest by its own accounts."""
    case = told_apart(evolve(case, router=evolve(case.router, temperature=0.0)))
    assume(not outgrows_its_worker(case))
    theirs = in_rows(case, native(case, window))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "choose", as_the_runtime(case, theirs))
        outcome = simulate(case.trace, case.scenario, case.router, 0)
    check_requests(case, outcome, theirs)


def as_the_runtime(case: Case, theirs: list[dict[str, Any]]) -> Callable[[Any, int, int, int], int]:
    """A router that takes the runtime's choices, and checks that each is one of the cheapest by our accounts."""

    def choose(state: Any, row: int, first: int, end: int) -> int:
        where = f"row {row} of {case}"
        route = theirs[row]["routing_history"][int(first > 0)]
        chosen: int = first + route["logical_worker_id"]
        if first == 0:
            overlaps = state.workers[s.OVERLAP :: state.shape.worker_size][:end]
            assert overlaps[chosen] == route["selected_overlap_blocks"], where
            assert max(overlaps) == route["best_available_overlap_blocks"], where
        assert state.cost[chosen] == pytest.approx(min(state.cost[first:end]), rel=1e-12), where
        return chosen

    return choose


def native_or_stuck(case: Case, window: Path) -> Any:
    """The runtime's result; None where it fails because thrown-out requests and waiting prompts block each other."""
    try:
        return native(case, window)
    except Exception as error:
        if "effect-free zero-duration pass" not in str(error):
            raise
        return None


def simulate_and_look(case: Case) -> tuple[Any, bool]:
    """The outcome, and whether the simulator had to get such a replay going again."""
    ways_out = []
    advance = loop.advance_pools

    def advance_pools(state: Any, now_ms: float) -> int:
        if now_ms == math.inf:
            ways_out.append(now_ms)
        return advance(state, now_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "advance_pools", advance_pools)
        return simulate(case.trace, case.scenario, case.router, 0), bool(ways_out)


@given(disaggregated_cases(roomy=False, chunks=False), SLAS)
@settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_prefill_and_a_decode_worker_agree_on_every_request_and_metric(
    window: Path, case: Case, sla: Sla | None
) -> None:
    """Where the runtime fails, it is for the one reason that the simulator goes on for."""
    case = told_apart(evolve(case, scenario=evolve(case.scenario, sla=sla)))
    assume(not outgrows_its_worker(case))
    result = native_or_stuck(case, window)
    outcome, stuck = simulate_and_look(case)
    assert (result is None) == stuck, str(case)
    if result is not None:
        check_requests(case, outcome, in_rows(case, result))
        check_metrics(case, outcome, result)


@given(disaggregated_cases(workers=4, chunks=False))
@settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_prefill_and_decode_workers_agree_once_ties_are_broken_alike(window: Path, case: Case) -> None:
    case = told_apart(evolve(case, router=evolve(case.router, temperature=0.0)))
    assume(not outgrows_its_worker(case))
    result = native_or_stuck(case, window)
    assume(result is not None)
    theirs = in_rows(case, result)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "choose", as_the_runtime(case, theirs))
        outcome = simulate(case.trace, case.scenario, case.router, 0)
    check_requests(case, outcome, theirs)
    check_metrics(case, outcome, result)


def named_cases() -> Iterator[tuple[str, Case]]:
    """Behaviour that each took an experiment to find."""
    fixed = scenario()
    polynomial = scenario(timing=PolynomialTiming())
    small = scenario(blocks=9)
    plain = RouterParameters()
    three = tuple(request(at, [10 * at + 1, 10 * at + 2], 200) for at in (0, 1, 2))
    yield (
        "a pass with prompts and decodes takes both times",
        Case((request(0, [1, 2], 50, tokens=100), request(30, [*range(10, 26)], 5, tokens=1000)), polynomial, plain),
    )
    yield (
        "a prompt's last token is always computed",
        Case(tuple(request(100 * k, [1, 2], 2) for k in range(3)), fixed, plain),
    )
    yield "the newest running request is preempted, and goes on by decoding", Case(three, small, plain)
    yield (
        "a request for no output ends with its prompt",
        Case((request(0, [1, 2], 0, tokens=100), request(5, [1, 2], 1, tokens=100)), fixed, plain),
    )
    yield "a prompt larger than the pool is refused", Case((request(0, [*range(10)], 2),), scenario(blocks=5), plain)
    yield "a sequence ends at the context length", Case((request(0, [1, 2], 200),), scenario(context_length=256), plain)
    yield (
        "a prompt of the context length is refused",
        Case((request(0, [1, 2], 200),), scenario(context_length=128), plain),
    )
    yield (
        "prompts are batched by whole mean lengths",
        Case(
            (request(0, [1], 3, tokens=7), request(0, [2, 3], 3, tokens=100), request(0, [4], 3, tokens=9)),
            polynomial,
            plain,
        ),
    )
    yield (
        "half nanoseconds go to the even side",  # many of the passes take a half one
        Case(
            (request(0, [1], 36, tokens=2, block_size=4),),
            scenario(timing=PolynomialTiming(), block_size=4, blocks=10),
            plain,
        ),
    )


def named_transfers() -> Iterator[tuple[str, Case]]:
    """The same of disaggregated deployments."""
    plain = RouterParameters()
    yield (
        "a decode worker's first pass gives the first token",
        Case((request(0, [1, 2], 3, tokens=100), request(2, [1, 2], 2, tokens=100)), disaggregated(), plain),
    )
    yield (
        "a request for no output has its turn on a decode worker",
        Case((request(0, [1], 0, tokens=40), request(0, [2], 3, tokens=50)), disaggregated(), plain),
    )
    yield (
        "a request that arrives when a pass ends comes too late for the next one",
        Case(tuple(request(at, [1000 + at], 2, tokens=40) for at in (0, 5, 10)), disaggregated(), plain),
    )
    yield (
        "a prompt is on its prefill worker until a decode worker has a sequence for it",
        Case(
            tuple(request(at, [100 + at, 200 + at], 20) for at in (0, 1, 15, 30, 45)),
            disaggregated({"blocks": 5}, {"max_sequences": 1}),
            plain,
        ),
    )
    yield (
        "a prompt that no decode worker can hold fails when it is computed",
        Case((request(0, [*range(8)], 2), request(20, [1], 2, tokens=40)), disaggregated({}, {"blocks": 5}), plain),
    )
    yield (
        "a prompt that no prefill worker can hold is refused",
        Case((request(0, [*range(8)], 2), request(0, [1], 2, tokens=40)), disaggregated({"blocks": 5}), plain),
    )
    yield (
        "prompts are reused on the prefill worker, and again by what a decode worker throws out",
        Case(
            tuple(request(at, [7, 8, 10 + at], 150) for at in range(3)),
            disaggregated(None, {"blocks": 9, "timing": PolynomialTiming()}),
            plain,
        ),
    )


NAMED = dict(named_cases()) | dict(named_transfers())


@pytest.mark.parametrize("name", NAMED)
def test_found_behaviour(name: str, window: Path) -> None:
    case = told_apart(NAMED[name])
    theirs = in_rows(case, native(case, window))
    check_requests(case, simulate(case.trace, case.scenario, case.router, 0), theirs)


def test_the_runtime_fails_where_thrown_out_requests_and_waiting_prompts_block_each_other(window: Path) -> None:
    requests = tuple(request(0, [10 * k + depth for depth in range(4)], 100, tokens=220 + k) for k in range(3))
    case = Case(requests, disaggregated({"blocks": 9}, {"blocks": 8}), RouterParameters())
    assert native_or_stuck(case, window) is None
    outcome, stuck = simulate_and_look(case)
    assert stuck
    assert outcome.output_length.tolist() == [100] * 3


def test_the_runtime_fails_where_one_request_fills_its_worker_and_ours_ends_it(window: Path) -> None:
    case = Case((request(0, [1, 2], 200),), scenario(blocks=4), RouterParameters())
    with pytest.raises(Exception, match="zero-duration pass"):
        native(case, window)
    outcome = simulate(case.trace, case.scenario, case.router, 0)
    assert outcome.output_length.tolist() == [4 * 64 + 1 - 128]


def test_the_runtime_gives_a_first_token_while_what_was_thrown_out_is_computed_in_parts_and_ours_waits(
    window: Path,
) -> None:
    requests = tuple(request(0, [10 * k + 1, 10 * k + 2], 100 + 20 * k, tokens=120 + k) for k in range(3))
    decode = {"blocks": 8, "max_sequences": 4}
    case = Case((*requests, request(200, [91], 40, tokens=60)), disaggregated({}, decode), RouterParameters())
    in_parts = evolve(case, scenario=disaggregated({}, {**decode, "max_batched_tokens": 16}))
    theirs = in_rows(case, native(case, window)), in_rows(in_parts, native(in_parts, window))
    last = [(rows[-1]["first_token_ms"], rows[-1]["ttst_ms"], rows[-1]["terminal_time_ms"]) for rows in theirs]
    assert last == [(313.0, 3.0, 556.0), (313.0, 24.0, 556.0)]
    ours = simulate(in_parts.trace, in_parts.scenario, in_parts.router, 0)
    assert (ours.first_token_ms[-1], ours.second_token_ms[-1], ours.end_ms[-1]) == (337.0, 340.0, 556.0)
    check_requests(case, simulate(case.trace, case.scenario, case.router, 0), theirs[0])
