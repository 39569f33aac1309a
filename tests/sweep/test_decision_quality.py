"""What the benchmark of decisions says of the windows that it was run on."""

import importlib
import json
import platform
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STORED = json.loads((BENCHMARKS / "results" / "decision_quality.json").read_text())


@pytest.fixture
def decision_quality(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("decision_quality")


def test_the_published_summary_is_that_of_the_published_windows(decision_quality: ModuleType) -> None:
    assert json.loads(json.dumps(decision_quality.summary(STORED["windows"]))) == STORED["summary"]


def test_every_pair_of_consecutive_windows_counts_as_stable_or_flipped(decision_quality: ModuleType) -> None:
    summary = decision_quality.summary(STORED["windows"])
    flipped = summary["flipped_on_the_next_window"]
    parts = [summary["replaced_on_the_next_window"], summary["kept_and_applied_on_the_next_window"]]
    assert (flipped["hits"], flipped["of"]) == (4, 45)
    for key in ("hits", "of"):
        assert flipped[key] == sum(part[key] for part in parts)
    assert (flipped["lower"], flipped["upper"]) == pytest.approx((0.035, 0.207), abs=5e-4)


def test_the_documentation_says_what_was_measured(decision_quality: ModuleType) -> None:
    text = (BENCHMARKS.parent / "docs" / "decisions.md").read_text()
    summary: dict[str, Any] = decision_quality.summary(STORED["windows"])
    for value in summary.values():
        if isinstance(value, dict):
            assert f"{value['hits']} of {value['of']}" in text


def test_a_result_says_when_and_on_what_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    about = importlib.import_module("machine").about()
    assert {"date", "cores", "dgdr_retune", "numpy", "numba", "ai-dynamo-runtime"} <= about.keys()
    assert (about["machine"], about["python"]) == (platform.machine(), platform.python_version())
