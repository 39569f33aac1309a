from pathlib import Path

import pytest
import yaml

from dgdr_retune.planner import ConfigurationError, load_configuration
from dgdr_retune.planner._reference import configuration_reference
from dgdr_retune.replay import CalibratedTiming, RouterParameters, Sla

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart" / "retune.yaml"


def write(tmp_path: Path, *changes: tuple[str, object]) -> Path:
    """The quickstart's configuration with values replaced (dotted path, value; `...` removes)."""
    document = yaml.safe_load(QUICKSTART.read_text())
    for path, value in changes:
        *above, last = path.split(".")
        section = document
        for key in above:
            section = section[key]
        if value is ...:
            del section[last]
        else:
            section[last] = value
    target = tmp_path / "retune.yaml"
    target.write_text(yaml.safe_dump(document))
    return target


def test_the_quickstart_is_a_configuration() -> None:
    configuration = load_configuration(QUICKSTART)
    assert configuration.name == "chat"
    assert configuration.scenario().sla == Sla(ttft_ms=500, itl_ms=50)
    assert configuration.scenario().specification.aggregated.blocks == 1200


def test_paths_are_relative_to_the_file_not_to_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_configuration(QUICKSTART).recording.segments == QUICKSTART.parent / "segments"


def test_defaults_are_dynamos_parameters_and_grid(tmp_path: Path) -> None:
    path = write(tmp_path, ("deployment.router", ...), ("retune", ...))
    configuration = load_configuration(path)
    assert configuration.deployment.router.parameters() == RouterParameters()
    assert len(configuration.retune.grid.expand(RouterParameters()).points) == 108


CALIBRATED = {
    "type": "calibrated",
    "prefill_ms": 4.5,
    "prefill_ms_per_token": 0.004,
    "decode_ms": 1.4,
    "decode_ms_per_token": 0.0,
    "overhead_ms": 7.5,
}


def test_calibrated_timing_is_replayed_by_the_built_in_engine_alone(tmp_path: Path) -> None:
    timing = "deployment.engine.workers.aggregated.timing", CALIBRATED
    scenario = load_configuration(write(tmp_path, timing)).scenario()
    assert scenario.specification.aggregated.timing == CalibratedTiming(4.5, 0.004, 1.4, 0.0, 7.5)
    with pytest.raises(ConfigurationError, match="only `built-in` replays calibrated timing"):
        load_configuration(write(tmp_path, timing, ("retune.engine", "dynamo")))


@pytest.mark.parametrize("key", sorted(set(CALIBRATED) - {"type"}))
def test_a_timing_has_the_durations_of_its_type(tmp_path: Path, key: str) -> None:
    at = "deployment.engine.workers.aggregated.timing"
    short = {name: value for name, value in CALIBRATED.items() if name != key}
    with pytest.raises(ConfigurationError, match=f"`{key}` is needed with type `calibrated`"):
        load_configuration(write(tmp_path, (at, short)))
    with pytest.raises(ConfigurationError, match=f"`{key}` does not belong to type `polynomial`"):
        load_configuration(write(tmp_path, (at, {"type": "polynomial", key: 1.0})))


@pytest.mark.parametrize(
    ("written", "end_ms"),
    [
        (1796040000000, 1796040000000),
        ("1796040000000", 1796040000000),
        ("2026-11-30T12:00:00Z", 1796040000000),
        ("2026-11-30T13:00:00+01:00", 1796040000000),
        ("last", "last"),
    ],
)
def test_a_window_is_named_by_its_end_in_milliseconds_or_as_time(
    tmp_path: Path, written: object, end_ms: object
) -> None:
    assert load_configuration(write(tmp_path, ("recording.window", written))).recording.window == end_ms


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("name", "Chat", "name: must be a DNS-1123 name"),
        ("name", "../etc", "name: must be a DNS-1123 name"),
        ("name", "a" * 254, "name: must be a DNS-1123 name"),
        ("recording.frontends", ["../x"], "recording.frontends.0: must be a DNS-1123 name"),
        ("recording.window", 1796040000001, "the nearest are 1796040000000 and 1796041200000"),
        ("recording.window", "2026-11-30T12:00:00", "an ISO time needs its zone"),
        ("recording.window", "tomorrow", "must be `last`, unix milliseconds or an ISO time"),
        ("recording.interval_seconds", 0, "recording.interval_seconds: Input should be greater than or equal to 1"),
        ("recording.segmnts", "x", "recording.segmnts: Extra inputs are not permitted"),
        ("recording.segments", ..., "recording.segments: Field required"),
        ("deployment.router.temperature", -1, "deployment.router.temperature: Input should be greater than or equal"),
        ("deployment.router.temperature", float("nan"), "deployment.router.temperature: Input should be a finite"),
        (
            "deployment.engine.workers.aggregated.timing",
            {"type": "default"},
            "deployment.engine.workers.aggregated.timing",
        ),
        (
            "deployment.engine.workers.aggregated.kv_cache.capacity",
            {"type": "default"},
            "deployment.engine.workers.aggregated.kv_cache.capacity",
        ),
        ("retune.sla", {"ttft_ms": 1, "e2e_ms": 1}, "retune.sla: give `e2e_ms` alone"),
        ("retune.sla", {}, "retune.sla: give `e2e_ms` alone"),
        ("retune.confidence", 1, "retune.confidence: Input should be less than 1"),
        ("retune.replications", {"initial": 9, "maximum": 8}, "retune.replications: `maximum` is 8, below `initial`"),
        (
            "retune.replications",
            {"initial": 2, "maximum": 7},
            "retune.replications.maximum: Input should be greater than",
        ),
        ("recording.frontends", [], "recording.frontends"),
        ("recording.segments", "a\0b", "recording.segments: a path holds no control characters"),
        ("retune.grid.temperature", {"choices": []}, "retune.grid.temperature"),
        ("retune.engine", "magic", "retune.engine: Input should be 'built-in' or 'dynamo'"),
    ],
)
def test_a_fault_is_named_with_file_line_and_field(tmp_path: Path, path: str, value: object, message: str) -> None:
    file = write(tmp_path, (path, value))
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(file)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{file}:")
    assert str(caught.value).removeprefix(f"{file}:").partition(":")[0].isdigit()


def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, ("name", "A"), ("retune.confidence", 2), ("recording.grace_seconds", -1))
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(file)
    assert len(str(caught.value).splitlines()) == 3


def test_a_goodput_objective_without_an_sla_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give `sla`"):
        load_configuration(write(tmp_path, ("retune.objective", "GoodputPerGPU"), ("retune.sla", ...)))


def test_a_file_that_is_not_there_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.yaml: No such file or directory"):
        load_configuration(tmp_path / "none.yaml")


def test_the_reference_in_the_docs_is_the_models() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == configuration_reference()
