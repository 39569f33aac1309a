"""The process as a Job runs it: exit statuses, the snapshot that each end leaves, signals, and AISimulate's part."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from sweeper_cases import document, grid_point, read_snapshot

from dgdr_retune.api import SNAPSHOT_FILE

Json = Any
WITHIN_S = 120.0
AT_ONCE_S = 5.0
"""A second on a machine that has nothing else to do."""


def environment(what: Json, **more: str) -> dict[str, str]:
    text = what if isinstance(what, str) else json.dumps(what)
    return {**os.environ, "DGDR_RETUNE_INPUT": text, "PATH": os.defpath, **more}


def command(directory: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "dgdr_retune.sweeper", "--snapshot-dir", str(directory), *arguments]


def run(directory: Path, what: Json, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(directory, *arguments),
        env=environment(what, **more),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


@contextmanager
def running(directory: Path, what: Json, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command(directory), env=environment(what, **more), start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition: Any) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.01)
    return found


def children(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def test_a_grid_is_evaluated_and_ends_with_its_best_candidates(window: Path, tmp_path: Path) -> None:
    what = document(window, dgdr_run={"max_candidates": 4}, evaluation={"sla": {"ttft_ms": 200, "itl_ms": 50}})
    ended = run(tmp_path, what, DGDR_RETUNE_REPLICATIONS="3")
    assert (ended.returncode, ended.stderr) == (0, "")
    snapshot = read_snapshot(tmp_path)
    assert snapshot["run"]["phase"] == "Succeeded"
    assert snapshot["progress"]["evaluated"] == 6
    assert len(snapshot["candidates"]) == 4
    scores = [candidate["metrics"]["score"] for candidate in snapshot["candidates"]]
    assert scores == sorted(scores, reverse=True)
    for candidate in snapshot["candidates"]:
        metrics = candidate["metrics"]
        assert metrics["score"] == pytest.approx(-metrics["mean_ttft_ms"], rel=1e-12)
        assert [each["completed_requests"] for each in metrics["replications"]] == [946] * 3
        assert metrics["goodput_completed_requests"] > 0


def test_the_same_input_gives_the_same_numbers_whatever_runs_beside(window: Path, tmp_path: Path) -> None:
    whole = document(window, dgdr_run={"max_candidates": 9})
    part = document(window, optimizer={"parallelism": 1}, router={"overlap_score_credit": 0.5, "temperature": 1})
    found = []
    for name, what in (("whole", whole), ("part", part)):
        assert run(tmp_path / name, what, DGDR_RETUNE_REPLICATIONS="2").returncode == 0
        candidates = read_snapshot(tmp_path / name)["candidates"]
        found.append({grid_point(each): (each["id"], each["metrics"]) for each in candidates})
    assert len(found[0]) == 6
    assert found[0][0.5, 1, 1] == found[1][0.5, 1, 1]


def test_the_input_may_come_from_a_file_that_also_names_the_directory(window: Path, tmp_path: Path) -> None:
    what = document(window, dgdr_run={"snapshot_dir": str(tmp_path / "here")}, router={"temperature": 0})
    (tmp_path / "input.yaml").write_text(yaml.safe_dump(what))
    arguments = [sys.executable, "-m", "dgdr_retune.sweeper", "--config", str(tmp_path / "input.yaml")]
    assert subprocess.run(arguments, check=False, timeout=WITHIN_S).returncode == 0
    assert len(read_snapshot(tmp_path / "here")["candidates"]) == 3


@pytest.mark.dynamo
def test_dynamos_own_engine_replays_where_it_is_asked_for(window: Path, tmp_path: Path) -> None:
    ended = run(tmp_path, document(window, router={"temperature": 0}), "--engine", "dynamo")
    assert (ended.returncode, ended.stderr) == (0, "")
    snapshot = read_snapshot(tmp_path)
    assert "on engine dynamo" in snapshot["run"]["message"]
    assert [each["metrics"]["completed_requests"] for each in snapshot["candidates"]] == [946] * 3


def refused(directory: Path, what: Json, *arguments: str, status: int = 2, **more: str) -> str:
    """The cause, which standard error and the snapshot name alike."""
    ended = run(directory, what, *arguments, **more)
    assert ended.returncode == status, ended.stderr
    snapshot = read_snapshot(directory)
    assert snapshot["run"]["phase"] == "Failed"
    assert snapshot["candidates"] == []
    error: str = snapshot["run"]["error"]
    assert ended.stderr.strip()[:500] == error
    assert error.endswith(snapshot["run"]["message"])
    return error


def test_a_trace_that_is_missing_empty_a_directory_or_damaged_is_refused_with_the_cause(
    window: Path, tmp_path: Path
) -> None:
    (tmp_path / "directory.jsonl.gz").mkdir()
    (tmp_path / "empty.jsonl.gz").touch()
    (tmp_path / "short.jsonl.gz").write_bytes(window.read_bytes()[:-100])
    (tmp_path / "nothing.jsonl.gz").write_bytes(gzip.compress(b""))
    causes = {
        "missing": "No such file or directory",
        "directory": "it is a directory",
        "empty": "it is empty",
        "short": "no intact gzip member",
        "nothing": "0 rows",
    }
    for name, cause in causes.items():
        error = refused(tmp_path, document(tmp_path / f"{name}.jsonl.gz"))
        assert error.startswith("TraceUnusable: the trace ")
        assert cause in error


def test_an_input_that_is_not_usable_is_refused_with_the_path(window: Path, tmp_path: Path) -> None:
    timing = {"workers": {"aggregated": {"timing": None}}}
    assert "engine.workers.aggregated.timing: " in refused(tmp_path, document(window, engine=timing))
    assert "DGDR_RETUNE_INPUT: not JSON" in refused(tmp_path, "{")
    assert "dgdr_run: missing" in refused(tmp_path, document(window, dgdr_run=None))
    assert "DGDR_RETUNE_REPLICATIONS" in refused(tmp_path, document(window), DGDR_RETUNE_REPLICATIONS="many")
    assert "model_name: " in refused(tmp_path, document(window, engine={"model": None}))


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"traffic": {"source": {"type": "synthetic", "format": None, "paths": None}}}, "traffic.source.type"),
        ({"engine": {"backend": "sglang"}}, "engine.backend"),
        ({"optimizer": {"algorithm": "bayesian"}}, "optimizer.algorithm"),
        ({"planner": {"policy": "disabled"}}, "planner"),
        ({"dgdr_run": {"generator": "aic"}}, "dgdr_run.generator: only AISimulate has aic; use direct"),
    ],
)
def test_what_only_aisimulate_evaluates_is_refused_without_it(
    changes: dict[str, Any], cause: str, window: Path, tmp_path: Path
) -> None:
    error = refused(tmp_path, document(window, **changes))
    assert error.startswith("AISimulateMissing: this input is for AISimulate, which is not installed here (")
    assert cause in error


def test_an_engine_that_is_not_installed_is_refused(window: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "dynamo" / "__init__.py"
    hidden.parent.mkdir(parents=True)
    hidden.write_text("raise ImportError('not here')")
    search = {"PYTHONPATH": str(tmp_path / "hidden")}
    assert "EngineMissing: " in refused(tmp_path, document(window), "--engine", "dynamo", **search)


def test_gpus_out_of_bounds_and_another_block_size_leave_nothing_feasible(window: Path, tmp_path: Path) -> None:
    budget = document(window, optimization={"constraints": {"max_candidate_gpus": 2}})
    assert "the engine takes 4 GPUs" in refused(tmp_path, budget, status=1)
    workers = {"aggregated": {"kv_cache": {"block_size": 32}}}
    error = refused(tmp_path, document(window, engine={"workers": workers}), status=1)
    assert "no feasible candidate found: trace_not_replayable" in error


def test_a_snapshot_that_cannot_be_written_is_a_failure(window: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = run(tmp_path / "file", document(window))
    assert ended.returncode == 1
    assert "SnapshotNotWritten: " in ended.stderr


def test_a_wrong_argument_is_refused_and_help_names_the_exit_statuses(tmp_path: Path) -> None:
    assert run(tmp_path, "{}", "--engine", "other").returncode == 2
    text = run(tmp_path, "{}", "--help").stdout
    assert all(f"  {status} " in text for status in (0, 1, 2, 130, 143))


HUGE = {
    "optimizer": {"max_trials": 1000},
    "router": {"temperature": {"choices": None, "range": {"min": 0, "max": 9.9, "step": 0.1}}},
    "dgdr_run": {"snapshot_interval_seconds": 0},
}


def test_more_replications_than_a_snapshot_holds_are_refused_before_anything_is_replayed(
    window: Path, tmp_path: Path
) -> None:
    what = document(window, **HUGE | {"dgdr_run": {"max_candidates": 100}})
    error = refused(tmp_path, what, DGDR_RETUNE_REPLICATIONS="81")
    assert error.endswith(
        "81 replications of 100 candidates are too much for one snapshot; ask for at most 80, or for fewer candidates"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_with_its_children_and_a_final_snapshot(
    number: signal.Signals, window: Path, tmp_path: Path
) -> None:
    with running(tmp_path, document(window, **HUGE), DGDR_RETUNE_REPLICATIONS="5") as process:
        until(lambda: (tmp_path / SNAPSHOT_FILE).exists() and read_snapshot(tmp_path)["progress"]["evaluated"])
        workers = children(process.pid)
        assert workers
        begun = time.monotonic()
        process.send_signal(number)
        assert process.wait(AT_ONCE_S) == 128 + number
        until(lambda: not any(map(alive, workers)))
        assert time.monotonic() - begun < AT_ONCE_S
    snapshot = read_snapshot(tmp_path)
    assert snapshot["run"]["error"] == f"Terminated: ended by {number.name} before the evaluation was complete"
    assert 0 < len(snapshot["candidates"]) <= 5
    assert snapshot["progress"]["evaluated"] > 0


TAKING_OVER = """
import signal, time
install = signal.signal
def interrupted(number, handler):
    install(number, handler)
    signal.raise_signal(number)
