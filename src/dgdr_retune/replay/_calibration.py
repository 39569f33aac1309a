"""Timing, overhead and cache capacity of the workers, fitted to the latencies that a window's rows record.

Three fits, each on the requests that say most about it:

- how long a pass takes, from the decoding of the requests that shared their worker least: its duration is a sum of
  steps, each with a constant and a part for the tokens that decode, and of the prefills that others began meanwhile;
- how long a prefill takes, from requests that were alone on their worker. What disturbs it only adds, so the line is
  fitted to the lower quartile; what it has more than a pass's constant is overhead, with the wait before it;
- how many blocks a worker caches, from the cached tokens (`_capacity`).

Lines are fitted by quantile regression (R. Koenker and G. Bassett, "Regression quantiles", 1978), which an outlier
cannot draw to itself, by iteratively reweighted least squares, and no step or token takes less than nothing. Every
second request is held out of a fit that is judged on it, with all that would be handed out; the fit that is handed out
uses all of them.
"""

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.replay._capacity import cached_blocks
from dgdr_retune.replay._errors import CalibrationError
from dgdr_retune.replay._recorded import Recorded, by_worker
from dgdr_retune.replay._specification import CalibratedTiming
from dgdr_retune.replay._trace import Trace

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

LEAST_ROWS = 500
MOST_ERROR = 0.25
"""Of the median relative error of a time, of a prefill or of decoding, on requests that the fit has not seen."""

_LEAST_FITTED = 100
_LEAST_STEPS = 15
_LEAST_SPREAD = 0.1
_LEAST_STEP_MS = 0.01
_SHARING = (2.0, 4.0, 8.0, 16.0, np.inf)
_LOWER_QUARTILE, _MEDIAN = 0.25, 0.5
_ITERATIONS = 100
_SMALLEST_RESIDUAL_MS = 1e-3


@frozen
class Calibration:
    """What was fitted, and how well it tells requests that it has not seen.

    Attributes:
        timing: for the engine section.
        blocks: that a worker caches; None where the recording does not show it.
        rows: requests with latencies.
        prefill_rows: of these, alone on their worker.
        decode_rows: of these, those that shared it least, long enough to show it.
        prefill_error: median relative error of the prefill's time on held-out requests.
        decode_error: the same of the time from the first token to the end.
        new_tokens: float64[prefill_rows], prompt tokens that were not cached, for a plot; with
        prefill_ms: float64[prefill_rows], the prefill's time as recorded, and
        prefill_overhead_ms: the part of `timing.overhead_ms` that a prefill's time includes.
    """

    timing: CalibratedTiming
    blocks: int | None
    rows: int
    prefill_rows: int
    decode_rows: int
    prefill_error: float
    decode_error: float
    new_tokens: Floats
    prefill_ms: Floats
    prefill_overhead_ms: float


def calibrate(trace: Trace, recorded: Recorded) -> Calibration:
    """Fit timing, overhead and capacity to one window.

    Args:
        trace: the window's requests.
        recorded: how they were served, in the same order.

    Raises:
        CalibrationError: requests are too few, too busy or too alike, or the fit does not tell those it has not seen.
    """
    rows = np.flatnonzero(recorded.known)
    if len(rows) < LEAST_ROWS:
        raise CalibrationError(
            "too_few_rows",
            f"{len(rows)} requests of the window have all latencies and one worker, at least {LEAST_ROWS} are needed: "
            "record for longer, with frontends of Dynamo 1.6.1 or later and aggregated workers",
        )
    shared = _shared(trace, recorded, rows)
    lonely = np.flatnonzero(shared.alone)
    steady = _steady(shared)
    if min(len(lonely), len(steady)) < _LEAST_FITTED:
        raise CalibrationError(
            "too_busy",
            f"{len(lonely)} requests were alone on their worker and {len(steady)} took {_LEAST_STEPS} steps or more "
            f"after their first token, at least {_LEAST_FITTED} of each are needed: take a window with less traffic, "
            "or with longer answers",
        )
    shortest, longest = np.quantile(shared.new_tokens[lonely], (0.05, 0.95))
    if longest - shortest <= _LEAST_SPREAD * longest:
        raise CalibrationError(
            "too_uniform",
            f"nearly all prompts have {shortest:.0f} to {longest:.0f} tokens that were not cached, which does not show "
            "what a token takes: take a window with other prompts, or keep explicit timing",
        )
    if float(np.median(shared.decode_ms[steady] / shared.steps[steady])) < _LEAST_STEP_MS:
        raise CalibrationError(
            "no_decode_time",
            "most requests are recorded to end with their first token, though they have more tokens, which does not "
            "show what a step takes: record streamed responses, or keep explicit timing",
        )
    prefill_error, decode_error = _held_out(shared, lonely, steady)
    for what, error in (("a prefill", prefill_error), ("decoding", decode_error)):
        if error > MOST_ERROR:
            raise CalibrationError(
                "poor_fit",
                f"the fitted time of {what} is off by {error:.0%} in the median of requests that it has not seen, more "
                f"than {MOST_ERROR:.0%}: these workers do not behave as the model does; keep explicit timing",
            )
    fit = _fit(shared, lonely, steady)
    return Calibration(
        timing=fit.timing,
        blocks=cached_blocks(trace, recorded, rows),
        rows=len(rows),
        prefill_rows=len(lonely),
        decode_rows=len(steady),
        prefill_error=prefill_error,
        decode_error=decode_error,
        new_tokens=shared.new_tokens[lonely],
        prefill_ms=shared.prefill_ms[lonely],
        prefill_overhead_ms=fit.prefill_overhead_ms,
    )


