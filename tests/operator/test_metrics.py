"""Metrics, health and readiness."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest
from attrs import define, field
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dgdr_retune.kube import JOBS
from dgdr_retune.operator._http import HttpServer
from dgdr_retune.operator._metrics import Metrics


@define
class Leader:
    runs: dict[tuple[str, str], int] = field(factory=dict)
    claims: dict[tuple[str, str], int] = field(factory=dict)

    def queue_depths(self) -> Mapping[str, int]:
        return {"run": 3}

    def runs_by_phase(self) -> Mapping[tuple[str, str], int]:
        return self.runs

    def claim_holders(self) -> Mapping[tuple[str, str], int]:
        return self.claims


def series(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """Values by those of the labels, in the order of the labels' names."""
    families = text_string_to_metric_families(generate_latest(metrics.registry).decode())
    return {
        tuple(sample.labels[label] for label in sorted(sample.labels)): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def test_a_leader_shows_runs_claims_and_queues_and_their_series_go_with_them() -> None:
    metrics, leader = Metrics(), Leader({("a", "Running"): 2, ("b", "Failed"): 1}, {("a", "traces"): 2})
    metrics.leading = leader
    assert series(metrics, "dgdr_retune_leader") == {(): 1}
    assert series(metrics, "dgdr_retune_queue_depth") == {("run",): 3}
    assert series(metrics, "dgdr_retune_runs") == {("a", "Running"): 2, ("b", "Failed"): 1}
    assert series(metrics, "dgdr_retune_claim_holders") == {("traces", "a"): 2}
    leader.runs, leader.claims = {("b", "Failed"): 1}, {}
    assert series(metrics, "dgdr_retune_runs") == {("b", "Failed"): 1}
    assert series(metrics, "dgdr_retune_claim_holders") == {}


def test_one_that_does_not_lead_shows_none_of_them() -> None:
    metrics = Metrics()
    assert series(metrics, "dgdr_retune_leader") == {(): 0}
    assert series(metrics, "dgdr_retune_runs") == {}
    assert series(metrics, "dgdr_retune_queue_depth") == {}


def test_calls_and_looks_are_counted_by_what_they_were() -> None:
    metrics = Metrics()
    metrics.called("create", JOBS, "201", 0.01)
    metrics.called("create", JOBS, "201", 0.03)
    metrics.reconciled("run", "failed", 1.0)
    assert series(metrics, "dgdr_retune_api_call_seconds_count") == {("201", "jobs", "create"): 2}
    assert series(metrics, "dgdr_retune_api_call_seconds_sum") == {("201", "jobs", "create"): pytest.approx(0.04)}
    assert series(metrics, "dgdr_retune_reconcile_seconds_count") == {("run", "failed"): 1}


def test_names_of_metrics_end_in_their_unit_or_count_objects() -> None:
    metrics = Metrics()
    metrics.leading = Leader({("a", "Running"): 2}, {("a", "traces"): 2})
    names = {family.name for family in text_string_to_metric_families(generate_latest(metrics.registry).decode())}
    assert names == {
        "dgdr_retune_api_call_seconds",
        "dgdr_retune_reconcile_seconds",
        "dgdr_retune_leader",
        "dgdr_retune_queue_depth",
        "dgdr_retune_runs",
        "dgdr_retune_claim_holders",
    }


def test_health_readiness_and_metrics_are_served() -> None:
    why = "the caches are not filled yet"

    async def scenario() -> None:
        nonlocal why
        metrics = Metrics()
        server = HttpServer(metrics.registry, not_ready=lambda: why, host="127.0.0.1", port=0)
        task = asyncio.create_task(server.run())
        async with asyncio.timeout(30), httpx.AsyncClient() as client:
            await server.until_listening()
            root = f"http://127.0.0.1:{server.port}"
            assert (await client.get(f"{root}/healthz")).status_code == 200
            not_ready = await client.get(f"{root}/readyz")
            assert (not_ready.status_code, not_ready.text) == (503, "the caches are not filled yet")
            why = ""
            assert (await client.get(f"{root}/readyz")).status_code == 200
            shown = await client.get(f"{root}/metrics")
            assert "dgdr_retune_leader 0.0" in shown.text
            assert shown.headers["content-type"].startswith("text/plain")
            openmetrics = await client.get(f"{root}/metrics", headers={"Accept": "application/openmetrics-text"})
            assert openmetrics.text.endswith("# EOF\n")
            assert (await client.get(f"{root}/other")).status_code == 404
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(scenario())
