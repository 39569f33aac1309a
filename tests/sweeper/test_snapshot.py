"""The snapshot file: whole or not at all, never changed once it is final."""

import os
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from sweeper_cases import read_snapshot

from dgdr_retune.api import SNAPSHOT_FILE
from dgdr_retune.sweeper._errors import TraceUnusableError
from dgdr_retune.sweeper._snapshot import Evaluations, Snapshot, SnapshotFile

ERROR = TraceUnusableError("the trace is empty")


def evaluations(feasible: int, **others: int) -> Evaluations:
    return Evaluations(**{"scheduled": 0, "running": 0, "infeasible": 0, "failed": 0, "feasible": feasible} | others)


def now() -> datetime:
    return datetime(2026, 11, 30, 13, 20, 7, 999_999, tzinfo=timezone(timedelta(hours=1)))


def file(directory: Path) -> SnapshotFile:
    return SnapshotFile(directory, now)


def test_times_are_utc_and_whole_seconds(tmp_path: Path) -> None:
    file(tmp_path).write(Snapshot())
    assert read_snapshot(tmp_path) == {
        "schemaVersion": 1,
        "timestamp": "2026-11-30T12:20:07Z",
        "run": {"phase": "Running", "terminal": False},
        "progress": {"round": 0, "evaluated": 0},
        "candidates": [],
    }


def test_the_mode_is_0644_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        file(tmp_path).write(Snapshot())
    finally:
        os.umask(before)
    read_snapshot(tmp_path)


def test_a_failure_says_reason_and_cause_within_its_bound(tmp_path: Path) -> None:
    file(tmp_path).write(Snapshot(evaluations=evaluations(1, scheduled=5, running=2, failed=1)).failed(ERROR))
    snapshot = read_snapshot(tmp_path)
    assert snapshot["run"] == {
        "phase": "Failed",
        "terminal": True,
        "message": "the trace is empty",
        "error": "TraceUnusable: the trace is empty",
    }
    counts = {"scheduled": 5, "running": 0, "feasible": 1, "infeasible": 0, "failed": 3}
    assert snapshot["progress"] == {"round": 0, "evaluated": 4, "evaluations": counts}, "nothing runs any more"
    file(tmp_path).write(Snapshot().failed(TraceUnusableError("\x07\U0001f600\n" * 1000)))
    error = read_snapshot(tmp_path)["run"]["error"]
    assert len(error) == 500
    assert error.isprintable()


def test_a_final_snapshot_stays(tmp_path: Path) -> None:
    snapshots = file(tmp_path)
    snapshots.write(Snapshot(phase="Succeeded", message="done"))
    snapshots.write(Snapshot().failed(ERROR))
    snapshots.write(Snapshot())
    assert read_snapshot(tmp_path)["run"]["message"] == "done"


def test_what_a_writer_left_that_died_is_written_over(tmp_path: Path) -> None:
    (tmp_path / f".{SNAPSHOT_FILE}.tmp").write_text("half of a snap")
    file(tmp_path).write(Snapshot())
    read_snapshot(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [SNAPSHOT_FILE]


def test_a_link_in_the_temporary_files_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / f".{SNAPSHOT_FILE}.tmp").symlink_to("other")
    with pytest.raises(OSError, match="symbolic link"):
        file(tmp_path).write(Snapshot())
    assert (tmp_path / "other").read_text() == "mine"


def test_a_write_that_fails_leaves_the_file_and_may_be_repeated(tmp_path: Path, monkeypatch: Any) -> None:
    snapshots = file(tmp_path)
    snapshots.write(Snapshot())

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            snapshots.write(Snapshot(phase="Succeeded"))
        assert read_snapshot(tmp_path)["run"]["phase"] == "Running"
    snapshots.write(Snapshot(phase="Succeeded"))
    assert read_snapshot(tmp_path)["run"]["phase"] == "Succeeded"


def test_a_reader_sees_whole_snapshots_alone(tmp_path: Path) -> None:
    snapshots, done = file(tmp_path), threading.Event()
    snapshots.write(Snapshot())

    def write() -> None:
        for evaluated in range(200):
            snapshots.write(Snapshot(evaluations=evaluations(evaluated), message="x" * 300))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = [0]
    while not done.is_set():
        seen.append(read_snapshot(tmp_path)["progress"]["evaluated"])
    writer.join()
    assert seen == sorted(seen)


FOREIGN = {
    "schemaVersion": 1,
    "timestamp": "2026-11-30T12:00:00Z",
    "run": {"phase": "Running", "terminal": False},
    "progress": {"round": 3, "evaluated": 40},
    "candidates": [],
    "more": "kept",
}


def test_what_another_program_wrote_is_ended_and_otherwise_kept(tmp_path: Path) -> None:
    (tmp_path / SNAPSHOT_FILE).write_text(yaml.safe_dump(FOREIGN))
    assert file(tmp_path).end_foreign(ERROR) == "Failed"
    expected = {"timestamp": "2026-11-30T12:20:07Z", "run": Snapshot().failed(ERROR).run_section()}
    assert read_snapshot(tmp_path) == FOREIGN | expected


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_another_program_ended_stays(phase: str, tmp_path: Path) -> None:
    text = yaml.safe_dump(FOREIGN | {"run": {"phase": phase, "terminal": True}})
    (tmp_path / SNAPSHOT_FILE).write_text(text)
    assert file(tmp_path).end_foreign(ERROR) == phase
    assert (tmp_path / SNAPSHOT_FILE).read_text() == text


@pytest.mark.parametrize("text", [None, "", "[", "run: 3", "- 1", "\x00"])
def test_what_is_no_snapshot_is_replaced(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / SNAPSHOT_FILE).write_text(text)
    assert file(tmp_path).end_foreign(ERROR) == "Failed"
    assert read_snapshot(tmp_path)["run"]["message"] == "the trace is empty"


def test_the_other_program_is_stopped_before_its_file_is_read(tmp_path: Path) -> None:
    def stop() -> None:
        (tmp_path / SNAPSHOT_FILE).write_text(yaml.safe_dump(FOREIGN | {"more": "its last word"}))

    file(tmp_path).end_foreign(ERROR, stop)
    assert read_snapshot(tmp_path)["more"] == "its last word"
    assert datetime.fromisoformat(read_snapshot(tmp_path)["timestamp"]).tzinfo == UTC