signal.signal = interrupted
from dgdr_retune.sweeper._termination import end_on_signals
end_on_signals(lambda number: None)
time.sleep(600)
"""


def test_a_signal_that_comes_while_signals_are_taken_over_is_not_lost() -> None:
    ended = subprocess.run([sys.executable, "-c", TAKING_OVER], timeout=WITHIN_S, check=False)
    assert ended.returncode == 128 + signal.SIGTERM


def test_a_signal_that_comes_while_it_is_loading_ends_it_too(tmp_path: Path) -> None:
    marker = tmp_path / "loading"
    (tmp_path / "attrs.py").write_text(
        f"import pathlib, time\npathlib.Path({str(marker)!r}).touch()\ntime.sleep(600)\n"
    )
    with running(tmp_path, document(), PYTHONPATH=str(tmp_path)) as process:
        until(marker.exists)
        process.terminate()
        assert process.wait(AT_ONCE_S) == 128 + signal.SIGTERM


def test_the_first_snapshot_is_there_before_anything_is_evaluated(window: Path, tmp_path: Path) -> None:
    what = document(window, **HUGE | {"dgdr_run": {"snapshot_interval_seconds": 600}})
    with running(tmp_path, what, DGDR_RETUNE_REPLICATIONS="5"):
        until((tmp_path / SNAPSHOT_FILE).exists)
        snapshot = read_snapshot(tmp_path)
    assert snapshot["run"] == {"phase": "Running", "terminal": False}
    assert snapshot["progress"]["evaluated"] == 0


def test_workers_die_with_a_process_that_is_killed(window: Path, tmp_path: Path) -> None:
    with running(tmp_path, document(window, **HUGE), DGDR_RETUNE_REPLICATIONS="5") as process:
        workers = until(lambda: children(process.pid))
        process.kill()
        until(lambda: not any(map(alive, workers)))


AISIMULATE = """\
#!{python}
import json, os, pathlib, subprocess, sys, time, yaml
arguments = sys.argv[1:]
document = yaml.safe_load(pathlib.Path(arguments[arguments.index("--config") + 1]).read_text())
directory = pathlib.Path(document["dgdr_run"]["snapshot_dir"])
(directory / "seen.json").write_text(json.dumps({{"arguments": arguments, "document": document}}))
phase, status = os.environ["PHASE"], int(os.environ["STATUS"])
if phase:
    run = {{"phase": phase, "terminal": phase != "Running"}}
    progress = {{"round": 2, "evaluated": 7}}
    snapshot = {{"schemaVersion": 1, "timestamp": "2026-11-30T12:00:00Z", "run": run, "progress": progress}}
    (directory / "dgdr_run_snapshot.yaml").write_text(yaml.safe_dump(snapshot | {{"candidates": []}}))
