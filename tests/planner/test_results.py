"""The files of a retune belong together wherever the process dies."""

import errno
import json
from pathlib import Path

import pytest

from dgdr_retune.planner import OutputError
from dgdr_retune.planner._results import DECISION, REPORT, SWEEP, write_results
from dgdr_retune.replay import RouterParameters
from dgdr_retune.report import RetuneRecord
from dgdr_retune.sweep import Demands, Failure, Objective, Rules, failed


class Died(BaseException):
    """The process is gone."""


def record(name: str) -> RetuneRecord:
    decision = failed(
        Failure("trace_corrupt", name), RouterParameters(), objective=Objective.TTFT, rules=Rules(), demands=Demands()
    )
    return RetuneRecord(name=name, decision=decision)


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_where_a_decision_stands_the_report_is_its_own_wherever_the_process_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, *, after: bool
) -> None:
    write_results(tmp_path, record("first"))
    (tmp_path / SWEEP).write_bytes(b"of the first")
    steps = iter(range(10))

    def dying(method: str) -> None:
        original = getattr(Path, method)

        def call(self: Path, *arguments: object, **options: object) -> object:
            if self.suffix == ".tmp" and method == "unlink":
                return original(self, *arguments, **options)
            dies = next(steps) == step
            if dies and not after:
                raise Died
            done = original(self, *arguments, **options)
            if dies:
                raise Died
            return done

        monkeypatch.setattr(Path, method, call)

    dying("replace")
    dying("unlink")
    with pytest.raises(Died):
        write_results(tmp_path, record("second"))
    if (tmp_path / DECISION).exists():
        name = json.loads((tmp_path / DECISION).read_text())["deployment"]
        assert f"<title>{name}: failed</title>" in (tmp_path / REPORT).read_text()
        assert (tmp_path / SWEEP).exists() == (name == "first")


def test_a_retune_without_a_sweep_leaves_no_sweep_of_another(tmp_path: Path) -> None:
    (tmp_path / SWEEP).write_bytes(b"of another")
    write_results(tmp_path, record("chat"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [DECISION, REPORT]


def test_results_that_cannot_be_written_leave_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_results(tmp_path, record("first"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        write_results(tmp_path, record("second"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_directory_that_cannot_be_written_is_an_error_that_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="give another `output` directory"):
        write_results(tmp_path / "file" / "below", record("chat"))
