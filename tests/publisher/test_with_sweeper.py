"""The two containers of a Run's pod as real processes: what the sweeper replays is what the Run comes to say."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.publisher.containers import publishing, sweeping
from tests.publisher.world import World
from tests.sweeper.sweeper_cases import document, grid_point

from dgdr_retune.publisher._snapshot import read_snapshot
from dgdr_retune.replay import BuiltInEngine, Metrics, RouterParameters, load_trace
from dgdr_retune.sweeper._candidates import METRICS, points, scored
from dgdr_retune.sweeper._input import MAX_PUBLISHED, output_section
from dgdr_retune.sweeper._router_grid import RouterGrid, router_grid
from dgdr_retune.sweeper._snapshot import Snapshot as WrittenSnapshot
from dgdr_retune.testing import serve

Json = Any
WITHIN_S = 120.0
GRID = {"overlap_score_credit": {"choices": [0, 1]}, "temperature": {"choices": [0, 1]}}


async def exit_codes(world: World, what: Json) -> tuple[int, int]:
    """Those of the sweeper and of the publisher, in a pod that ends when both have ended."""
    async with asyncio.timeout(WITHIN_S), serve(world.server) as url, publishing(world, url) as publisher:
        async with sweeping(world, what) as sweeper:
            code = await sweeper.wait()
        await world.end_sweeper(code)
        return code, await publisher.wait()


def test_what_is_replayed_is_published_best_first_with_every_replication(world: World, window: Path) -> None:
    what = document(window, router=GRID, optimizer={"max_trials": 4})

    async def scenario() -> tuple[Json, dict[str, Json]]:
        assert await exit_codes(world, what) == (0, 0)
        return (await world.run())["status"], await world.candidates()

    status, candidates = asyncio.run(scenario())
    assert status["phase"] == "Running", "the controller's to change"
    assert status["message"] == "4 of 4 candidates evaluated on engine built-in, replications: 2"
    counts = {"scheduled": 0, "running": 0, "feasible": 4, "infeasible": 0, "failed": 0}
    progress = {"round": 0, "evaluated": 4, "evaluations": counts, "candidates": {"published": 4}}
    assert status["progress"] == progress
    ranked = [candidates.pop(reference["name"]) for reference in status["candidateRefs"]]
    assert candidates == {}
    grid = router_grid(what)
    assert isinstance(grid, RouterGrid)
    trace, scenario_, engine = load_trace(window), grid.scenario(), BuiltInEngine()
    scores = []
    for each in ranked:
        credit, scale, temperature = grid_point(each["spec"])
        router = RouterParameters(overlap_score_credit=credit, prefill_load_scale=scale, temperature=temperature)
        measured = [engine.replay(trace, scenario_, router, replication) for replication in range(2)]
        wanted = [{name: found.values[name] for name in METRICS if name in found.values} for found in measured]
        metrics = each["status"]["metrics"]
        assert metrics["replications"] == wanted
        assert metrics["score"] == -metrics["mean_ttft_ms"]
        assert metrics["mean_ttft_ms"] == pytest.approx(sum(each["mean_ttft_ms"] for each in wanted) / 2)
        scores.append(metrics["score"])
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1


def test_the_largest_snapshot_that_is_written_is_read() -> None:
    what = document(
        router={"temperature": {"choices": [number / 3 for number in range(100)]}, "overlap_score_credit": 1 / 3},
        optimizer={"max_trials": 100},
        dgdr_run={"runtime_image": f"{'r' * 1000}/image:1.6.1"},
    )
    grid = router_grid(what)
    assert isinstance(grid, RouterGrid)
    longest = Metrics(dict.fromkeys(METRICS, 1234567.1234567893))
    replications = [longest] * (MAX_PUBLISHED // 100)
    candidates = tuple(scored(point, replications, grid.objective) for point in points(grid, output_section(what)))
    written = WrittenSnapshot(phase="Succeeded", candidates=candidates).text(datetime.now(UTC))
    assert len(read_snapshot(written.encode()).candidates) == 100


def test_a_damaged_trace_ends_both_and_the_run_says_why(world: World, window: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl.gz"
    damaged.write_bytes(window.read_bytes()[:-100])

    async def scenario() -> Json:
        assert await exit_codes(world, document(damaged, router=GRID)) == (2, 4)
        assert await world.candidates() == {}
        return (await world.run())["status"]

    status = asyncio.run(scenario())
    assert status["message"].startswith(f"TraceUnusable: the trace {damaged} cannot be replayed: no intact gzip member")
    assert status["candidateRefs"] == []


def test_a_sweeper_that_is_killed_leaves_what_it_had_so_far(world: World, window: Path) -> None:
    many = {"temperature": {"choices": None, "range": {"min": 0, "max": 9.9, "step": 0.1}}}
    what = document(window, router=many, optimizer={"max_trials": 300}, dgdr_run={"snapshot_interval_seconds": 0})

    async def progressed() -> Json:
        while True:
            progress = (await world.run())["status"].get("progress", {})
            if progress.get("evaluated"):
                return progress
            await asyncio.sleep(0.05)

    async def scenario() -> None:
        async with asyncio.timeout(WITHIN_S), serve(world.server) as url, publishing(world, url) as publisher:
            async with sweeping(world, what) as sweeper:
                progress = await progressed()
                sweeper.kill()
                code = await sweeper.wait()
            await world.end_sweeper(128 - code)
            assert await publisher.wait() == 0, "the sweeper's own code fails the Job"
        assert progress["evaluations"]["running"] > 0
        assert sum(progress["evaluations"].values()) == 300
        assert (await world.run())["status"]["candidateRefs"]

    asyncio.run(scenario())
