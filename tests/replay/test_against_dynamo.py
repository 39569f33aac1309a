"""The simulator and Dynamo's own replay, on windows where chance has no say, agree request by request."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from replay_cases import Case, cases, records, request, scenario

from dgdr_retune.replay import PolynomialTiming, RouterParameters, Sla
from dgdr_retune.replay._dynamo import _engine_arguments
from dgdr_retune.replay._metrics import summarize
from dgdr_retune.replay._simulation import _loop as loop
from dgdr_retune.replay._simulation import _state as s
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
    router = {
        "overlap_score_credit": case.router.overlap_score_credit,
        "overlap_score_credit_decay": case.router.overlap_score_credit_decay,
        "prefill_load_scale": case.router.prefill_load_scale,
        "decode_active_request_weight": case.router.decode_active_request_weight,
        "router_temperature": case.router.temperature,
    }
    sla = case.scenario.sla or Sla()
    return core.run_mocker_trace_replay(
        [str(window)],
        trace_format="dynamo",
        num_workers=case.scenario.specification.aggregated.replicas,
        router_mode="kv_router",
        router_config=config.from_json(json.dumps(router)),
        extra_engine_args=core._normalize_mocker_config(_engine_arguments(case.scenario)),
        arrival_speedup_ratio=case.scenario.speedup,
        sla_ttft_ms=sla.ttft_ms,
        sla_itl_ms=sla.itl_ms,
        sla_e2e_ms=sla.e2e_ms,
        capture_per_request=True,
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
        refused = one["terminal_status"] == "rejected"
        second = one["ttst_ms"] if one["ttst_ms"] is None else one["first_token_ms"] + one["ttst_ms"]
        where = f"row {row} of {case}"
        assert bool(outcome.refused[row]) == refused, where
        assert close(outcome.first_token_ms[row], one["first_token_ms"]), where
        assert close(outcome.second_token_ms[row], second), where
        assert refused or close(outcome.end_ms[row], one["terminal_time_ms"]), where
        assert outcome.output_length[row] == one["output_length"], where
        assert refused or outcome.reused_most[row] == one["reused_input_tokens"], where


def outgrows_its_worker(case: Case) -> bool:
    """The runtime fails as a whole when a request alone fills its worker's cache; ours ends that request."""
    worker = case.scenario.specification.aggregated
    limit = case.scenario.specification.context_length or math.inf
    capacity = worker.blocks * worker.block_size
    return any(
        one.input_length <= capacity and min(one.input_length + one.output_tokens, limit) > capacity + 1
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


@given(cases(workers=4))
@settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_workers_agree_once_ties_are_broken_alike(window: Path, case: Case) -> None:
    """The simulator takes the runtime's choice; at temperature 0 it must be one of the cheapest by its own accounts."""
    case = told_apart(evolve(case, router=evolve(case.router, temperature=0.0)))
    assume(not outgrows_its_worker(case))
    theirs = in_rows(case, native(case, window))

    def choose(state: Any, row: int) -> int:
        chosen: int = theirs[row]["decode_worker_idx"]
        route = theirs[row]["routing_history"][0]
        overlaps = state.workers[s.OVERLAP :: state.shape.worker_size]
        assert overlaps[chosen] == route["selected_overlap_blocks"], f"row {row} of {case}"
        assert max(overlaps) == route["best_available_overlap_blocks"], f"row {row} of {case}"
        assert state.cost[chosen] == pytest.approx(min(state.cost), rel=1e-12), f"row {row} of {case}"
        return chosen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "choose", choose)
        outcome = simulate(case.trace, case.scenario, case.router, 0)
    check_requests(case, outcome, theirs)


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


NAMED = dict(named_cases())


@pytest.mark.parametrize("name", NAMED)
def test_found_behaviour(name: str, window: Path) -> None:
    case = told_apart(NAMED[name])
    theirs = in_rows(case, native(case, window))
    check_requests(case, simulate(case.trace, case.scenario, case.router, 0), theirs)


def test_the_runtime_fails_where_one_request_fills_its_worker_and_ours_ends_it(window: Path) -> None:
    case = Case((request(0, [1, 2], 200),), scenario(blocks=4), RouterParameters())
    with pytest.raises(Exception, match="zero-duration pass"):
        native(case, window)
    outcome = simulate(case.trace, case.scenario, case.router, 0)
    assert outcome.output_length.tolist() == [4 * 64 + 1 - 128]
