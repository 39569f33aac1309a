import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
import zstandard
from typer.testing import CliRunner, Result

from dgdr_retune.cli._app import app
from dgdr_retune.planner import load_configuration
from dgdr_retune.windows import read_header
from hostile import HOSTILE

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart"
WINDOW_END_MS = 1796040000000


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def config(tmp_path: Path, _compiled_simulator: None) -> Path:
    """The quickstart in a directory of its own, with few replays."""
    shutil.copytree(QUICKSTART / "segments", tmp_path / "segments")
    document = yaml.safe_load((QUICKSTART / "retune.yaml").read_text())
    document["retune"] |= {
        "grid": {
            "overlap_score_credit": {"choices": [0, 1]},
            "prefill_load_scale": 1.0,
            "temperature": {"choices": [0, 0.5]},
        },
        "replications": {"initial": 2, "maximum": 8},
        "budget_seconds": 600,
    }
    path = tmp_path / "retune.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def change(config: Path, section: str, **values: object) -> None:
    document = yaml.safe_load(config.read_text())
    document[section] |= values
    config.write_text(yaml.safe_dump(document))


def decision(config: Path) -> dict:
    return json.loads((config.parent / "result" / "decision.json").read_text(), parse_constant=pytest.fail)


def test_calibrate_writes_an_engine_section_that_retune_takes(config: Path) -> None:
    result = call("calibrate", config)
    assert result.exit_code == 0, result.output
    written = (config.parent / "result" / "calibrated-engine.yaml").read_text()
    assert result.stdout == written
    assert written.startswith("# Fitted to 3000 requests that arrived from 2026-11-30T11:40:00.000Z")
    page = (config.parent / "result" / "calibration.html").read_text()
    assert page.count("data:image/svg+xml") == 1
    assert "<script" not in page
    document = yaml.safe_load(config.read_text())
    document["deployment"] |= yaml.safe_load(written)
    document["retune"]["arrival_speedup_ratio"] = 1.0
    config.write_text(yaml.safe_dump(document))
    assert call("retune", config).exit_code == 0
    report = (config.parent / "result" / "report.html").read_text()
    assert "requests waited in the recording in a way that the simulation does not reproduce" in report
    assert "The timing is calibrated already" in report


def test_calibrate_says_why_there_is_no_fit(config: Path) -> None:
    (config.parent / "segments" / "frontend-1" / "trace.000000.jsonl.gz").unlink()
    path = config.parent / "segments" / "frontend-0" / "trace.000000.jsonl.gz"
    path.write_bytes(path.read_bytes()[:40_000])
    change(config, "recording", frontends=["frontend-0"])
    result = call("calibrate", config)
    assert result.exit_code == 1
    assert "at least 500 are needed" in result.stderr
    assert not (config.parent / "result").exists()


def test_an_output_that_cannot_be_written_is_an_error_of_usage(config: Path) -> None:
    (config.parent / "file").write_text("")
    change(config, "recording", windows=str(config.parent / "file" / "below"))
    for command in ("calibrate", "cut"):
        result = call(command, config)
        assert result.exit_code == 2
        assert "give another `recording.windows` directory" in result.stderr


def test_retune_goes_from_segments_to_a_decision_a_record_and_a_report(config: Path) -> None:
    result = call("retune", config)
    assert result.exit_code == 0, result.output
    document = decision(config)
    assert document["schema"] == "dgdr-retune/decision/v1"
    assert document["outcome"] in {"kept", "recommended"}
    assert document["recording"]["counts"]["rows"] == 3000
    window = Path(document["recording"]["file"])
    assert window == config.parent / "windows" / "chat" / f"{WINDOW_END_MS}.jsonl.gz"
    assert read_header(window).sha256 == document["recording"]["sha256"]
    sweep = json.loads(
        zstandard.decompress((config.parent / "result" / "sweep.json.zst").read_bytes()), parse_constant=pytest.fail
    )
    assert all(len(candidate["replications"]) >= 2 for candidate in sweep["candidates"])
    report = (config.parent / "result" / "report.html").read_text()
    assert document["reasons"][0].split(":")[0] in report.replace("&#39;", "'")
    assert f"Decision: {document['outcome']}" in result.stdout
    assert not list((config.parent / "result").glob(".*"))