print("error: it says why", file=sys.stderr)
if status < 0:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    (directory / "hangs").write_text(str(child.pid))
    time.sleep(600)
sys.exit(status)
"""

SYNTHETIC = {"traffic": {"source": {"type": "synthetic", "format": None, "paths": None}, "load": None}}


@pytest.fixture
def aisimulate(tmp_path: Path) -> str:
    """A PATH with a program of that name, which does what PHASE and STATUS say."""
    program = tmp_path / "bin" / "aisimulate"
    program.parent.mkdir()
    program.write_text(AISIMULATE.format(python=sys.executable))
    program.chmod(0o755)
    return f"{program.parent}:{os.defpath}"


def test_any_other_input_is_handed_to_aisimulate(aisimulate: str, tmp_path: Path) -> None:
    what = document(**SYNTHETIC, dgdr_run={"snapshot_dir": "/elsewhere"})
    ended = run(tmp_path, what, PATH=aisimulate, PHASE="Succeeded", STATUS="0")
    assert (ended.returncode, ended.stderr) == (0, "error: it says why\n")
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["document"] == document(**SYNTHETIC, dgdr_run={"snapshot_dir": str(tmp_path)})
    assert seen["arguments"][:4] == ["recommend", "--stack", "dynamo", "--config"]
    assert seen["arguments"][5:8] == ["--output", "dgdr_run", "--output-dir"]
    assert read_snapshot(tmp_path)["progress"] == {"round": 2, "evaluated": 7}


@pytest.mark.parametrize(("status", "phase"), [(0, "Running"), (1, "Running"), (2, ""), (3, "Running"), (124, "")])
def test_an_end_of_aisimulate_without_a_result_is_a_final_snapshot_with_its_last_words(
    status: int, phase: str, aisimulate: str, tmp_path: Path
) -> None:
    ended = run(tmp_path, document(**SYNTHETIC), PATH=aisimulate, PHASE=phase, STATUS=str(status))
    assert ended.returncode == status
    snapshot = read_snapshot(tmp_path)
    cause = f"AISimulateFailed: aisimulate ended with exit status {status}: error: it says why"
    assert (snapshot["run"]["phase"], snapshot["run"]["error"]) == ("Failed", cause)
    assert snapshot["progress"]["evaluated"] == (7 if phase else 0)


@pytest.mark.parametrize(("phase", "status", "expected"), [("Succeeded", 3, 0), ("Failed", 3, 3), ("Succeeded", 1, 1)])
def test_running_out_of_resources_after_a_result_is_a_success(
    phase: str, status: int, expected: int, aisimulate: str, tmp_path: Path
) -> None:
    ended = run(tmp_path, document(**SYNTHETIC), PATH=aisimulate, PHASE=phase, STATUS=str(status))
    assert ended.returncode == expected
    assert read_snapshot(tmp_path)["run"]["phase"] == phase


def test_a_result_counts_whatever_aisimulate_leaves_behind(aisimulate: str, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "aisimulate"
    spoil = """
