"""A varied set of Requests that AISimulate has to accept once they are lowered, and faults that it has to refuse."""

from itertools import product
from typing import Any

from attrs import frozen

from dgdr_retune.lowering import merge_patch

Json = Any

BASE: Json = {
    "modelRef": {"name": "Qwen/Qwen3-0.6B"},
    "backends": ["vllm"],
    "hardware": {"gpu": {"sku": "h200_sxm", "budget": 2}},
}


def _trace(sub_path: str, **replay: float) -> Json:
    source = {"persistentVolumeClaim": {"claimName": "request-traces", "subPath": sub_path}}
    return {"trace": {"source": source, **({"replay": replay} if replay else {})}}


WORKLOADS: dict[str, Json] = {
    "default": None,
    "concurrency": {"static": {"isl": 4000, "osl": 1, "concurrency": 64}},
    "rate": {"static": {"isl": 1, "osl": 500, "requestRate": 0.25}},
    "fill": {"static": {"isl": 1024, "osl": 128, "kvLoadRatio": [0.8]}},
    "ratio": {"static": {"isl": 1024, "osl": 128, "requestRate": 2, "numRequestRatio": 12.5}},
    "trace": _trace("retune/qwen/1790000000000.jsonl.gz"),
    "trace-plain": _trace("a.jsonl"),
    "trace-faster": _trace("a.jsonl.gz", arrivalSpeedupRatio=2),
    "trace-slower": _trace("a.jsonl.gz", arrivalSpeedupRatio=0.5),
}
SLAS: dict[str, Json] = {
    "tokens": {"ttftMs": 500, "itlMs": 20.5},
    "whole": {"e2eMs": 5000},
}
OBJECTIVES: dict[str, Json] = {
    "default": None,
    **{metric: {"mode": "Optimize", "metric": metric} for metric in ("ThroughputPerGPU", "ThroughputPerUser", "TTFT")},
    "E2ELatency-whole": {"mode": "Optimize", "metric": "E2ELatency", "sla": SLAS["whole"]},
    "Goodput-tokens": {"mode": "Optimize", "metric": "Goodput", "sla": SLAS["tokens"]},
    "GoodputPerGPU-whole": {"mode": "Optimize", "metric": "GoodputPerGPU", "sla": SLAS["whole"]},
}
ENGINE: Json = {
    "mode": "aggregated",
    "context_length": 8192,
    "workers": {
        "aggregated": {
            "parallelism": {
                "preset": [
                    {
                        "replicas": 2,
                        "tensor": 1,
                        "pipeline": 1,
                        "attention_data": 1,
                        "moe_tensor": 1,
                        "moe_expert": 1,
                    }
                ]
            },
            "scheduler": {"max_batched_tokens": 8192, "max_sequences": 256},
            "kv_cache": {"block_size": 64, "prefix_caching": True, "capacity": {"type": "default"}},
        }
    },
}
ROUTER: Json = {
    "policy": "kv_router",
    "prefill_load_model": {"type": "none"},
    "overlap_score_credit": {"choices": [0.0, 0.5, 1.0]},
    "prefill_load_scale": 1.0,
    "temperature": {"choices": [0.0, 1.0]},
}
EXTRAS: dict[str, Json] = {
    "two-backends": {"backends": ["vllm", "sglang"]},
    "all-backends": {"backends": ["trtllm", "sglang", "vllm"]},
    "budget": {"search": {"budget": {"maxRounds": 3, "parallelEvaluations": 2, "maxEvaluationDuration": "2m0.5s"}}},
    "per-round": {"search": {"budget": {"maxRounds": 1, "candidatesPerRound": 7, "parallelEvaluations": 1}}},
    "grid": {
        "workload": WORKLOADS["trace-faster"],
        "aisimulate": {"generator": "direct", "inputOverrides": {"engine": ENGINE, "router": ROUTER}},
    },
    "random-grid": {
        "workload": WORKLOADS["trace"],
        "aisimulate": {
            "inputOverrides": {
                "engine": ENGINE,
                "router": ROUTER,
                "optimizer": {"algorithm": "random", "max_trials": 6},
                "optimization": {"constraints": {"min_candidate_gpus": 2}},
            }
        },
    },
    "trace-with-a-time-limit": {
        "workload": WORKLOADS["trace"],
        "aisimulate": {"inputOverrides": {"traffic": {"stop": {"max_virtual_time_seconds": 60}}}},
    },
    "trace-at-a-concurrency": {
        "workload": WORKLOADS["trace-faster"],
        "aisimulate": {
            "inputOverrides": {"traffic": {"load": {"type": "concurrency", "concurrency": 8, "speedup": None}}}
        },
    },
    "trace-replaced": {
        "workload": WORKLOADS["trace"],
        "aisimulate": {"inputOverrides": {"traffic": None}},
    },
    "stop-replaced": {
        "workload": WORKLOADS["concurrency"],
        "aisimulate": {"inputOverrides": {"traffic": {"stop": {"requests": None, "requests_per_load_unit": 4}}}},
    },
    "range": {
        "workload": WORKLOADS["rate"],
        "aisimulate": {
            "inputOverrides": {"traffic": {"load": {"requests_per_second": {"range": {"min": 1, "max": 4, "step": 1}}}}}
        },
    },
    "goodput-bound-by-the-overrides": {
        "objective": {"mode": "Optimize", "metric": "Goodput"},
        "aisimulate": {"inputOverrides": {"evaluation": {"sla": {"ttft_ms": 500}}}},
    },
    "goodput-replaced": {
        "objective": {"mode": "Optimize", "metric": "Goodput"},
        "aisimulate": {"inputOverrides": {"optimization": {"target": "ttft"}}},
    },
    "hardware-named-by-the-overrides": {
        "hardware": {"gpu": {"sku": "auto", "budget": 2}},
        "aisimulate": {"inputOverrides": {"optimization": {"hardware": "h200_sxm"}}},
    },
    "host-limits": {"aisimulate": {"inputOverrides": {"execution": {"resources": {"memory_limit_gb": 8.0}}}}},
}


