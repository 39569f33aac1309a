"""dgdr-retune-simulate."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from dgdr_retune.testing import Fault, _simulate, undisturbed
from dgdr_retune.testing._simulate import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["dgdr-retune-simulate", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_it_counts_faults_crashes_and_writes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    result = tmp_path / "result.json"
    status = run(monkeypatch, "--seeds", "3", "--first", "7", "--scenario", "main-path", "--json", str(result))
    shown, said = capsys.readouterr().out, json.loads(result.read_text())
    assert status == 0
    assert shown.startswith("3 seeds, 0 of them failed\n")
    assert (said["first"], said["seeds"], said["failures"]) == (7, 3, [])
    assert list(said["faults"]) == list(Fault)
    assert said["writes"]["create jobs"] >= 3
    assert all(f"  {name}\n" in shown for name in said["crashes_after"])


@pytest.mark.parametrize(
    "other", [{"state": {"batch/jobs": ["default/another one"]}}, {"problems": ("it fails undisturbed",)}]
)
def test_a_failure_is_shown_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, other: dict[str, Any]
) -> None:
    monkeypatch.setattr(_simulate, "undisturbed", lambda scenario: evolve(undisturbed(scenario), **other))
    result = tmp_path / "result.json"
    assert run(monkeypatch, "--seeds", "1", "--scenario", "static", "--json", str(result)) == 1
    (failure,) = json.loads(result.read_text())["failures"]
    assert (failure["scenario"], failure["seed"]) == ("static", 0)
    assert failure["problems"]
    shown = capsys.readouterr().out
    assert "--first 0 --seeds 1 --scenario static\n" in shown
    assert failure["problems"][0] in shown


def test_an_unknown_scenario_is_refused_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--seeds", "1", "--scenario", "nothing") == 2
    assert "main-path" in capsys.readouterr().err
