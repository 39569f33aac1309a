"""What becomes of candidates: their order, their numbers, and each one's failure alone."""

import asyncio
import os
from datetime import UTC, datetime
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sweeper_cases import Dying, Engine, Hanging, Level, Silent, document, grid_point, read_snapshot

from dgdr_retune._process import processors
from dgdr_retune.api import SNAPSHOT_FILE
from dgdr_retune.replay import Metrics, RouterParameters, Trace
from dgdr_retune.sweep import Failure, Job, JobFailed, Objective
from dgdr_retune.sweeper._candidates import METRICS, Point, points, scored
from dgdr_retune.sweeper._errors import NothingFeasibleError
from dgdr_retune.sweeper._evaluation import Plan, _Record, evaluate
from dgdr_retune.sweeper._input import output_section
from dgdr_retune.sweeper._router_grid import RouterGrid, router_grid
from dgdr_retune.sweeper._snapshot import Snapshot, SnapshotFile

WITHIN_S = 120.0


def plan(changes: dict[str, Any] | None = None, **attributes: Any) -> Plan:
    found = router_grid(document(**(changes or {})))
    assert isinstance(found, RouterGrid), found
    defaults: dict[str, Any] = {
        "points": points(found, output_section(document())),
        "scenario": found.scenario(),
        "objective": found.objective,
        "replications": 2,
        "parallelism": 2,
        "timeout_s": 100.0,
        "most": 5,
        "interval_s": 0.0,
    }
    return Plan(**defaults | attributes)


def trace() -> Trace:
    ones = np.ones(3, dtype=np.int32)
    return Trace(64, np.arange(3), ones, ones, np.arange(4), np.arange(3, dtype=np.uint64))


def snapshot_file(directory: Path) -> SnapshotFile:
    return SnapshotFile(directory, lambda: datetime(2026, 11, 30, tzinfo=UTC))


def evaluated(what: Plan, engine: Engine, directory: Path) -> dict[str, Any]:
    async def main() -> Snapshot:
        async with asyncio.timeout(WITHIN_S):
            return await evaluate(what, engine, trace(), snapshot_file(directory))

    snapshot_file(directory).write(asyncio.run(main()))
    return read_snapshot(directory)


def test_candidates_are_best_first_and_bounded(tmp_path: Path) -> None:
    snapshot = evaluated(plan(most=3), Engine(), tmp_path)
    assert [grid_point(each) for each in snapshot["candidates"]] == [(0, 1, 0), (0, 1, 1), (0.5, 1, 0)]
    counts = {"scheduled": 0, "running": 0, "feasible": 6, "infeasible": 0, "failed": 0}
    assert snapshot["progress"] == {"round": 0, "evaluated": 6, "evaluations": counts}
    assert snapshot["run"]["message"] == "6 of 6 candidates evaluated on engine double, replications: 2"


def test_metrics_are_means_and_every_replications_own(tmp_path: Path) -> None:
    best = evaluated(plan(), Engine(), tmp_path)["candidates"][0]
    shared = {"completed_requests": 3, "gpu_hours": 2, "duration_ms": 3_600_000}
    assert best["metrics"] == {
        "score": -0.5,
        "usedGpus": 4,
        "mean_ttft_ms": 0.5,
        **shared,
        "replications": [{"mean_ttft_ms": 0, **shared}, {"mean_ttft_ms": 1, **shared}],
    }


def test_parallelism_and_the_other_candidates_change_no_candidate(tmp_path: Path) -> None:
    one = evaluated(plan(parallelism=1, most=9), Engine(), tmp_path / "one")
    two = evaluated(plan(parallelism=2, most=9), Engine(), tmp_path / "two")
    assert one == two
    fewer = evaluated(plan({"router": {"temperature": 0}}, most=9), Engine(), tmp_path / "fewer")
    assert all(candidate in one["candidates"] for candidate in fewer["candidates"])