@frozen
class Fault:
    """Something that this API refuses, and what it would have become in AISimulate's input.

    Attributes:
        spec: merge patch on a Request's specification.
        input: merge patch on the input of the Request without the fault.
        because: why AISimulate accepts what is refused here; empty if it refuses it too.
        reason: with which lowering refuses it; only what is no `InvalidSpec` may be stored, with a warning.
    """

    spec: Json
    input: Json
    because: str = ""
    reason: str = "InvalidSpec"


def _trace_source(path: str) -> Json:
    """What turns a synthetic source into a trace."""
    return {"type": "trace", "format": "dynamo", "paths": [path], "input_tokens": None, "output_tokens": None}


FAULTS: dict[str, Fault] = {
    "no GPUs": Fault(
        {"hardware": {"gpu": {"budget": 0}}}, {"optimization": {"constraints": {"max_candidate_gpus": 0}}}
    ),
    "unknown backend": Fault({"backends": ["VLLM"]}, {"engine": {"backend": "VLLM"}}),
    "backend twice": Fault({"backends": ["vllm", "vllm"]}, {"engine": {"backend": {"choices": ["vllm", "vllm"]}}}),
    "no model": Fault({"modelRef": {"name": ""}}, {"engine": {"model": ""}}),
    "no input tokens": Fault(
        {"workload": {"static": {"isl": 0, "osl": 1, "concurrency": 1}}},
        {"traffic": {"source": {"input_tokens": 0}}},
    ),
    "no rate": Fault(
        {"workload": {"static": {"isl": 1, "osl": 1, "requestRate": 0}}},
        {"traffic": {"load": {"type": "poisson", "requests_per_second": 0, "concurrency": None}}},
    ),
    "no speed": Fault(
        {"workload": _trace("a", arrivalSpeedupRatio=0)},
        {
            "traffic": {
                "source": {
                    "type": "trace",
                    "format": "dynamo",
                    "paths": ["a"],
                    "input_tokens": None,
                    "output_tokens": None,
                },
                "load": {"type": "trace_timestamps", "speedup": 0, "concurrency": None},
                "stop": None,
            }
        },
    ),
    "both kinds of latency bound": Fault(
        {"objective": {"mode": "Optimize", "metric": "Goodput", "sla": {"ttftMs": 1, "itlMs": 1, "e2eMs": 1}}},
        {"evaluation": {"sla": {"ttft_ms": 1, "itl_ms": 1, "e2e_ms": 1}}},
    ),
    "no evaluation time": Fault(
        {"search": {"budget": {"maxRounds": 1, "parallelEvaluations": 1, "maxEvaluationDuration": "0s"}}},
        {"optimizer": {"candidate_timeout_seconds": 0}},
    ),
    "no rounds": Fault(
        {"search": {"budget": {"maxRounds": 0, "parallelEvaluations": 1}}}, {"optimizer": {"max_trials": 0}}
    ),
    "unknown metric": Fault(
        {"objective": {"mode": "Optimize", "metric": "Speed"}}, {"optimization": {"target": "speed"}}
    ),
    "a file outside the claim": Fault(
        {"workload": _trace("../a")},
        {
            "traffic": {
                "source": {
                    "type": "trace",
                    "format": "dynamo",
                    "paths": ["../a"],
                    "input_tokens": None,
                    "output_tokens": None,
                },
                "load": {"type": "trace_timestamps", "concurrency": None},
                "stop": None,
            }
        },
        because="AISimulate reads any path; here the path is one inside a claim, which a kubelet mounts",
    ),
    "goodput without a latency bound": Fault(
        {"objective": {"mode": "Optimize", "metric": "Goodput"}},
        {"optimization": {"target": "goodput"}},
        reason="SlaMissing",
    ),
    "goodput per GPU whose latency bounds the overrides take away": Fault(
        {
            "objective": {"mode": "Optimize", "metric": "GoodputPerGPU"},
            "aisimulate": {"inputOverrides": {"evaluation": {"sla": {}}}},
        },
        {"optimization": {"target": "goodput_per_gpu"}, "evaluation": {"sla": {}}},
        reason="SlaMissing",
    ),
    "automatic hardware": Fault(
        {"hardware": {"gpu": {"sku": "auto"}}}, {"engine": {"hardware": "auto"}}, reason="HardwareMissing"
    ),
    "one of two latency bounds": Fault(
        {"objective": {"mode": "Optimize", "metric": "Goodput", "sla": {"ttftMs": 1}}},
        {"evaluation": {"sla": {"ttft_ms": 1}}},
        because="public Dynamo's API wants both or neither; inputOverrides can leave one out",
    ),
}


def varied_requests() -> dict[str, Json]:
    """Specifications by what they are."""
    crossed = {
        f"{workload} {objective}": _spec({"workload": WORKLOADS[workload], "objective": OBJECTIVES[objective]})
        for workload, objective in product(WORKLOADS, OBJECTIVES)
    }
    return crossed | {name: _spec(extra) for name, extra in EXTRAS.items()}


def request_with(spec: Json) -> Json:
    """A Request with the specification."""
    return {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": "qwen", "namespace": "default"},
        "spec": spec,
    }


def _spec(parts: Json) -> Json:
    given = {name: part for name, part in parts.items() if part is not None}
    return BASE | given


def faulty(fault: Fault) -> Json:
    """A Request with the fault."""
    return request_with(merge_patch(BASE, fault.spec))
