"""Whether simulated latencies are those that were recorded, in words."""

import numpy as np
import pytest
from attrs import evolve

from dgdr_retune.replay import Recorded, RequestTimes, Trace
from dgdr_retune.report._fidelity import served, verdict_on_simulation

RECORDED = RequestTimes(*(np.linspace(1.0, 100.0, 50) for _ in range(3)))


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1.0, "tells the recorded latencies well"),
        (0.86, "well: for the median request, simulated over recorded, TTFT 0.86, ITL 0.86, end to end 0.86"),
        (1.4, "roughly"),
        (2.0, "is far from the recorded latencies"),
        (0.4, "Trust the order of candidates at most, and fit the timing with `dgdr-retune calibrate`"),
    ],
)
def test_the_median_request_says_how_far_the_simulation_is_off(factor: float, said: str) -> None:
    simulated = RequestTimes(*(factor * getattr(RECORDED, name) for name in ("ttft_ms", "itl_ms", "e2e_ms")))
    assert said in verdict_on_simulation(RECORDED, simulated, as_it_was=True)


def test_one_latency_that_is_far_off_is_enough() -> None:
    simulated = evolve(RECORDED, itl_ms=3 * RECORDED.itl_ms)
    assert "is far" in verdict_on_simulation(RECORDED, simulated, as_it_was=True)


def test_other_arrivals_or_rows_without_latencies_are_not_compared() -> None:
    assert "Arrivals are not as they were" in verdict_on_simulation(RECORDED, RECORDED, as_it_was=False)
    assert "hold no latencies" in verdict_on_simulation(None, RECORDED, as_it_was=True)
    zero, refused = (RequestTimes(*(np.full(50, value) for _ in range(3))) for value in (0.0, np.nan))
    assert "No request has both" in verdict_on_simulation(zero, RECORDED, as_it_was=True)
    assert "No request has both" in verdict_on_simulation(RECORDED, refused, as_it_was=True)


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