def test_ties_are_broken_by_the_parameters_alone(tmp_path: Path) -> None:
    forward = evaluated(plan(most=9), Level(), tmp_path / "forward")
    backward = evaluated(plan(most=9, points=plan().points[::-1], parallelism=1), Level(), tmp_path / "backward")
    assert forward == backward
    assert len({candidate["metrics"]["score"] for candidate in forward["candidates"]}) == 1


@pytest.mark.parametrize(("engine", "reason"), [(Dying(), "worker_died"), (Hanging(), "replay_timeout")])
def test_a_candidate_whose_process_dies_or_hangs_fails_alone(engine: Engine, reason: str, tmp_path: Path) -> None:
    timeout_s = 5.0 if reason == "replay_timeout" else 100.0
    what = plan({"router": {"temperature": 0}}, replications=1, timeout_s=timeout_s)
    snapshot = evaluated(what, engine, tmp_path)
    assert [grid_point(each)[0] for each in snapshot["candidates"]] == [0, 1]
    assert snapshot["run"]["phase"] == "Succeeded"
    assert (
        f"2 of 3 candidates evaluated on engine double, replications: 1; 1 failed, the first by {reason}: "
        in (snapshot["run"]["message"])
    )
    assert snapshot["progress"]["evaluated"] == 3
    assert snapshot["progress"]["evaluations"]["failed"] == 1


def test_a_candidate_without_samples_is_last_and_has_no_score(tmp_path: Path) -> None:
    snapshot = evaluated(plan(most=9), Silent(credits=(0.0,)), tmp_path)
    assert [grid_point(each)[0] for each in snapshot["candidates"]] == [0.5, 0.5, 1, 1, 0, 0]
    last = snapshot["candidates"][-1]["metrics"]
    assert last["score"] is None
    assert "mean_ttft_ms" not in last
    counts = {"scheduled": 0, "running": 0, "feasible": 4, "infeasible": 2, "failed": 0}
    assert snapshot["progress"]["evaluations"] == counts


def test_without_a_score_nothing_is_feasible(tmp_path: Path) -> None:
    with pytest.raises(
        NothingFeasibleError, match="no feasible candidate found: no request of the trace was completed"
    ):
        evaluated(plan(), Silent(credits=(0.0, 0.5, 1.0)), tmp_path)


def test_a_goodput_that_is_missing_fails_its_candidate(tmp_path: Path) -> None:
    changes = {"optimization": {"target": "goodput"}, "evaluation": {"sla": {"ttft_ms": 200}}}
    with pytest.raises(NothingFeasibleError, match="metric_missing: the replay has no finite goodput"):
        evaluated(plan(changes), Engine(), tmp_path)


def test_snapshots_come_at_most_every_interval_and_never_go_back(tmp_path: Path, monkeypatch: Any) -> None:
    texts: list[str] = []
    times: list[float] = []
    write = SnapshotFile.replace

    def noted(self: SnapshotFile, text: str) -> None:
        texts.append(text)
        times.append(asyncio.get_running_loop().time())
        write(self, text)

    async def main() -> None:
        file = snapshot_file(tmp_path)
        file.write(Snapshot())
        await evaluate(plan(interval_s=0.05, replications=20), Engine(), trace(), file)

    with monkeypatch.context() as patched:
        patched.setattr(SnapshotFile, "replace", noted)
        asyncio.run(main())
    found = [yaml.safe_load(text) for text in texts]
    counts = [snapshot["progress"]["evaluated"] for snapshot in found]
    assert counts == sorted(counts)
    assert all(later - earlier >= 0.05 for earlier, later in pairwise(times))
    for snapshot in found:
        evaluations = snapshot["progress"].get("evaluations")
        assert evaluations is None or sum(evaluations.values()) == 6
        assert snapshot["run"] == {"phase": "Running", "terminal": False}
        assert all(len(candidate["metrics"]["replications"]) == 20 for candidate in snapshot["candidates"])


