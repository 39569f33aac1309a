"""Whether simulated latencies are those that were recorded, in words."""

import numpy as np
import pytest
from attrs import evolve

from dgdr_retune.replay import (
    CalibratedTiming,
    EngineSpecification,
    FixedTiming,
    Recorded,
    RequestTimes,
    Scenario,
    Timing,
    Trace,
    WorkerSpecification,
)
from dgdr_retune.report._fidelity import served, verdict_on_simulation

LATENCY_MS = np.linspace(1.0, 100.0, 50)
CALIBRATED = CalibratedTiming(4, 0, 2, 0, 7)


def alike(latency_ms: np.ndarray) -> RequestTimes:
    return RequestTimes(latency_ms, latency_ms, latency_ms)


def workers(timing: Timing) -> WorkerSpecification:
    return WorkerSpecification(1, 1, 8192, 64, 64, 1000, prefix_caching=True, timing=timing)


def aggregated(timing: Timing) -> Scenario:
    return Scenario(EngineSpecification("vllm", "aggregated", workers(timing)))


RECORDED = alike(LATENCY_MS)
GUESSED = aggregated(FixedTiming(4, 2))


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1.0, "tells the recorded latencies well"),
        (0.86, "well: for the median request / the mean / the 90th percentile, simulated over recorded, TTFT 0.86 / "),
        (0.86, "0.86, ITL 0.86 / 0.86 / 0.86, end to end 0.86 / 0.86 / 0.86; 100 % of the requests have both."),
        (1.4, "roughly"),
        (2.0, "is far from the recorded latencies"),
        (0.4, "To come closer, fit the timing with `dgdr-retune calibrate`. Trust the order of candidates at most."),
    ],
)
def test_the_verdict_says_how_far_the_simulation_is_off(factor: float, said: str) -> None:
    verdict = verdict_on_simulation(RECORDED, alike(factor * LATENCY_MS), GUESSED)
    assert said in verdict
    assert "requests waited in the recording" not in verdict
    assert ("calibrate" in verdict) is (factor in {1.4, 2.0, 0.4})


def test_one_latency_that_is_far_off_is_enough() -> None:
    simulated = evolve(RECORDED, itl_ms=3 * RECORDED.itl_ms)
    assert "is far" in verdict_on_simulation(RECORDED, simulated, GUESSED)


@pytest.mark.parametrize(
    ("slower", "factor", "ratios"),
    [
        pytest.param(slice(30, None), 10.0, "1.00 / 6.76 / 10.00", id="two in five"),
        pytest.param(slice(49, None), 60.0, "1.00 / 3.34 / 1.00", id="the mean alone"),
        pytest.param(slice(40, 46), 1.6, "1.00 / 1.12 / 1.46", id="the tail alone"),
    ],
)
def test_a_median_request_that_is_right_does_not_hide_the_others(slower: slice, factor: float, ratios: str) -> None:
    latency_ms = LATENCY_MS.copy()
    latency_ms[slower] *= factor
    verdict = verdict_on_simulation(RECORDED, alike(latency_ms), GUESSED)
    assert f"TTFT {ratios}, ITL" in verdict
    assert "well" not in verdict


def test_a_mean_and_a_tail_that_are_right_do_not_hide_the_median_request() -> None:
    few_long = np.where(np.arange(50) < 40, 1.0, 1000.0)
    verdict = verdict_on_simulation(alike(few_long), alike(np.where(few_long > 1, few_long, 3.0)), GUESSED)
    assert "is far" in verdict
    assert "TTFT 3.00 / 1.01 / 1.00, ITL" in verdict


def test_waits_in_the_recording_that_the_simulation_does_not_have_are_named() -> None:
    queued = LATENCY_MS.copy()
    queued[30:] += 2000
    verdict = verdict_on_simulation(alike(queued), RECORDED, GUESSED)
    assert "is far" in verdict
    assert "requests waited in the recording in a way that the simulation does not reproduce" in verdict


def test_latencies_of_few_requests_do_not_speak_for_the_others() -> None:
    one = np.where(np.arange(50) == 0, LATENCY_MS, np.nan)
    few, some, nearly_all = (np.where(np.arange(50) < count, LATENCY_MS, np.nan) for count in (24, 40, 43))
    for kept, said, share in ((one, "far", 2), (few, "far", 48), (some, "roughly", 80), (nearly_all, "well", 86)):
        for recorded, simulated in ((LATENCY_MS, kept), (kept, LATENCY_MS)):
            verdict = verdict_on_simulation(alike(recorded), alike(simulated), GUESSED)
            assert said in verdict
            assert f"; {share} % of the requests have both." in verdict
            assert "calibrate" not in verdict
            assert ("The others were recorded without latencies" in verdict) is (said != "well")


def test_the_advice_fits_the_timing() -> None:
    pools = {"prefill": workers(FixedTiming(4, 2)), "decode": workers(FixedTiming(4, 2))}
    disaggregated = Scenario(EngineSpecification("vllm", "disaggregated", None, **pools))
    slow = alike(2 * LATENCY_MS)
    assert "fit the timing with `dgdr-retune calibrate`" in verdict_on_simulation(RECORDED, slow, GUESSED)
    for scenario, advice in ((aggregated(CALIBRATED), "is calibrated already"), (disaggregated, "cannot be fitted")):
        verdict = verdict_on_simulation(RECORDED, slow, scenario)
        assert advice in verdict
        assert "dgdr-retune calibrate" not in verdict


def test_other_arrivals_or_rows_without_latencies_are_not_compared() -> None:
    assert "Arrivals are not as they were" in verdict_on_simulation(RECORDED, RECORDED, evolve(GUESSED, speedup=2.0))
    assert "hold no latencies" in verdict_on_simulation(None, RECORDED, GUESSED)
    zero, refused = (alike(np.full(50, value)) for value in (0.0, np.nan))
    assert "No request has both" in verdict_on_simulation(zero, RECORDED, GUESSED)
    assert "No request has both" in verdict_on_simulation(RECORDED, refused, GUESSED)


def test_the_latencies_of_a_request_count_whichever_workers_it_ran_on() -> None:
    trace = Trace(
        block_size=64,
        arrival_ms=np.arange(4),
        input_length=np.full(4, 10, np.int32),
        output_length=np.array([10, 10, 1, 10], np.int32),
        hash_start=np.arange(5),
        hashes=np.arange(4, dtype=np.uint64),
    )
    recorded = Recorded(
        known=np.zeros(4, bool),
        wait_ms=np.ones(4),
        prefill_ms=np.ones(4),
        ttft_ms=np.array([3.0, np.nan, 3.0, 4.0]),
        total_ms=np.array([21.0, 21.0, 21.0, 22.0]),
        cached_tokens=np.zeros(4, np.int64),
        worker=np.full(4, -1),
    )
    times = served(recorded, trace)
    assert times is not None
    assert np.array_equal(times.ttft_ms, [3, np.nan, 3, 4], equal_nan=True)
    assert np.array_equal(times.itl_ms, [2, np.nan, np.nan, 2], equal_nan=True)
    assert np.array_equal(times.e2e_ms, [21, 21, 21, 22])
    assert served(evolve(recorded, ttft_ms=np.full(4, np.nan)), trace) is None
