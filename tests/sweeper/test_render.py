"""Deployments as they are written, each mode against its golden file, and what cannot be written."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dgdr_retune.api import canonical_json, validate
from dgdr_retune.sweeper._errors import RenderError
from dgdr_retune.sweeper._input import OutputSection
from dgdr_retune.sweeper._render import render

GOLDEN = Path(__file__).parent / "golden"
ID = "evaluated-point-0123456789ab"
OUTPUT = OutputSection(
    name="shop-run-1", namespace="inference", runtime_image="registry.example/vllm-runtime:1.6.1", num_gpus_per_node=8
)
ROUTER = {
    "policy": "kv_router",
    "prefill_load_model": {"type": "none"},
    "overlap_score_credit": 0.5,
    "prefill_load_scale": 4,
    "temperature": 0,
}
SHARED = {
    "backend": "vllm",
    "model_name": "org/m",
    "context_length": 8192,
    "adapters": {"dynamo.router": ROUTER},
}
AGGREGATED = {
    **SHARED,
    "deployment_mode": "agg",
    "tp": 2,
    "pp": 1,
    "attention_dp": 1,
    "moe_tp": 1,
    "moe_ep": 1,
    "strategy": "tp",
    "replicas": 3,
    "used_gpus": 6,
    "agg_block_size": 64,
    "agg_max_num_seqs": 256,
    "agg_max_num_batched_tokens": 8192,
    "agg_enable_prefix_caching": True,
}
DISAGGREGATED = {
    **SHARED,
    "deployment_mode": "disagg",
    "prefill_tp": 2,
    "prefill_pp": 1,
    "prefill_attention_dp": 1,
    "prefill_moe_tp": 1,
    "prefill_moe_ep": 1,
    "prefill_strategy": "tp",
    "prefill_replicas": 2,
    "prefill_block_size": 64,
    "prefill_max_num_seqs": 4,
    "prefill_max_num_batched_tokens": 16384,
    "prefill_enable_prefix_caching": True,
    "decode_tp": 4,
    "decode_pp": 1,
    "decode_attention_dp": 1,
    "decode_moe_tp": 1,
    "decode_moe_ep": 4,
    "decode_strategy": "tep",
    "decode_replicas": 1,
    "decode_block_size": 64,
    "decode_max_num_seqs": 512,
    "decode_max_num_batched_tokens": 8192,
    "decode_enable_prefix_caching": False,
    "used_gpus": 8,
}


def rendered(parameters: dict[str, Any], output: OutputSection = OUTPUT) -> Any:
    return yaml.safe_load(render(parameters, output, candidate=ID))


def worker(deployment: Any, position: int = 1) -> Any:
    return deployment["spec"]["components"][position]


def arguments(deployment: Any, position: int = 1) -> list[str]:
    found: list[str] = worker(deployment, position)["podTemplate"]["spec"]["containers"][0]["args"]
    return found


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("aggregated", AGGREGATED), ("disaggregated", DISAGGREGATED)],
    ids=lambda part: str(part)[:13],
)
def test_each_mode_is_rendered_as_its_golden_file(name: str, parameters: dict[str, Any]) -> None:
    path = GOLDEN / f"{name}.yaml"
    text = render(parameters, OUTPUT, candidate=ID)
    if text != path.read_text():
        new = path.with_name(f"{path.name}.new")
        new.write_text(text)
        pytest.fail(f"the deployment is another one; if that is meant, accept it with: mv {new} {path}")


@pytest.mark.parametrize("parameters", [AGGREGATED, DISAGGREGATED], ids=["agg", "disagg"])
def test_a_parameter_that_is_missing_is_named(parameters: dict[str, Any]) -> None:
    optional = {
        "context_length",
        "moe_tp",
        "moe_ep",
        "prefill_moe_tp",
        "prefill_moe_ep",
        "decode_moe_tp",
        "decode_moe_ep",
    }
    for name in parameters.keys() - optional:
        with pytest.raises(RenderError, match=rf"^{name}: "):
            render({key: value for key, value in parameters.items() if key != name}, OUTPUT, candidate=ID)


@pytest.mark.parametrize("backend", ["sglang", "trtllm"])
def test_another_backend_is_refused_with_the_reason(backend: str) -> None:
    with pytest.raises(RenderError, match=f"^backend: the template is for vllm, not for '{backend}'"):
        rendered(AGGREGATED | {"backend": backend})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"deployment_mode": "afd"}, "^deployment_mode: "),
        ({"strategy": "dtp"}, "strategy 'dtp'"),
        ({"used_gpus": 8}, "^used_gpus: it is 8, but replicas and layouts take 6"),
        ({"tp": 12, "used_gpus": 36}, "does not fill whole nodes of 8"),
        ({"adapters": {"dynamo.router": ROUTER | {"policy": "random"}}}, "^adapters.dynamo.router.policy: "),
        ({"adapters": {"dynamo.router": ROUTER | {"prefill_load_model": {"type": "ais"}}}}, "only type none"),
    ],
)
def test_what_the_template_cannot_say_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RenderError, match=message):
        rendered(AGGREGATED | change)


def test_a_worker_that_is_larger_than_a_node_takes_whole_nodes() -> None:
    component = worker(rendered(AGGREGATED | {"tp": 8, "pp": 2, "used_gpus": 48}))
    assert component["multinode"] == {"nodeCount": 2}
    main = component["podTemplate"]["spec"]["containers"][0]
    assert main["resources"] == {"limits": {"nvidia.com/gpu": "8"}}
    assert main["args"][2:6] == ["--tensor-parallel-size", "8", "--pipeline-parallel-size", "2"]


def test_attention_that_is_data_parallel_is_said_to_vllm() -> None:
    layout = {"tp": 1, "attention_dp": 4, "moe_ep": 4, "strategy": "dep", "used_gpus": 12}
    found = arguments(rendered(AGGREGATED | layout))
    assert found[4:7] == ["--data-parallel-size", "4", "--enable-expert-parallel"]


def test_without_a_context_length_vllm_takes_the_models() -> None:
    for length in ("max", None):
        assert "--max-model-len" not in arguments(rendered(AGGREGATED | {"context_length": length}))


def test_round_robin_has_no_knobs() -> None:
    for key in ("policy", "mode"):
        deployment = rendered(AGGREGATED | {"adapters": {"dynamo.router": {key: "round_robin"}}})
        main = worker(deployment, 0)["podTemplate"]["spec"]["containers"][0]
        assert main["env"] == [{"name": "DYN_ROUTER_MODE", "value": "round-robin"}]


def test_an_image_without_a_version_is_accepted_with_one_beside_it() -> None:
    output = OutputSection(
        name="shop",
        runtime_image="registry.example:5000/mine:latest",
        runtime_version_override="1.6.1",
        num_gpus_per_node=8,
    )
    deployment = rendered(AGGREGATED, output)
    assert [each["runtimeVersionOverride"] for each in deployment["spec"]["components"]] == ["1.6.1", "1.6.1"]
    assert deployment["metadata"] == {"name": "shop-0123456789ab"}


@pytest.mark.parametrize("parameters", [AGGREGATED, DISAGGREGATED], ids=["agg", "disagg"])
def test_the_deployments_specification_is_a_candidates(parameters: dict[str, Any]) -> None:
    candidate = {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentCandidate",
        "metadata": {"name": "shop-run-1", "namespace": "inference"},
        "spec": rendered(parameters)["spec"] | {"parameters": parameters},
    }
    verdict = validate(candidate)
    assert (verdict.errors, verdict.warnings) == ((), ())


def test_a_long_name_is_cut_before_the_candidates_hash() -> None:
    output = OUTPUT.model_copy(update={"name": "a" * 49 + "-" + "b" * 13})
    name = rendered(AGGREGATED, output)["metadata"]["name"]
    assert name == "a" * 49 + "-0123456789ab"


def test_the_text_depends_on_the_parameters_values_alone() -> None:
    shuffled = dict(reversed(AGGREGATED.items()))
    assert canonical_json(shuffled) == canonical_json(AGGREGATED)
    assert render(shuffled, OUTPUT, candidate=ID) == render(AGGREGATED, OUTPUT, candidate=ID)
