"""Which inputs run here, what they become, and the path of what keeps one from it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from sweeper_cases import document

from dgdr_retune.lowering import lower, merge_patch
from dgdr_retune.replay import PolynomialTiming, RouterParameters, Sla
from dgdr_retune.sweep import Objective
from dgdr_retune.sweeper._candidates import points
from dgdr_retune.sweeper._errors import InputError
from dgdr_retune.sweeper._input import OutputSection, output_section
from dgdr_retune.sweeper._router_grid import RouterGrid, router_grid

GOLDEN = Path(__file__).parents[1] / "data" / "trace_request_lowering.golden.json"


def grid(**changes: Any) -> RouterGrid:
    found = router_grid(document(**changes))
    assert isinstance(found, RouterGrid), found
    return found


def test_every_combination_is_a_point() -> None:
    assert grid().points() == tuple(
        RouterParameters(overlap_score_credit=credit, prefill_load_scale=1, temperature=temperature)
        for credit in (0, 0.5, 1)
        for temperature in (0, 1)
    )


def test_knobs_that_are_not_named_have_the_values_that_aisimulate_samples() -> None:
    changes = {"router": {"overlap_score_credit": None, "prefill_load_scale": None, "temperature": None}}
    assert len(grid(**changes, optimizer={"max_trials": 320}).points()) == 3 * 9 * 4


def test_a_range_has_its_steps() -> None:
    for scale in ({}, {"scale": "linear"}):
        knob = {"choices": None, "range": {"min": 0, "max": 0.35, "step": 0.1, **scale}}
        found = grid(router={"overlap_score_credit": knob, "temperature": 0}).points()
        assert [point.overlap_score_credit for point in found] == [0, 0.1, 0.2, 0.3]


def test_fewer_trials_are_drawn_without_replacement_by_the_seed_alone() -> None:
    draws = {grid(optimizer={"max_trials": 4, "seed": seed}).points() for seed in range(20)}
    assert len(draws) > 1
    assert all(len(set(drawn)) == 4 and set(drawn) <= set(grid().points()) for drawn in draws)
    assert grid(optimizer={"max_trials": 4}).points() == grid(optimizer={"max_trials": 4, "parallelism": 7}).points()


def test_a_domain_of_one_choice_is_a_value() -> None:
    found = grid(router={"policy": {"choices": ["kv_router"]}, "prefill_load_model": {"type": {"choices": ["none"]}}})
    assert found.router.policy == "kv_router"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"traffic": {"source": None, "load": {"type": "concurrency"}}}, "traffic.source"),
        ({"traffic": {"source": {"type": "synthetic"}}}, "traffic.source.type"),
        ({"traffic": {"source": {"format": "mooncake"}}}, "traffic.source.format"),
        ({"traffic": {"source": {"paths": ["/a", "/b"]}}}, "traffic.source.paths"),
        ({"traffic": {"source": {"block_size": 64}}}, "traffic.source.block_size"),
        ({"traffic": {"load": {"type": "concurrency"}}}, "traffic.load.type"),
        ({"traffic": {"load": {"speedup": 0}}}, "traffic.load.speedup"),
        ({"traffic": {"load": {"speedup": True}}}, "traffic.load.speedup"),
        ({"traffic": {"stop": {"max_virtual_time_seconds": 9}}}, "traffic.stop"),
        ({"engine": {"mode": {"choices": ["aggregated", "disaggregated"]}}}, "engine.mode"),
        ({"engine": {"backend": "sglang"}}, "engine.backend"),
        ({"evaluation": {"sla": {"e2e_ms": 1, "ttft_ms": 1}}}, "evaluation.sla"),
        ({"optimization": {"target": "pareto"}}, "optimization.target"),
        ({"optimization": {"target": "min_gpus"}}, "optimization.target"),
        ({"optimization": {"strict_sla": True}}, "optimization.strict_sla"),
        ({"optimizer": {"algorithm": None}}, "optimizer.algorithm"),
        ({"optimizer": {"algorithm": "bayesian"}}, "optimizer.algorithm"),
        ({"router": None}, "router"),
        ({"router": {"policy": None}}, "router.policy"),
        ({"router": {"policy": {"choices": ["kv_router", "round_robin"]}}}, "router.policy"),
        ({"router": {"prefill_load_model": None}}, "router.prefill_load_model"),
        ({"router": {"prefill_load_model": {"type": "ais"}}}, "router.prefill_load_model.type"),
        (
            {"router": {"temperature": {"choices": None, "range": {"min": 0, "max": 1}}}},
            "router.temperature.range.step",
        ),
        (
            {"router": {"temperature": {"choices": None, "range": {"min": 1, "max": 2, "scale": "log"}}}},
            "router.temperature.range.step",
        ),
        ({"router": {"temperature": {"choices": [-1]}}}, "router.temperature.choices[0]"),
        ({"router": {"shared_cache_multiplier": 1}}, "router.shared_cache_multiplier"),
        ({"planner": {"policy": "disabled"}}, "planner"),
        ({"execution": {"resources": {"cpu_limit": 1}}}, "execution"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_any_other_input_is_no_grid_and_the_path_says_why(changes: dict[str, Any], path: str) -> None:
    found = router_grid(document(**changes))
    assert isinstance(found, str)
    assert f"; {path}: " in f"; {found}"


def disaggregated() -> dict[str, Any]:
    worker, other = (document()["engine"]["workers"]["aggregated"] for _ in range(2))
    prefill = merge_patch(worker, {"scheduler": {"max_sequences": 4}})
    prefill["parallelism"]["preset"][0] |= {"replicas": 2, "tensor": 2}
    decode = merge_patch(other, {"kv_cache": {"capacity": {"blocks": 900}}})
    return {"mode": "disaggregated", "workers": {"aggregated": None, "prefill": prefill, "decode": decode}}


def test_pools_of_prefill_and_decode_workers_are_replayed_and_rendered() -> None:
    found = grid(engine=disaggregated())
    specification = found.scenario().specification
    assert specification.aggregated is None
    assert specification.prefill is not None
    assert specification.decode is not None
    assert (specification.prefill.replicas, specification.decode.blocks) == (2, 900)
    first = points(found, OutputSection.model_validate(document()["dgdr_run"]))[0]
    assert first.used_gpus == 8
    shown = {name: first.parameters[name] for name in ("deployment_mode", "prefill_tp", "prefill_max_num_seqs")}
    assert shown == {"deployment_mode": "disagg", "prefill_tp": 2, "prefill_max_num_seqs": 4}
    assert (first.parameters["decode_replicas"], first.parameters["decode_num_gpu_blocks"]) == (4, 900)
    assert "tp" not in first.parameters
    components = yaml.safe_load(first.manifest)["spec"]["components"]
    assert [(each["type"], each["replicas"]) for each in components] == [("frontend", 1), ("prefill", 2), ("decode", 4)]


def test_the_scenario_is_what_the_input_says() -> None:
    found = grid(evaluation={"sla": {"ttft_ms": 200, "itl_ms": 50}}).scenario()
    assert (found.speedup, found.sla) == (2.0, Sla(ttft_ms=200, itl_ms=50))
    assert found.specification.aggregated.timing == PolynomialTiming()
    assert found.specification.aggregated.blocks == 1200
    assert grid(traffic={"load": {"speedup": None}}, evaluation={"sla": {}}).scenario().sla is None


@pytest.mark.parametrize(
    ("worker", "path"),
    [
        ({"timing": None}, "timing"),
        ({"timing": {"type": "default"}}, "timing"),
        ({"kv_cache": {"capacity": None}}, "kv_cache.capacity"),
        ({"kv_cache": {"capacity": {"type": "default", "blocks": None}}}, "kv_cache.capacity"),
        ({"kv_cache": {"block_size": None}}, "kv_cache.block_size"),
        ({"parallelism": {"preset": "default"}}, "parallelism.preset"),
        ({"scheduler": {"max_sequences": {"choices": [1, 2]}}}, "scheduler.max_sequences"),
    ],
)
def test_an_engine_that_is_not_explicit_is_refused_with_the_path(worker: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError, match=rf"^engine\.workers\.aggregated\.{path}"):
        grid(engine={"workers": {"aggregated": worker}}).scenario()


def test_a_goal_within_an_sla_needs_one() -> None:
    with pytest.raises(InputError, match=r"^evaluation\.sla: "):
        grid(optimization={"target": "goodput"}, evaluation={"sla": {}}).scenario()


@pytest.mark.parametrize(
    ("target", "objective"),
    [
        ("throughput", Objective.THROUGHPUT),
        ("throughput_per_gpu", Objective.THROUGHPUT_PER_GPU),
        ("throughput_per_user", Objective.THROUGHPUT_PER_USER),
        ("goodput", Objective.GOODPUT),
        ("goodput_per_gpu", Objective.GOODPUT_PER_GPU),
        ("ttft", Objective.TTFT),
        ("e2e_latency", Objective.E2E_LATENCY),
        (None, Objective.THROUGHPUT),
    ],
)
def test_every_target_with_one_number_is_ranked(target: str | None, objective: Objective) -> None:
    assert grid(optimization={"target": target}).objective is objective


def test_the_golden_planners_request_is_a_grid_and_wants_an_explicit_engine() -> None:
    request = json.loads(GOLDEN.read_text())["request"]
    found = router_grid(lower(request).document)
    assert isinstance(found, RouterGrid), found
    assert len(found.points()) == 6
    with pytest.raises(InputError, match=r"^engine\.workers\.aggregated\.kv_cache\.capacity"):
        found.scenario()


def test_parameters_are_those_that_aisimulate_resolves() -> None:
    changes = {"optimization": {"constraints": {"min_candidate_gpus": 2}}, "engine": {"backend_version": "0.24.0"}}
    (first, *_) = points(grid(**changes), output_section(document()))
    assert first.parameters == {
        "deployment_mode": "agg",
        "backend": "vllm",
        "backend_version": "0.24.0",
        "model_name": "org/m",
        "hardware_sku": "h200_sxm",
        "gpu_budget": 4,
        "min_gpu_budget": 2,
        "tp": 1,
        "pp": 1,
        "attention_dp": 1,
        "moe_tp": 1,
        "moe_ep": 1,
        "strategy": "tp",
        "replicas": 4,
        "used_gpus": 4,
        "agg_max_num_batched_tokens": 8192,
        "agg_max_num_seqs": 64,
        "agg_block_size": 64,
        "agg_enable_prefix_caching": True,
        "agg_num_gpu_blocks": 1200,
        "agg_timing_model": {"type": "polynomial"},
        "adapters": {
            "dynamo.router": {
                "policy": "kv_router",
                "prefill_load_model": {"type": "none"},
                "overlap_score_credit": 0,
                "prefill_load_scale": 1,
                "temperature": 0,
            }
        },
    }


def test_a_points_id_depends_on_its_parameters_alone() -> None:
    output = output_section(document())
    ids = {point.router: point.id for point in points(grid(), output)}
    assert len(set(ids.values())) == 6
    fewer = grid(router={"overlap_score_credit": {"choices": [1, 0.5]}}, optimizer={"parallelism": 1, "seed": 1})
    assert all(ids[point.router] == point.id for point in points(fewer, output))
