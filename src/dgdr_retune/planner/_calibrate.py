"""An engine section fitted to a recorded window, and its files."""

from collections.abc import Sequence

import yaml
from attrs import asdict, frozen

from dgdr_retune.planner._configuration import Configuration
from dgdr_retune.planner._one_shot import choose_window, cut_window
from dgdr_retune.planner._results import write_files
from dgdr_retune.replay import (
    Calibration,
    CalibrationError,
    EngineSection,
    calibrate,
    check_block_size,
    load_recorded,
    load_trace,
)
from dgdr_retune.report import calibration_page, fit_in_words, render, utc
from dgdr_retune.windows import Completeness, Window

ENGINE, PAGE = "calibrated-engine.yaml", "calibration.html"


@frozen
class CalibratedEngine:
    """What `calibrate_engine` has written: the fit, its window, and the engine section as YAML with its source."""

    window: Window
    calibration: Calibration
    text: str


async def calibrate_engine(configuration: Configuration, *, now_ms: int) -> CalibratedEngine:
    """Cut the configured window, fit timing and capacity to its latencies, and write both files into `output`.

    Args:
        configuration: the deployment and its recording; of its engine section, timing and capacity are replaced.
        now_ms: unix milliseconds; decides which window is the last.

    Raises:
        CalibrationError: there is no window with requests, none that a fit can be made from, or one that a named
            frontend has no row in; or the deployment is disaggregated.
        TraceError: the window's blocks are of another size than the engine section's.
        WindowError: why there is no window.
        OutputError: the files could not be written.
    """
    if configuration.deployment.engine.mode != "aggregated":
        raise CalibrationError(
            "not_aggregated",
            "deployment.engine.mode: only aggregated workers are calibrated; keep explicit timing",
        )
    window = choose_window(configuration, now_ms=now_ms)
    cut = await cut_window(configuration, window) if window is not None else None
    if window is None or cut is None or cut.path is None:
        raise CalibrationError("no_traffic", "no request arrived and ended in the window: wait, or choose another")
    frontends = configuration.recording.frontends
    _check_frontends(cut.completeness, frontends)
    trace = load_trace(cut.path)
    check_block_size(trace, configuration.scenario())
    calibration = calibrate(trace, load_recorded(cut.path))
    words = fit_in_words(calibration, cut.completeness, named=frontends is not None)
    text = _section(configuration.deployment.engine, window, calibration, words)
    page = render(calibration_page(configuration.name, window, calibration, words))
    write_files(configuration.output, {PAGE: page.encode(), ENGINE: text.encode()}, outdated=(ENGINE,))
    return CalibratedEngine(window, calibration, text)


def _check_frontends(completeness: Completeness, expected: tuple[str, ...] | None) -> None:
    """A fit rests on when a worker had nothing else to do, which a window without some of its requests does not say."""
    shortfalls = completeness.shortfalls(expected=expected)
    if shortfalls:
        more = f" (and {len(shortfalls) - 1} more)" if len(shortfalls) > 1 else ""
        raise CalibrationError(
            shortfalls[0].reason,
            f"{shortfalls[0].message}{more}: a request that looks alone on its worker may have shared it; take a "
            "window that all frontends have recorded, or correct `recording.frontends`",
        )


def _section(engine: EngineSection, window: Window, calibration: Calibration, words: Sequence[str]) -> str:
    section = engine.model_dump(mode="json", exclude_none=True)
    worker = section["workers"]["aggregated"]
    worker["timing"] = {"type": "calibrated"} | {
        name: float(f"{value:.4g}") for name, value in asdict(calibration.timing).items()
    }
    if calibration.blocks is not None:
        worker["kv_cache"]["capacity"] = {"type": "fixed", "blocks": calibration.blocks}
    source = (
        f"Fitted to {calibration.rows} requests that arrived from {utc(window.start_ms)} to {utc(window.end_ms)}.",
        *words,
    )
    return "".join(f"# {line}\n" for line in source) + yaml.safe_dump({"engine": section}, sort_keys=False)
