"""The engine section that a window gives, and when there is none."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from dgdr_retune.planner import Configuration, calibrate_engine, load_configuration
from dgdr_retune.planner._calibrate import ENGINE, PAGE
from dgdr_retune.replay import CalibrationError, TraceError

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
NOW_MS = 1_796_041_000_000


class Died(BaseException):
    """The process is gone."""


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    shutil.copytree(QUICKSTART / "segments", tmp_path / "segments")
    return yaml.safe_load((QUICKSTART / "retune.yaml").read_text())


def configured(directory: Path, document: dict[str, Any]) -> Configuration:
    path = directory / "retune.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_configuration(path)


def test_where_an_engine_section_stands_the_page_is_its_own_wherever_the_process_died(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = configured(tmp_path, document)
    configuration.output.mkdir()
    for name in (ENGINE, PAGE):
        (configuration.output / name).write_text("of another")
    replace = Path.replace

    def dying(self: Path, target: Path) -> Path:
        if target.name == ENGINE:
            raise Died
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", dying)
    with pytest.raises(Died):
        asyncio.run(calibrate_engine(configuration, now_ms=NOW_MS))
    assert "of another" not in (configuration.output / PAGE).read_text()
    assert not (configuration.output / ENGINE).exists()


def test_blocks_of_another_size_than_the_windows_are_not_counted(tmp_path: Path, document: dict[str, Any]) -> None:
    document["deployment"]["engine"]["workers"]["aggregated"]["kv_cache"]["block_size"] = 16
    configuration = configured(tmp_path, document)
    with pytest.raises(TraceError, match=r"set kv_cache\.block_size to 64"):
        asyncio.run(calibrate_engine(configuration, now_ms=NOW_MS))
    assert not configuration.output.exists()


def test_a_window_that_misses_a_frontend_is_not_calibrated_from(tmp_path: Path, document: dict[str, Any]) -> None:
    shutil.rmtree(tmp_path / "segments" / "frontend-1")
    configuration = configured(tmp_path, document)
    with pytest.raises(CalibrationError, match=r"frontend-1 has no row .* correct `recording\.frontends`") as raised:
        asyncio.run(calibrate_engine(configuration, now_ms=NOW_MS))
    assert raised.value.reason == "missing_frontend"
    assert not configuration.output.exists()


def test_the_fit_says_which_frontends_it_rests_on(tmp_path: Path, document: dict[str, Any]) -> None:
    named = asyncio.run(calibrate_engine(configured(tmp_path, document), now_ms=NOW_MS)).text
    assert "alone on their worker is told from the rows of 2 frontends, whose recording has 4 gaps of 10 s" in named
    del document["recording"]["frontends"]
    unnamed = asyncio.run(calibrate_engine(configured(tmp_path, document), now_ms=NOW_MS)).text
    for text, said in ((named, False), (unnamed, True)):
        assert ("rests on there being no other: `recording.frontends` does not name" in text) is said
    page = (tmp_path / "result" / PAGE).read_text()
    assert "rests on there being no other" in page


def test_disaggregated_workers_are_not_calibrated(tmp_path: Path, document: dict[str, Any]) -> None:
    engine = document["deployment"]["engine"]
    pool = engine["workers"].pop("aggregated")
    engine |= {"mode": "disaggregated", "workers": {"prefill": pool, "decode": pool}}
    with pytest.raises(CalibrationError, match="only aggregated workers") as raised:
        asyncio.run(calibrate_engine(configured(tmp_path, document), now_ms=NOW_MS))
    assert raised.value.reason == "not_aggregated"