@frozen(eq=False)
class _Shared:
    """Each known request and what else its worker did meanwhile: float64[rows], and bool[rows] for `alone`.

    Attributes:
        new_tokens: of its own prompt, not cached.
        prefill_ms: from the start of its prefill to its first token.
        ttft_ms: from its arrival to its first token.
        decode_ms: from its first token to its end.
        steps: that made its tokens after the first.
        decoding: requests that decoded while it did, itself included, on average.
        tokens: that these knew, on average.
        prefills: of others that ended while it decoded.
        prefilled: new tokens of these.
        alone: whether no other request was on its worker from its arrival to its first token.
    """

    new_tokens: Floats
    prefill_ms: Floats
    ttft_ms: Floats
    decode_ms: Floats
    steps: Floats
    decoding: Floats
    tokens: Floats
    prefills: Floats
    prefilled: Floats
    alone: NDArray[np.bool_]


def _shared(trace: Trace, recorded: Recorded, rows: Rows) -> _Shared:
    arrival = (trace.arrival_ms[rows] - trace.arrival_ms[0]).astype(np.float64)
    first, end = arrival + recorded.ttft_ms[rows], arrival + recorded.total_ms[rows]
    new = (trace.input_length[rows] - recorded.cached_tokens[rows]).clip(0).astype(np.float64)
    known = trace.input_length[rows] + trace.output_length[rows] / 2
    decoding, tokens, prefills, prefilled = np.zeros((4, len(rows)))
    alone = np.zeros(len(rows), dtype=bool)
    for own in by_worker(recorded, rows):
        begun, ended = first[own], end[own]
        decoding[own] = _mean_between(begun, ended, np.ones(len(own)))
        tokens[own] = _mean_between(begun, ended, known[own])
        order = np.argsort(begun, kind="stable")
        after, until = (np.searchsorted(begun[order], at, "right") for at in (begun, ended))
        sums = np.concatenate(([0.0], np.cumsum(new[own][order])))
        prefills[own], prefilled[own] = until - after, sums[until] - sums[after]
        there = np.searchsorted(np.sort(arrival[own]), begun, "left")
        gone = np.searchsorted(np.sort(ended), arrival[own], "right")
        alone[own] = there - gone == 1
    return _Shared(
        new_tokens=new,
        prefill_ms=recorded.prefill_ms[rows],
        ttft_ms=recorded.ttft_ms[rows],
        decode_ms=end - first,
        steps=(trace.output_length[rows] - 1).clip(0).astype(np.float64),
        decoding=decoding,
        tokens=tokens,
        prefills=prefills,
        prefilled=prefilled,
        alone=alone,
    )


def _mean_between(begun: Floats, ended: Floats, weights: Floats) -> Floats:
    """Over each interval, the time average of the summed weights of all intervals."""
    at = np.concatenate((begun, ended))
    order = np.argsort(at, kind="stable")
    at = at[order]
    height = np.cumsum(np.concatenate((weights, -weights))[order])
    area = np.concatenate(([0.0], np.cumsum(height[:-1] * np.diff(at))))
    length = ended - begun
    covered = np.interp(ended, at, area) - np.interp(begun, at, area)
    return np.divide(covered, length, out=np.zeros_like(length), where=length > 0)


def _steady(shared: _Shared) -> Rows:
    """The requests that shared their worker least, of which there are enough."""
    long_enough = shared.steps >= _LEAST_STEPS
    for limit in _SHARING:
        rows = np.flatnonzero(long_enough & (shared.decoding <= limit) & (shared.prefills <= limit))
        if len(rows) >= LEAST_ROWS:
            break
    return rows


