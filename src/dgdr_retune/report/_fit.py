"""The page of a calibration: the fit in words, its plot, and the numbers."""

from collections.abc import Sequence

from dgdr_retune import __version__
from dgdr_retune.replay import Calibration
from dgdr_retune.report._page import Page, Plot, Section
from dgdr_retune.report._plots import prefill_fit
from dgdr_retune.report._text import utc
from dgdr_retune.windows import GAP_MS, Completeness, Window


def fit_in_words(calibration: Calibration, completeness: Completeness, *, named: bool) -> tuple[str, ...]:
    """What was fitted, how well, and what it rests on, one sentence each.

    Args:
        calibration: the fit.
        completeness: of its window.
        named: whether the configuration names the frontends, so that none of them is missing there.
    """
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
        "requests, those that shared it least)."
    )
    overhead = (
        f"Each request has an overhead of {timing.overhead_ms:.3g} ms outside of its worker's steps, of which its "
        f"recorded prefill time includes {calibration.prefill_overhead_ms:.3g} ms."
    )
    seen = f"{completeness.frontends} frontend{'s' if completeness.frontends != 1 else ''}"
    alone = f"Which requests were alone on their worker is told from the rows of {seen}" + (
        f", whose recording has {completeness.gap_count} gap{'s' if completeness.gap_count != 1 else ''} of "
        f"{GAP_MS // 1000} s or more"
        if completeness.gap_count
        else ""
    )
    if not named:
        alone += ", and rests on there being no other: `recording.frontends` does not name those that there are"
    return prefill, step, overhead, cached, f"{alone}."


def calibration_page(name: str, window: Window, calibration: Calibration, words: Sequence[str]) -> Page:
    """The page of one calibration; `name` is the deployment's, `words` are those of `fit_in_words`."""
    timing = calibration.timing
    what = "prefill time of requests that were alone on their worker, and the fitted line"
    return Page(
        name=name,
        outcome="calibrated",
        heading="Fit",
        summary=words,
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