@pytest.mark.parametrize(
    ("replications", "processes", "replayed", "expected"),
    [(2, 2, 0, (5, 1)), (2, 2, 1, (4, 2)), (2, 2, 2, (4, 1)), (1, 2, 3, (1, 2)), (3, 2, 17, (0, 1)), (1, 9, 2, (0, 4))],
)
def test_what_is_begun_and_what_is_not_follows_from_the_order_of_replays(
    replications: int, processes: int, replayed: int, expected: tuple[int, int], tmp_path: Path
) -> None:
    what = plan(replications=replications)
    record = _Record(what, processes, snapshot_file(tmp_path))
    jobs = [
        Job(position, point.router, each) for position, point in enumerate(what.points) for each in range(replications)
    ]
    for job in jobs[:replayed]:
        record.add(JobFailed(job, Failure("worker_died", "")))
    evaluations = record.snapshot().evaluations
    assert evaluations is not None
    assert (evaluations.scheduled, evaluations.running) == expected
    assert evaluations.ended == replayed // replications


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("400000 100000", 4),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("9900000 100000", 8),
        ("max 100000", 8),
        ("", 8),
    ],
)
def test_no_more_replays_run_at_once_than_the_containers_limit_has_processors_for(
    quota: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert processors(tmp_path / "cpu.max") == 8
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert processors(tmp_path / "cpu.max") == expected


def test_a_snapshot_that_could_not_be_written_is_written_later(tmp_path: Path, monkeypatch: Any) -> None:
    attempts = count()
    write = SnapshotFile.replace

    def first_fails(self: SnapshotFile, text: str) -> None:
        if next(attempts) == 0:
            raise OSError(28, "No space left on device")
        write(self, text)

    monkeypatch.setattr(SnapshotFile, "replace", first_fails)
    assert evaluated(plan(), Engine(), tmp_path)["run"]["phase"] == "Succeeded"


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (Objective.TTFT, -20.0),
        (Objective.E2E_LATENCY, -200.0),
        (Objective.THROUGHPUT, 300.0),
        (Objective.THROUGHPUT_PER_GPU, 150.0),
        (Objective.THROUGHPUT_PER_USER, 7.0),
        (Objective.GOODPUT, 100.0),
        (Objective.GOODPUT_PER_GPU, 50.0),
    ],
)
def test_a_higher_score_is_better_and_rates_per_gpu_are_by_the_gpus_in_use(
    objective: Objective, expected: float
) -> None:
    values = {
        "mean_ttft_ms": 20.0,
        "mean_e2e_latency_ms": 200.0,
        "output_throughput_tok_s": 300.0,
        "mean_output_token_throughput_per_user": 7.0,
        "goodput_output_throughput_tok_s": 100.0,
        "gpu_hours": 1.0,
        "duration_ms": 1_800_000.0,
    }
    point = Point(RouterParameters(), {"tp": 1}, 2, "manifest")
    assert scored(point, [Metrics(values)] * 3, objective).score == expected


VALUES = st.floats(-1e300, 1e300) | st.sampled_from([float("nan"), float("inf")])


@settings(deadline=None, max_examples=40)
@given(
    values=st.lists(
        st.dictionaries(st.sampled_from([*METRICS, "other"]), VALUES, max_size=len(METRICS)),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_an_engine_measures_the_entry_is_json(values: list[dict[str, float]]) -> None:
    point = Point(RouterParameters(), {"tp": 1}, 2, "manifest")
    (entry,) = yaml.safe_load(scored(point, [Metrics(each) for each in values], Objective.TTFT).text)
    metrics = entry["metrics"]
    assert len(metrics["replications"]) == len(values)
    for name in METRICS:
        measured = [replication[name] for replication in metrics["replications"] if name in replication]
        assert all(isinstance(value, int | float) for value in measured)
        assert (name in metrics) <= (len(measured) == len(values))


def test_a_snapshot_of_a_hundred_candidates_stays_small(tmp_path: Path) -> None:
    values = dict.fromkeys(METRICS, 1000 / 3)
    point = plan().points[0]
    candidate = scored(point, [Metrics(values)] * 8, Objective.TTFT)
    snapshot_file(tmp_path).write(Snapshot(candidates=(candidate,) * 100))
    assert (tmp_path / SNAPSHOT_FILE).stat().st_size < 1 << 20