def _prefill_terms(shared: _Shared) -> Floats:
    return np.stack((np.ones_like(shared.new_tokens), shared.new_tokens), axis=1)


def _decode_terms(shared: _Shared) -> Floats:
    return np.stack((shared.steps, shared.steps * shared.tokens, shared.prefills, shared.prefilled), axis=1)


@frozen
class _Fit:
    """The timing, and the part of its overhead that a prefill's time includes."""

    timing: CalibratedTiming
    prefill_overhead_ms: float

    @property
    def prefill(self) -> Floats:
        """Coefficients of a prefill's terms."""
        return np.array((self.timing.prefill_ms + self.prefill_overhead_ms, self.timing.prefill_ms_per_token))

    @property
    def decode(self) -> Floats:
        """Coefficients of decoding's terms."""
        timing = self.timing
        return np.array((timing.decode_ms, timing.decode_ms_per_token, timing.prefill_ms, timing.prefill_ms_per_token))


def _fit(shared: _Shared, lonely: Rows, steady: Rows) -> _Fit:
    """Of these requests: their prefills, and their decoding."""
    prefill, decode = _prefill_terms(shared)[lonely], _decode_terms(shared)[steady]
    seen_ms, per_token = _line(prefill, shared.prefill_ms[lonely], _LOWER_QUARTILE)
    step_ms, step_per_token, pass_ms, _ = _line(decode, shared.decode_ms[steady], _MEDIAN)
    pass_ms = max(pass_ms if 0.0 < pass_ms < seen_ms else seen_ms, _SMALLEST_RESIDUAL_MS)
    overhead_ms = float(np.median(shared.ttft_ms[lonely] - prefill @ np.array((pass_ms, per_token))))
    timing = CalibratedTiming(
        prefill_ms=pass_ms,
        prefill_ms_per_token=per_token,
        decode_ms=max(step_ms, _SMALLEST_RESIDUAL_MS),
        decode_ms_per_token=step_per_token,
        overhead_ms=max(overhead_ms, 0.0),
    )
    return _Fit(timing, prefill_overhead_ms=float(seen_ms - pass_ms) if overhead_ms > 0 else 0.0)


def _held_out(shared: _Shared, lonely: Rows, steady: Rows) -> tuple[float, float]:
    """Median relative error, for prefills and for decoding, of each half's fit on the other half."""
    prefill, decode = _prefill_terms(shared), _decode_terms(shared)
    prefill_errors, decode_errors = [], []
    for held in (0, 1):
        fit = _fit(shared, lonely[1 - held :: 2], steady[1 - held :: 2])
        alone, sharing = lonely[held::2], steady[held::2]
        prefill_errors.append(_relative(prefill[alone] @ fit.prefill, shared.prefill_ms[alone]))
        decode_errors.append(_relative(decode[sharing] @ fit.decode, shared.decode_ms[sharing]))
    return float(np.median(np.concatenate(prefill_errors))), float(np.median(np.concatenate(decode_errors)))


def _relative(predicted: Floats, measured: Floats) -> Floats:
    off: Floats = np.abs(predicted - measured) / measured.clip(_SMALLEST_RESIDUAL_MS)
    return off


def _line(terms: Floats, measured: Floats, quantile: float) -> Floats:
    """Coefficients, none below 0, for which so large a share of the residuals is negative.

    Without the terms whose coefficients would be below 0, the lowest first, the others are fitted anew.
    """
    scale = np.abs(terms).max(axis=0).clip(1e-12)
    terms = terms / scale
    used = np.arange(terms.shape[1])
    found = _quantile_regression(terms, measured, quantile)
    while len(refused := np.flatnonzero(found < 0)):
        used = np.delete(used, refused[np.argmin(found[refused])])
        found = _quantile_regression(terms[:, used], measured, quantile)
    coefficients = np.zeros(terms.shape[1])
    coefficients[used] = found / scale[used]
    return coefficients


def _quantile_regression(terms: Floats, measured: Floats, quantile: float) -> Floats:
    found = np.linalg.lstsq(terms, measured, rcond=None)[0]
    for _ in range(_ITERATIONS):
        residual = measured - terms @ found
        weight = np.sqrt(np.where(residual > 0, quantile, 1 - quantile) / np.abs(residual).clip(_SMALLEST_RESIDUAL_MS))
        found = np.linalg.lstsq(terms * weight[:, None], measured * weight, rcond=None)[0]
    coefficients: Floats = found.astype(np.float64)
    return coefficients
