"""Requests of tests, and what their Runs replay."""

import gzip
import itertools
from pathlib import Path
from typing import Any

Json = Any

RECORDED = Path(__file__).parents[1] / "data" / "recorded" / "frontend-0" / "trace.000000.jsonl.gz"
ROWS = 40
TRACE = "windows/1.jsonl"
CREDITS = [0.0, 0.5, 1.0]


def record(claim: Path, path: str = TRACE) -> Path:
    """Leave some recorded requests on a claim, as a frontend's window; the file."""
    file = claim / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(RECORDED, "rb") as rows:
        ends = (row for row in rows if b'"request_end"' in row)
        file.write_bytes(b"".join(itertools.islice(ends, ROWS)))
    file.chmod(0o644)
    return file


def request(name: str, claim: str, path: str = TRACE, **spec: Json) -> dict[str, Json]:
    """A Request to replay one file of a claim under three router settings; ``spec`` replaces whole fields."""
    engine = {
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
                "scheduler": {"max_batched_tokens": 8192, "max_sequences": 64},
                "kv_cache": {"block_size": 64, "capacity": {"type": "fixed", "blocks": 1200}},
                "timing": {"type": "polynomial"},
            }
        },
    }
    router = {
        "policy": "kv_router",
        "prefill_load_model": {"type": "none"},
        "overlap_score_credit": {"choices": CREDITS},
        "prefill_load_scale": 1.0,
        "temperature": 0.0,
    }
    source = {"persistentVolumeClaim": {"claimName": claim, "subPath": path}}
    return {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": name},
        "spec": {
            "modelRef": {"name": "Qwen/Qwen3-0.6B"},
            "backends": ["vllm"],
            "hardware": {"gpu": {"sku": "h200_sxm", "budget": 2}},
            "workload": {"trace": {"source": source}},
            "objective": {"mode": "Optimize", "metric": "TTFT"},
            "search": {"budget": {"maxRounds": 1, "candidatesPerRound": len(CREDITS), "parallelEvaluations": 1}},
            "aisimulate": {
                "generator": "direct",
                "inputOverrides": {"engine": engine, "router": router, "optimizer": {"algorithm": "random"}},
            },
            **spec,
        },
    }
