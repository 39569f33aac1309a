from copy import deepcopy
from typing import Any

import pytest
from attrs import evolve
from pydantic import ValidationError

from dgdr_retune.replay import (
    EngineSection,
    EngineSectionError,
    EngineSpecification,
    FixedTiming,
    PolynomialTiming,
    ReplayError,
    WorkerSpecification,
)

EXPLICIT: dict[str, Any] = {
    "backend": "vllm",
    "mode": "aggregated",
    "workers": {
        "aggregated": {
            "parallelism": {
                "preset": [
                    {"replicas": 4, "tensor": 2, "pipeline": 3, "attention_data": 1, "moe_tensor": 1, "moe_expert": 1}
                ]
            },
            "scheduler": {"max_batched_tokens": 8192, "max_sequences": 64},
            "kv_cache": {"block_size": 64, "prefix_caching": True, "capacity": {"type": "fixed", "blocks": 1200}},
            "timing": {"type": "polynomial"},
        }
    },
}


CALIBRATED = {
    "type": "calibrated",
    "prefill_ms": 4.0,
    "prefill_ms_per_token": 0.01,
    "decode_ms": 2.0,
    "decode_ms_per_token": 0.001,
    "overhead_ms": 1.0,
}
DISAGGREGATED: dict[str, Any] = {
    "backend": "vllm",
    "mode": "disaggregated",
    "workers": {role: deepcopy(EXPLICIT["workers"]["aggregated"]) for role in ("prefill", "decode")},
}
DISAGGREGATED["workers"]["decode"] |= {
    "scheduler": {"max_batched_tokens": 512, "max_sequences": 256},
    "timing": {"type": "fixed", "prefill_ms": 30.0, "decode_ms": 7.5},
}


def section(path: str = "", value: Any = None, *, drop: bool = False, whole: Any = EXPLICIT) -> dict[str, Any]:
    data: dict[str, Any] = deepcopy(whole)
    if path:
        *parents, key = path.split(".")
        target: Any = data
        for parent in parents:
            target = target[int(parent)] if parent.isdigit() else target[parent]
        if drop:
            del target[key]
        else:
            target[key] = value
    return data


def test_an_explicit_section_becomes_the_engine_it_describes() -> None:
    assert EngineSection.model_validate(EXPLICIT).specification() == EngineSpecification(
        backend="vllm",
        mode="aggregated",
        aggregated=WorkerSpecification(
            replicas=4,
            gpus_per_worker=6,
            max_batched_tokens=8192,
            max_sequences=64,
            block_size=64,
            blocks=1200,
            prefix_caching=True,
            timing=PolynomialTiming(),
        ),
    )


def test_a_disaggregated_section_has_a_pool_of_each_kind() -> None:
    specification = EngineSection.model_validate(DISAGGREGATED).specification()
    prefill = WorkerSpecification(
        replicas=4,
        gpus_per_worker=6,
        max_batched_tokens=8192,
        max_sequences=64,
        block_size=64,
        blocks=1200,
        prefix_caching=True,
        timing=PolynomialTiming(),
    )
    decode = evolve(prefill, max_batched_tokens=512, max_sequences=256, timing=FixedTiming(30.0, 7.5))
    assert specification == EngineSpecification("vllm", "disaggregated", None, prefill=prefill, decode=decode)
    assert specification.pools == (prefill, decode)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("workers.prefill.timing", {"type": "default"}, "prefill.timing"),
        ("workers.decode.kv_cache.capacity", {"type": "default"}, "decode.kv_cache.capacity"),
        ("workers.decode.kv_cache.block_size", 16, "decode.kv_cache.block_size"),
        ("workers.decode.parallelism.preset.0.attention_data", 2, "decode.parallelism.preset[0].attention_data"),
        ("workers.prefill.timing", CALIBRATED, "prefill.timing"),
        ("workers.decode.timing", CALIBRATED, "decode.timing"),
    ],
)
def test_what_a_disaggregated_replay_does_not_have_is_refused_with_its_path(path: str, value: Any, named: str) -> None:
    parsed = EngineSection.model_validate(section(path, value, whole=DISAGGREGATED))
    with pytest.raises(EngineSectionError) as refused:
        parsed.specification("deployment.engine")
    assert refused.value.path == f"deployment.engine.workers.{named}"


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_disaggregated_section_needs_both_pools(role: str) -> None:
    with pytest.raises(ValidationError, match=f"workers.{role}. is needed with mode .disaggregated"):
        EngineSection.model_validate(section(f"workers.{role}", drop=True, whole=DISAGGREGATED))