place = pathlib.Path(arguments[arguments.index("--config") + 1]).parent
place.rename(f"{place}.moved")
place.touch()
"""
    program.write_text(program.read_text().replace("sys.exit(status)", f"{spoil}sys.exit(status)"))
    more = {"PATH": aisimulate, "TMPDIR": str(tmp_path), "PHASE": "Succeeded", "STATUS": "0"}
    ended = run(tmp_path, document(**SYNTHETIC), **more)
    assert (ended.returncode, ended.stderr) == (0, "error: it says why\n")
    assert read_snapshot(tmp_path)["run"]["phase"] == "Succeeded"


def test_the_trace_is_checked_before_aisimulate_is_asked(aisimulate: str, tmp_path: Path) -> None:
    what = document(tmp_path, traffic={"source": {"format": "mooncake"}})
    assert "it is a directory" in refused(tmp_path, what, PATH=aisimulate, PHASE="Succeeded", STATUS="0")


def test_a_grid_that_runs_here_is_not_handed_over(aisimulate: str, window: Path, tmp_path: Path) -> None:
    what = document(window, router={"temperature": 0})
    assert run(tmp_path, what, PATH=aisimulate, PHASE="", STATUS="1").returncode == 0
    assert not (tmp_path / "seen.json").exists()


def test_a_signal_ends_aisimulate_and_its_children_too(aisimulate: str, tmp_path: Path) -> None:
    with running(tmp_path, document(**SYNTHETIC), PATH=aisimulate, PHASE="Running", STATUS="-1") as process:
        child = int(until(lambda: (tmp_path / "hangs").exists() and (tmp_path / "hangs").read_text()))
        programs = children(process.pid)
        process.terminate()
        assert process.wait(AT_ONCE_S) == 128 + signal.SIGTERM
        until(lambda: not any(map(alive, [child, *programs])))
    snapshot = read_snapshot(tmp_path)
    assert snapshot["run"]["error"] == "Terminated: ended by SIGTERM before the evaluation was complete"
    assert snapshot["progress"]["evaluated"] == 7
