"""Snapshots as a sweeper writes them."""

from typing import Any

import yaml

from dgdr_retune.api import candidate_id

Json = Any

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "beside"}, "spec": {"ports": [{"port": 1}]}}


def deployment(**changes: Json) -> Json:
    """A DynamoGraphDeployment."""
    spec = {
        "backendFramework": "vllm",
        "components": [
            {"name": "Frontend", "type": "frontend", "replicas": 1},
            {"name": "Worker", "type": "worker", "replicas": 2, "podTemplate": {"spec": {"containers": []}}},
        ],
    }
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "rendered"},
        "spec": spec,
    } | changes


def manifest(*documents: Json) -> str:
    """Documents as one text."""
    return yaml.safe_dump_all(documents)


def candidate(number: float, **changes: Json) -> Json:
    """A candidate that was rendered; its number is its temperature."""
    parameters = {"tp": 1, "adapters": {"dynamo.router": {"policy": "kv_router", "temperature": number}}}
    return {
        "id": candidate_id(parameters),
        "outcome": "materialized",
        "parameters": parameters,
        "metrics": {"score": 10.0 - number, "usedGpus": 2, "replications": [{"mean_ttft_ms": 31.5}]},
        "manifest": manifest(deployment()),
    } | changes


def unmaterialized(number: float, error: str = "no template") -> Json:
    """A candidate that could not be rendered."""
    whole = candidate(number)
    del whole["manifest"]
    return whole | {"outcome": "materialization_failed", "error": error}


def snapshot(
    *candidates: Json,
    phase: str = "Running",
    round_: int = 1,
    evaluated: int = 0,
    run: Json = None,
    **changes: Json,
) -> Json:
    """A whole document."""
    return {
        "schemaVersion": 1,
        "timestamp": "2026-10-01T12:00:00Z",
        "run": {"phase": phase, "terminal": phase != "Running"} | (run or {}),
        "progress": {"round": round_, "evaluated": evaluated},
        "candidates": list(candidates),
    } | changes


def text(document: Json) -> bytes:
    """As the file holds it."""
    return yaml.safe_dump(document, sort_keys=False).encode()
