"""Timing, overhead and capacity fitted to recorded latencies, of workers with 1,200 blocks and polynomial timing."""

from pathlib import Path

import numpy as np
import pytest
from attrs import astuple, evolve
from replay_cases import part, scenario

from dgdr_retune.replay import (
    BuiltInEngine,
    CalibratedTiming,
    Calibration,
    CalibrationError,
    DynamoEngine,
    EngineSectionError,
    FixedTiming,
    Recorded,
    RouterParameters,
    Trace,
    calibrate,
    load_recorded,
    load_trace,
)

FASTER = 4
"""The recorded workers' time was sped up."""


@pytest.fixture(scope="module")
def window(recorded_window: Path) -> tuple[Trace, Recorded]:
    return load_trace(recorded_window), load_recorded(recorded_window)


@pytest.fixture(scope="module")
def fitted(window: tuple[Trace, Recorded]) -> Calibration:
    return calibrate(*window)


def test_a_prefill_is_told_as_the_recorded_workers_were_made(fitted: Calibration) -> None:
    assert fitted.rows == 8862
    assert fitted.timing.prefill_ms_per_token == pytest.approx(1.518344e-02 / FASTER, rel=0.15)
    assert fitted.timing.prefill_ms == pytest.approx(16.50142 / FASTER, rel=0.15)
    assert fitted.prefill_error < 0.15
    assert 0 < fitted.prefill_overhead_ms < fitted.timing.overhead_ms < 20


def test_a_step_is_told_as_the_recorded_workers_were_made(fitted: Calibration) -> None:
    assert fitted.timing.decode_ms == pytest.approx(5.74 / FASTER, rel=0.1)
    assert fitted.timing.decode_ms_per_token == pytest.approx(54.01 / FASTER / (1200 * 64), rel=0.15)
    assert fitted.decode_error < 0.15


def test_the_cache_is_as_large_as_that_of_the_recorded_workers(fitted: Calibration) -> None:
    assert fitted.blocks == pytest.approx(1200, rel=0.1)


def test_a_replay_with_the_fit_tells_what_was_recorded(window: tuple[Trace, Recorded], fitted: Calibration) -> None:
    trace, recorded = window
    assert fitted.blocks is not None
    calibrated = scenario(
        replicas=4, max_batched_tokens=8192, max_sequences=64, block_size=64, blocks=fitted.blocks, timing=fitted.timing
    )
    times = BuiltInEngine().request_times(trace, calibrated, RouterParameters(), 0)
    assert np.median(times.ttft_ms / recorded.ttft_ms) == pytest.approx(1, abs=0.4)
    assert np.median(times.e2e_ms / recorded.total_ms) == pytest.approx(1, abs=0.25)


def taken(window: tuple[Trace, Recorded], rows: int) -> tuple[Trace, Recorded]:
    trace, recorded = window
    return part(trace, 0, rows), Recorded(*(getattr(recorded, name)[:rows] for name in Recorded.__annotations__))


def test_under_500_requests_with_latencies_there_is_no_fit(window: tuple[Trace, Recorded]) -> None:
    trace, recorded = taken(window, 600)
    calibrate(trace, recorded)
    known = recorded.known.copy()
    known[499:] = False
    with pytest.raises(CalibrationError, match="499 requests") as raised:
        calibrate(trace, evolve(recorded, known=known))
    assert raised.value.reason == "too_few_rows"


def test_workers_that_were_never_alone_are_not_fitted(window: tuple[Trace, Recorded]) -> None:
    trace, recorded = window
    busy = evolve(recorded, worker=np.zeros_like(recorded.worker), total_ms=recorded.total_ms + 60_000)
    with pytest.raises(CalibrationError, match=r"15 steps or more .* less traffic, or with longer answers") as raised:
        calibrate(trace, busy)
    assert raised.value.reason == "too_busy"


def test_a_fit_that_does_not_tell_requests_it_has_not_seen_is_refused(window: tuple[Trace, Recorded]) -> None:
    trace, recorded = window
    noise = np.random.default_rng(1).lognormal(0, 1.5, len(trace))
    decode_ms = recorded.total_ms - recorded.ttft_ms
    for what, times in (
        ("a prefill", {"prefill_ms": recorded.prefill_ms * noise}),
        ("decoding", {"total_ms": recorded.ttft_ms + decode_ms * noise}),
    ):
        with pytest.raises(CalibrationError, match=f"{what} is off by .* in the median") as raised:
            calibrate(trace, evolve(recorded, **times))
        assert raised.value.reason == "poor_fit"


def prefilled(recorded: Recorded, prefill_ms: np.ndarray, *, wait_ms: float) -> Recorded:
    """The same requests with other prefills, and as long as before from the first token to the end."""
    ttft_ms = prefill_ms + wait_ms
    total_ms = recorded.total_ms - recorded.ttft_ms + ttft_ms
    return evolve(recorded, prefill_ms=prefill_ms, ttft_ms=ttft_ms, total_ms=total_ms)