@pytest.mark.parametrize("whole", [EXPLICIT, DISAGGREGATED])
def test_a_section_has_no_pools_of_the_other_mode(whole: dict[str, Any]) -> None:
    data = section(whole=whole)
    data["workers"] = EXPLICIT["workers"] | DISAGGREGATED["workers"]
    with pytest.raises(ValidationError, match="does not belong to mode"):
        EngineSection.model_validate(data)


def test_fixed_timing_carries_its_durations() -> None:
    data = section("workers.aggregated.timing", {"type": "fixed", "prefill_ms": 30, "decode_ms": 7.5})
    assert EngineSection.model_validate(data).specification().pools[0].timing == FixedTiming(30.0, 7.5)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("workers.aggregated.timing", {"type": "default"}, "timing"),
        ("workers.aggregated.timing", {}, "timing"),
        ("workers.aggregated.kv_cache.capacity", {"type": "default"}, "kv_cache.capacity"),
        ("workers.aggregated.kv_cache.capacity", {}, "kv_cache.capacity"),
        ("workers.aggregated.kv_cache.block_size", None, "kv_cache.block_size"),
        ("workers.aggregated.parallelism.preset.0.attention_data", 2, "parallelism.preset[0].attention_data"),
        ("workers.aggregated.scheduler.max_batched_tokens", 63, "scheduler.max_batched_tokens"),
    ],
)
def test_what_a_replay_would_have_to_guess_is_refused_with_its_path(path: str, value: Any, named: str) -> None:
    parsed = EngineSection.model_validate(section(path, value))
    with pytest.raises(EngineSectionError) as refused:
        parsed.specification("deployment.engine")
    assert refused.value.path == f"deployment.engine.workers.aggregated.{named}"
    assert str(refused.value).startswith(refused.value.path)
    assert isinstance(refused.value, ReplayError)
    assert refused.value.reason == "engine_not_replayable"


@pytest.mark.parametrize("path", ["workers.aggregated.timing", "workers.aggregated.kv_cache"])
def test_a_missing_part_is_refused_like_a_default_one(path: str) -> None:
    with pytest.raises(EngineSectionError):
        EngineSection.model_validate(section(path, drop=True)).specification()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("flavour", "mild"),
        ("workers.prefill", {}),
        ("workers.prefill", EXPLICIT["workers"]["aggregated"]),
        ("workers.aggregated.timing.speed", 2),
        ("workers.aggregated.scheduler.max_sequences", {"choices": [1, 2]}),
        ("workers.aggregated.scheduler.max_sequences", "64"),
        ("workers.aggregated.scheduler.max_sequences", True),
        ("workers.aggregated.scheduler.max_sequences", 0),
        ("workers.aggregated.kv_cache.prefix_caching", "yes"),
        ("workers.aggregated.kv_cache.capacity", {"type": "fixed"}),
        ("workers.aggregated.kv_cache.capacity", {"type": "default", "blocks": 3}),
        ("workers.aggregated.timing", {"type": "fixed", "prefill_ms": 1}),
        ("workers.aggregated.timing", {"type": "fixed", "prefill_ms": 1, "decode_ms": float("inf")}),
        ("workers.aggregated.timing", {"type": "polynomial", "decode_ms": 1}),
        ("workers.aggregated.parallelism.preset", "default"),
        ("workers.aggregated.parallelism.preset", []),
        ("workers.aggregated.parallelism.preset", EXPLICIT["workers"]["aggregated"]["parallelism"]["preset"] * 2),
        ("backend", "sglang"),
        ("mode", "disaggregated"),
    ],
)
def test_what_is_not_pinned_or_not_known_does_not_load(path: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        EngineSection.model_validate(section(path, value))


@pytest.mark.parametrize(
    ("key", "value"),
    [("model", "Qwen/Qwen3-0.6B"), ("hardware", "h200_sxm"), ("context_length", "max"), ("backend_version", "0.11")],
)
def test_keys_of_aisimulate_that_change_nothing_here_are_accepted(key: str, value: Any) -> None:
    plain = EngineSection.model_validate(EXPLICIT).specification()
    assert EngineSection.model_validate(section(key, value)).specification() == plain


def test_a_context_length_bounds_the_sequences_of_the_engine() -> None:
    assert EngineSection.model_validate(section("context_length", 2048)).specification().context_length == 2048
    assert EngineSection.model_validate(section("context_length", "max")).specification().context_length is None
