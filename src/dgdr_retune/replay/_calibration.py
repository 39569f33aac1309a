"""Timing, overhead and cache capacity of the workers, fitted to the latencies that a window's rows record.

Three fits, each on the requests that say most about it:

- how long a pass takes, from the decoding of requests that hardly shared their worker: its duration is a sum of steps,
  each with a constant and a part for the tokens that decode, and of the prefills that others began meanwhile;
- how long a prefill takes, from requests that were alone on their worker. What disturbs it only adds, so the line is
  fitted to the lower quartile; what it has more than a pass's constant is overhead, with the wait before it;
- how many blocks a worker caches, from the cached tokens (`_capacity`).

Lines are fitted by quantile regression (R. Koenker and G. Bassett, "Regression quantiles", 1978), which an outlier
cannot draw to itself, by iteratively reweighted least squares. Every second request is held out of a fit that is judged
on it; the fit that is handed out uses all of them.
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
        decode_rows: of these, hardly sharing it.
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
            f"{len(lonely)} requests were alone on their worker and {len(steady)} hardly shared it, at least "
            f"{_LEAST_FITTED} of each are needed: take a window with less traffic",
        )
    shortest, longest = np.quantile(shared.new_tokens[lonely], (0.05, 0.95))
    if longest - shortest <= _LEAST_SPREAD * longest:
        raise CalibrationError(
            "too_uniform",
            f"nearly all prompts have {shortest:.0f} to {longest:.0f} tokens that were not cached, which does not show "
            "what a token takes: take a window with other prompts, or keep explicit timing",
        )
    prefill_error = _held_out(_prefill_terms(shared)[lonely], shared.prefill_ms[lonely], _LOWER_QUARTILE)
    decode_error = _held_out(_decode_terms(shared)[steady], shared.decode_ms[steady], _MEDIAN)
    for what, error in (("a prefill", prefill_error), ("decoding", decode_error)):
        if error > MOST_ERROR:
            raise CalibrationError(
                "poor_fit",
                f"the fitted time of {what} is off by {error:.0%} in the median of requests that it has not seen, more "
                f"than {MOST_ERROR:.0%}: these workers do not behave as the model does; keep explicit timing",
            )
    seen_ms, per_token = _line(_prefill_terms(shared)[lonely], shared.prefill_ms[lonely], _LOWER_QUARTILE)
    step_ms, step_per_token, pass_ms, _ = _line(_decode_terms(shared)[steady], shared.decode_ms[steady], _MEDIAN)
    per_token = max(per_token, 0.0)
    pass_ms = max(pass_ms if 0.0 < pass_ms < seen_ms else seen_ms, _SMALLEST_RESIDUAL_MS)
    served_ms = pass_ms + per_token * shared.new_tokens[lonely]
    return Calibration(
        timing=CalibratedTiming(
            prefill_ms=float(pass_ms),
            prefill_ms_per_token=float(per_token),
            decode_ms=float(max(step_ms, _SMALLEST_RESIDUAL_MS)),
            decode_ms_per_token=float(max(step_per_token, 0.0)),
            overhead_ms=max(float(np.median(shared.ttft_ms[lonely] - served_ms)), 0.0),
        ),
        blocks=cached_blocks(trace, recorded, rows),
        rows=len(rows),
        prefill_rows=len(lonely),
        decode_rows=len(steady),
        prefill_error=prefill_error,
        decode_error=decode_error,
        new_tokens=shared.new_tokens[lonely],
        prefill_ms=shared.prefill_ms[lonely],
        prefill_overhead_ms=float(seen_ms - pass_ms),
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


def _held_out(terms: Floats, measured: Floats, quantile: float) -> float:
    """Median relative error of each half's fit on the other half."""
    errors = []
    for held in (slice(0, None, 2), slice(1, None, 2)):
        seen = np.ones(len(measured), dtype=bool)
        seen[held] = False
        predicted = terms[held] @ _line(terms[seen], measured[seen], quantile)
        errors.append(np.abs(predicted - measured[held]) / measured[held].clip(_SMALLEST_RESIDUAL_MS))
    return float(np.median(np.concatenate(errors)))


def _line(terms: Floats, measured: Floats, quantile: float) -> Floats:
    """Coefficients for which so large a share of the residuals is negative."""
    scale = np.abs(terms).max(axis=0).clip(1e-12)
    terms = terms / scale
    found = np.linalg.lstsq(terms, measured, rcond=None)[0]
    for _ in range(_ITERATIONS):
        residual = measured - terms @ found
        weight = np.sqrt(np.where(residual > 0, quantile, 1 - quantile) / np.abs(residual).clip(_SMALLEST_RESIDUAL_MS))
        found = np.linalg.lstsq(terms * weight[:, None], measured * weight, rcond=None)[0]
    coefficients: Floats = (found / scale).astype(np.float64)
    return coefficients
