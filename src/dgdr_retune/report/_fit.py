"""The page of a calibration: the fit in words, its plot, and the numbers."""

from dgdr_retune import __version__
from dgdr_retune.replay import Calibration
from dgdr_retune.report._page import Page, Plot, Section
from dgdr_retune.report._plots import prefill_fit
from dgdr_retune.report._text import utc
from dgdr_retune.windows import Window


def fit_in_words(calibration: Calibration) -> tuple[str, ...]:
    """What was fitted and how well, one sentence each."""
    timing = calibration.timing
    cached = (
        f"The cached tokens are those of a cache of {calibration.blocks} blocks a worker."
        if calibration.blocks is not None
        else "The cached tokens of this window do not show how many blocks a worker caches."
    )
    prefill = (
        f"A prefill takes {timing.prefill_ms:.3g} ms and {1000 * timing.prefill_ms_per_token:.3g} ms for each 1,000 "
        f"new tokens; the median error on requests that the fit has not seen is {calibration.prefill_error:.1%} "
        f"({calibration.prefill_rows} requests that were alone on their worker)."
    )
    step = (
        f"A step takes {timing.decode_ms:.3g} ms and {1000 * timing.decode_ms_per_token:.3g} ms for each 1,000 tokens "
        f"that its decoding requests know; median error {calibration.decode_error:.1%} ({calibration.decode_rows} "
        "requests that hardly shared it)."
    )
    overhead = (
        f"Each request has an overhead of {timing.overhead_ms:.3g} ms outside of its worker's steps, of which its "
        f"recorded prefill time includes {calibration.prefill_overhead_ms:.3g} ms."
    )
    return prefill, step, overhead, cached


def calibration_page(name: str, window: Window, calibration: Calibration) -> Page:
    """The page of one calibration; `name` is the deployment's."""
    timing = calibration.timing
    what = "prefill time of requests that were alone on their worker, and the fitted line"
    return Page(
        name=name,
        outcome="calibrated",
        heading="Fit",
        summary=fit_in_words(calibration),
        sections=(
            Section(
                title="Prefill",
                explains="Recorded time from the start of a prefill to the first token, by prompt tokens that were not "
                "cached. What disturbs a prefill only adds to it, so the line follows the lower quartile.",
                plots=[
                    Plot(
                        svg=prefill_fit(
                            tokens=calibration.new_tokens,
                            prefill_ms=calibration.prefill_ms,
                            constant_ms=timing.prefill_ms + calibration.prefill_overhead_ms,
                            ms_per_token=timing.prefill_ms_per_token,
                        ),
                        says=what,
                    )
                ],
            ),
            Section(
                title="Source",
                explains=f"{calibration.rows:,} requests with latencies, of those that arrived from "
                f"{utc(window.start_ms)} to {utc(window.end_ms)}.",
            ),
        ),
        footer=f"dgdr_retune {__version__}. The engine section that was fitted is in calibrated-engine.yaml.",
    )
