"""Inputs, engines whose results are known (importable by worker processes), and what a snapshot must keep to."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from attrs import evolve, field, frozen

from dgdr_retune.api import SNAPSHOT_FILE, candidate_id
from dgdr_retune.lowering import merge_patch
from dgdr_retune.replay import Metrics, RequestTimes, RouterParameters, Scenario, Trace

Json = Any


def document(trace: str | Path = "/nowhere/trace.jsonl.gz", **changes: Json) -> dict[str, Json]:
    """A grid of six points; `changes` are a merge patch."""
    sound = {
        "traffic": {
            "source": {"type": "trace", "format": "dynamo", "paths": [str(trace)]},
            "load": {"type": "trace_timestamps", "speedup": 2},
        },
        "engine": {
            "model": "org/m",
            "hardware": "h200_sxm",
            "backend": "vllm",
            "mode": "aggregated",
            "workers": {
                "aggregated": {
                    "parallelism": {
                        "preset": [
                            {
                                "replicas": 4,
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
        },
        "optimization": {"target": "ttft", "constraints": {"max_candidate_gpus": 4}},
        "optimizer": {"algorithm": "random", "max_trials": 6, "parallelism": 2, "seed": 42},
        "router": {
            "policy": "kv_router",
            "prefill_load_model": {"type": "none"},
            "overlap_score_credit": {"choices": [0, 0.5, 1]},
            "prefill_load_scale": 1,
            "temperature": {"choices": [0, 1]},
        },
        "dgdr_run": {
            "name": "shop-run-1",
            "namespace": "inference",
            "generator": "direct",
            "runtime_image": "registry.example/vllm-runtime:1.6.1",
            "num_gpus_per_node": 8,
        },
    }
    changed: dict[str, Json] = merge_patch(sound, changes)
    return changed


def read_snapshot(directory: Path) -> dict[str, Json]:
    """The snapshot of a directory, which keeps every rule of its format."""
    path = directory / SNAPSHOT_FILE
    snapshot: dict[str, Json] = yaml.safe_load(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o644
    assert snapshot["schemaVersion"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", snapshot["timestamp"])
    run = snapshot["run"]
    assert run["phase"] in {"Running", "Succeeded", "Failed"}
    assert run["terminal"] is (run["phase"] != "Running")
    assert all(0 < len(run[text]) <= 500 for text in ("message", "error") if text in run)
    ids = [candidate["id"] for candidate in snapshot["candidates"]]
    assert len(set(ids)) == len(ids)
    for candidate in snapshot["candidates"]:
        assert candidate["id"] == candidate_id(candidate["parameters"])
        assert len(candidate["id"]) <= 48
        assert candidate["outcome"] == "materialized"
        (deployment,) = yaml.safe_load_all(candidate["manifest"])
        assert deployment["kind"] == "DynamoGraphDeployment"
        assert deployment["spec"]
    return snapshot


def grid_point(candidate: dict[str, Json]) -> tuple[float, float, float]:
    """Where in the grid a candidate is, as a planner reads it back."""
    router = candidate["parameters"]["adapters"]["dynamo.router"]
    assert (router["policy"], router["prefill_load_model"]) == ("kv_router", {"type": "none"})
    return router["overlap_score_credit"], router["prefill_load_scale"], router["temperature"]


@frozen
class Engine:
    """TTFT is 100 ms a credit, 1 ms a replication more; throughput is its inverse."""

    name: str = "double"
    paired: bool = True

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        del trace, scenario
        ttft = 100 * router.overlap_score_credit + replication
        return Metrics({"mean_ttft_ms": ttft, "completed_requests": 3, "gpu_hours": 2, "duration_ms": 3_600_000})

    def request_times(
        self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int
    ) -> RequestTimes:
        del trace, scenario, router, replication
        return RequestTimes(np.ones(1), np.ones(1), np.ones(1))


@frozen
class Level(Engine):
    """All candidates are equally good."""

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        return super().replay(trace, scenario, evolve(router, overlap_score_credit=1), replication)


@frozen
class Dying(Engine):
    """Its process is killed in replays with credit 0.5."""

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        if router.overlap_score_credit == 0.5:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().replay(trace, scenario, router, replication)


@frozen
class Hanging(Engine):
    """Never ends with credit 0.5."""

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        if router.overlap_score_credit == 0.5:
            time.sleep(600)
        return super().replay(trace, scenario, router, replication)


@frozen
class Silent(Engine):
    """No request is completed with the credits named."""

    credits: tuple[float, ...] = field(kw_only=True)

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        if router.overlap_score_credit in self.credits:
            return Metrics({"completed_requests": 0})
        return super().replay(trace, scenario, router, replication)