@pytest.mark.parametrize(
    ("constant_ms", "per_token_ms", "wait_ms"),
    [
        pytest.param(80.0, -0.02, 1.0, id="falling"),
        pytest.param(-0.2, 0.01, 0.0, id="no constant"),
        pytest.param(-0.2, 0.01, 3.0, id="no constant, and a wait"),
    ],
)
def test_the_error_of_a_prefill_is_that_of_the_line_that_is_handed_out(
    window: tuple[Trace, Recorded], constant_ms: float, per_token_ms: float, wait_ms: float
) -> None:
    trace, recorded = window
    prefill_ms = constant_ms + per_token_ms * (trace.input_length - recorded.cached_tokens)
    made = calibrate(trace, prefilled(recorded, prefill_ms, wait_ms=wait_ms))
    line = made.timing.prefill_ms + made.prefill_overhead_ms + made.timing.prefill_ms_per_token * made.new_tokens
    assert made.prefill_error == pytest.approx(np.median(abs(line / made.prefill_ms - 1)), abs=0.005)
    assert made.prefill_error > 0.01
    assert -1e-3 <= made.prefill_overhead_ms <= made.timing.overhead_ms


def test_decoding_that_is_faster_the_more_is_known_is_a_constant_and_judged_as_one(
    window: tuple[Trace, Recorded],
) -> None:
    trace, recorded = window
    steps = trace.output_length - 1
    decode_ms = np.maximum(6000 * steps / np.maximum(trace.input_length, 500), 0.01)
    made = calibrate(trace, evolve(recorded, total_ms=recorded.ttft_ms + decode_ms))
    assert made.timing.decode_ms_per_token == 0
    off = abs(made.timing.decode_ms * steps / decode_ms - 1)[steps >= 15]
    assert np.median(off) == pytest.approx(made.decode_error, abs=0.1)


def test_requests_that_end_with_their_first_token_do_not_show_what_a_step_takes(
    window: tuple[Trace, Recorded],
) -> None:
    trace, recorded = window
    for ttft_ms in (recorded.total_ms, recorded.total_ms - 0.1):
        with pytest.raises(CalibrationError, match="end with their first token") as raised:
            calibrate(trace, evolve(recorded, ttft_ms=ttft_ms))
        assert raised.value.reason == "no_decode_time"


def test_where_a_prefill_has_no_constant_the_fit_still_tells_the_time_to_the_first_token(
    window: tuple[Trace, Recorded],
) -> None:
    trace, recorded = window
    tokens = trace.input_length - recorded.cached_tokens
    changed = prefilled(recorded, 0.01 * tokens - 0.2, wait_ms=3.0)
    timing = calibrate(trace, changed).timing
    told_ms = timing.overhead_ms + timing.prefill_ms + timing.prefill_ms_per_token * tokens
    assert np.median(np.abs(told_ms / changed.ttft_ms - 1)) < 0.02


def test_prompts_that_are_all_alike_do_not_show_what_a_token_takes(window: tuple[Trace, Recorded]) -> None:
    trace, recorded = window
    alike = evolve(trace, input_length=(1000 + np.arange(len(trace)) % 50).astype(np.int32))
    for cached in (np.zeros_like(recorded.cached_tokens), alike.input_length.astype(np.int64)):
        with pytest.raises(CalibrationError, match="what a token takes") as raised:
            calibrate(alike, evolve(recorded, cached_tokens=cached))
        assert raised.value.reason == "too_uniform"


def test_the_same_window_gives_the_same_fit(window: tuple[Trace, Recorded], fitted: Calibration) -> None:
    again = calibrate(*window)
    assert (again.timing, again.blocks) == (fitted.timing, fitted.blocks)


def test_calibrated_timing_is_linear_in_tokens_and_its_overhead_outside_of_the_worker() -> None:
    timing = CalibratedTiming(
        prefill_ms=10.0, prefill_ms_per_token=0.0, decode_ms=3.0, decode_ms_per_token=0.0, overhead_ms=0.0
    )
    trace = Trace(
        block_size=4,
        arrival_ms=np.array([0, 1000]),
        input_length=np.array([6, 6], dtype=np.int32),
        output_length=np.array([3, 3], dtype=np.int32),
        hash_start=np.array([0, 2, 4]),
        hashes=np.array([1, 2, 3, 4], dtype=np.uint64),
    )

    def times(given: CalibratedTiming | FixedTiming) -> tuple[list[float], list[float]]:
        engine = scenario(replicas=1, block_size=4, blocks=50, timing=given)
        replayed = BuiltInEngine().request_times(trace, engine, RouterParameters(), 0)
        return replayed.ttft_ms.tolist(), replayed.e2e_ms.tolist()

    assert times(timing) == times(FixedTiming(prefill_ms=10.0, decode_ms=3.0))
    assert times(evolve(timing, prefill_ms_per_token=0.5))[0] == [13.0, 13.0]
    assert times(evolve(timing, decode_ms_per_token=1.0))[1] == [31.0, 31.0]
    first, end = times(timing)
    assert times(evolve(timing, overhead_ms=5.0)) == ([each + 5 for each in first], [each + 5 for each in end])


def test_whole_milliseconds_are_floats_as_compiled_code_takes_them() -> None:
    for timing in (FixedTiming(10, 3), CalibratedTiming(10, 1, 3, 1, 0)):
        assert {type(value) for value in astuple(timing)} == {float}


def test_only_the_built_in_engine_replays_calibrated_timing() -> None:
    trace = Trace(
        block_size=4,
        arrival_ms=np.array([0]),
        input_length=np.array([6], dtype=np.int32),
        output_length=np.array([3], dtype=np.int32),
        hash_start=np.array([0, 2]),
        hashes=np.array([1, 2], dtype=np.uint64),
    )
    engine = scenario(block_size=4, timing=CalibratedTiming(1.0, 0.0, 1.0, 0.0, 0.0))
    with pytest.raises(EngineSectionError, match="built-in"):
        DynamoEngine().replay(trace, engine, RouterParameters(), 0)