def test_retune_again_reuses_the_window_and_replaces_the_results(config: Path) -> None:
    call("retune", config)
    first = decision(config)
    window = Path(first["recording"]["file"])
    before = window.stat()
    result = call("retune", config)
    assert result.exit_code == 0
    assert "window reused" in result.output
    assert (window.stat().st_ino, window.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    second = decision(config)
    assert second["best"] == first["best"]
    assert second["recording"]["counts"] == first["recording"]["counts"]


@pytest.mark.parametrize(
    ("section", "values", "reason"),
    [
        ("recording", {"minimum_rows": 3001}, "fewer than the 3001"),
        ("recording", {"frontends": ["frontend-0", "frontend-1", "frontend-2"]}, "frontend frontend-2 has no row"),
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["fresh", "reused"])
def test_a_window_that_is_short_or_misses_a_frontend_is_never_more_than_kept(
    config: Path, section: str, values: dict, reason: str, *, again: bool
) -> None:
    change(config, section, **values)
    change(config, "retune", min_improvement_percentage=0.0, replications={"initial": 8, "maximum": 8})
    for _ in range(1 + again):
        assert call("retune", config).exit_code == 0
    document = decision(config)
    assert document["outcome"] == "kept"
    assert document["router"] == document["baseline"]
    assert any(reason in said for said in document["reasons"])


def test_a_window_without_requests_is_no_traffic(config: Path) -> None:
    result = call("retune", config, "--window", WINDOW_END_MS - 1_200_000)
    assert result.exit_code == 0
    assert decision(config)["outcome"] == "no_traffic"
    assert not (config.parent / "result" / "sweep.json.zst").exists()


def test_before_the_windows_grace_has_passed_there_is_nothing_to_decide_on(config: Path) -> None:
    assert call("retune", config, "--now", WINDOW_END_MS + 59_999).exit_code == 0
    assert decision(config)["outcome"] == "no_traffic"
    assert call("cut", config, "--now", WINDOW_END_MS + 60_000).exit_code == 0
    assert (config.parent / "windows" / "chat" / f"{WINDOW_END_MS}.jsonl.gz").exists()


def test_segments_that_cannot_be_read_are_a_failed_decision_with_its_reason(config: Path) -> None:
    shutil.rmtree(config.parent / "segments")
    result = call("retune", config)
    assert result.exit_code == 1
    document = decision(config)
    assert document["outcome"] == "failed"
    assert document["failure"]["reason"] == "segments_unreadable"
    assert "failed" in (config.parent / "result" / "report.html").read_text()


def test_a_damaged_window_file_is_never_replayed(config: Path) -> None:
    call("cut", config)
    window = config.parent / "windows" / "chat" / f"{WINDOW_END_MS}.jsonl.gz"
    content = bytearray(window.read_bytes())
    content[len(content) // 2] ^= 1
    window.write_bytes(content)
    assert call("retune", config).exit_code == 1
    assert decision(config)["failure"]["reason"] == "window_corrupt"
    assert window.read_bytes() == content


def test_a_fault_of_the_configuration_is_printed_with_line_and_ends_with_2(config: Path) -> None:
    change(config, "retune", confidence=2)
    result = call("retune", config)
    assert result.exit_code == 2
    assert re.search(r"retune\.yaml:\d+: retune\.confidence: ", result.output)
    assert not (config.parent / "result").exists()


def test_an_output_that_cannot_be_written_ends_with_2(config: Path) -> None:
    (config.parent / "result").write_text("a file")
    result = call("retune", config)
    assert result.exit_code == 2
    assert "give another `output` directory" in result.output


def test_print_config_shows_every_default_and_loads_again(config: Path) -> None:
    result = call("retune", config, "--print-config")
    assert result.exit_code == 0
    again = config.parent / "again.yaml"
    again.write_text(result.stdout)
    assert load_configuration(again) == load_configuration(config)
    assert yaml.safe_load(result.stdout)["recording"]["cut_budget_seconds"] == 120


def test_cut_publishes_a_window_once(config: Path) -> None:
    first, second = call("cut", config), call("cut", config)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "published" in first.stdout
    assert "reused" in second.stdout
    assert "3,000" in first.stdout


def test_inspect_counts_what_is_recorded(recorded: Path) -> None:
    result = call("inspect", recorded)
    assert result.exit_code == 0
    assert "8,862 rows in 7 segments, 407 members" in result.stdout
    members = re.findall(r"frontend-(\d)\s+trace\.\d{6}\.jsonl\.gz\s+(\d+)\s", result.stdout)
    assert members == [("0", "70"), ("0", "77"), ("0", "64"), ("1", "68"), ("1", "73"), ("1", "28"), ("1", "27")]
    assert result.stdout.count(" none") == 7


def test_inspect_says_that_a_tail_is_truncated(recorded: Path, tmp_path: Path) -> None:
    shutil.copytree(recorded, tmp_path / "segments")
    segment = tmp_path / "segments" / "frontend-1" / "trace.000001.jsonl.gz"
    os.truncate(segment, segment.stat().st_size - 100)
    result = call("inspect", tmp_path / "segments")
    assert "1 truncated tail" in result.stdout
    assert "406 members" in result.stdout


def test_hostile_names_reach_the_terminal_as_text_only(recorded: Path, tmp_path: Path) -> None:
    for at, text in enumerate(HOSTILE):
        name = text.replace("/", "_")[:200]
        (tmp_path / "segments" / name).mkdir(parents=True)
        pod = tmp_path / "segments" / f"pod-{at}"
        pod.mkdir()
        shutil.copy(recorded / "frontend-1" / "trace.000003.jsonl.gz", pod / f"{name}.000000.jsonl.gz")
    result = call("inspect", tmp_path / "segments")
    assert result.exit_code == 0
    assert set(result.stdout) <= set(map(chr, range(0x20, 0x7F))) | {"\n", "…"}
    assert not [line for line in result.stdout.splitlines() if line.startswith(("ERROR", "b"))]
    assert r"\x1b[2J" in result.stdout


def test_an_arrival_beyond_the_calendar_is_shown_as_its_number(recorded: Path, tmp_path: Path) -> None:
    row = gzip.decompress((recorded / "frontend-1" / "trace.000003.jsonl.gz").read_bytes()).splitlines()[0]
    far = re.sub(rb'"request_received_ms":\s*\d+', b'"request_received_ms": 1000000000000000', row)
    pod = tmp_path / "segments" / "frontend-0"
    pod.mkdir(parents=True)
    (pod / "trace.000000.jsonl.gz").write_bytes(gzip.compress(far + b"\n"))
    result = call("inspect", tmp_path / "segments")
    assert result.exit_code == 0
    assert "1000000000000000 ms" in result.stdout


@pytest.mark.parametrize("name", ["123", "1e5", "true", "null", "Chat_1"])
def test_what_init_writes_loads_whatever_the_directories_are_called(recorded: Path, tmp_path: Path, name: str) -> None:
    pod = tmp_path / name / name.lower().replace("_", "-")
    pod.mkdir(parents=True)
    shutil.copy(recorded / "frontend-1" / "trace.000003.jsonl.gz", pod)
    target = tmp_path / "retune.yaml"
    assert call("init", tmp_path / name, "--output", target).exit_code == 0
    configuration = load_configuration(target)
    assert configuration.recording.frontends == (pod.name,)
    assert configuration.recording.segments.resolve() == tmp_path / name


def test_init_of_an_empty_directory_leaves_the_frontends_open(tmp_path: Path) -> None:
    (tmp_path / "segments").mkdir()
    target = tmp_path / "retune.yaml"
    assert call("init", tmp_path / "segments", "--output", target).exit_code == 0
    assert load_configuration(target).recording.frontends is None


def test_windows_that_cannot_be_made_end_with_2(config: Path) -> None:
    (config.parent / "windows").write_text("a file")
    for command in ("retune", "cut"):
        result = call(command, config)
        assert result.exit_code in {1, 2}
        assert "give another `recording.windows` directory" in result.output


def test_a_plan_that_does_not_fit_says_so(config: Path) -> None:
    values = {"choices": list(range(31))}
    change(config, "retune", grid={"overlap_score_credit": values, "prefill_load_scale": values, "temperature": 0})
    assert "does not fit: at most 3 may run" in call("plan", config).stdout


def test_init_writes_a_configuration_that_loads_and_never_overwrites(recorded: Path, tmp_path: Path) -> None:
    target = tmp_path / "retune.yaml"
    result = call("init", recorded, "--output", target)
    assert result.exit_code == 0
    configuration = load_configuration(target)
    assert configuration.recording.frontends == ("frontend-0", "frontend-1")
    assert configuration.recording.segments.resolve() == recorded
    assert configuration.deployment.engine.workers.aggregated.kv_cache.block_size == 64
    assert "CHECK" in target.read_text()
    before = target.read_text()
    again = call("init", recorded, "--output", target)
    assert again.exit_code == 2
    assert target.read_text() == before


def test_plan_shows_shards_and_time(tmp_path: Path) -> None:
    document = yaml.safe_load((QUICKSTART / "retune.yaml").read_text())
    del document["retune"]["grid"]
    config = tmp_path / "retune.yaml"
    config.write_text(yaml.safe_dump(document))
    result = call(
        "plan", config, "--max-shards", 3, "--parallelism", 2, "--startup-seconds", 60, "--candidate-seconds", 10
    )
    assert result.exit_code == 0
    assert "108 points in 3 shards: 18 rounds, 240 s" in result.stdout
    assert "72 … 107" in result.stdout


@pytest.mark.parametrize("command", ["retune", "cut", "inspect", "init", "plan", "reference"])
def test_every_command_has_help(command: str) -> None:
    assert command in call("--help").stdout
    result = call(command, "--help")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) > 5


def test_help_documents_the_exit_codes() -> None:
    assert "Exit codes: 0" in " ".join(call("--help").stdout.split())


def test_the_module_is_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "dgdr_retune", "--version"], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"dgdr-retune \d+\.\d+\.\d+\n", result.stdout)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_at_once_and_leaves_nothing_behind(config: Path, number: signal.Signals) -> None:
    change(config, "retune", replications={"initial": 5000, "maximum": 10000}, processes=2)
    output = config.parent / "result"
    output.mkdir()
    (output / "decision.json").write_text("of another time")
    process = subprocess.Popen(
        [sys.executable, "-m", "dgdr_retune", "retune", config],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (workers := children(process.pid, "sweep._worker")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == -number
    assert stdout == ""
    assert f"stopped by {number.name}" in stderr
    assert [worker for worker in workers if Path(f"/proc/{worker}").exists()] == []
    assert [path.name for path in output.iterdir()] == ["decision.json"]
    assert [path.name for path in (config.parent / "windows" / "chat").iterdir()] == [f"{WINDOW_END_MS}.jsonl.gz"]


def children(parent: int, module: str) -> list[int]:
    """Processes below `parent` that run `module`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (path / "stat").read_text(), (path / "cmdline").read_text()
        except OSError:
            continue
        if status.rpartition(")")[2].split()[1] == str(parent) and module in command:
            found.append(int(path.name))
    return found
