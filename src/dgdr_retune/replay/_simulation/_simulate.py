"""Runs the hot loop over a window, gives it more room when it asks, and hands out what it logged."""

from collections.abc import Callable

import numpy as np

from dgdr_retune.replay._engine import RouterParameters, Scenario
from dgdr_retune.replay._outcome import Outcome
from dgdr_retune.replay._simulation._layout import initial_state, with_more_room
from dgdr_retune.replay._simulation._loop import DONE, run
from dgdr_retune.replay._simulation._state import (
    ADMISSIONS,
    COMMITTED_PREFILL,
    END,
    FIRST_TOKEN,
    GAPS,
    GENERATED,
    LIMIT,
    REQUEST_SIZE,
    REUSED_FIRST,
    REUSED_MOST,
    SECOND_TOKEN,
    TIMES_SIZE,
    WORKER,
    State,
)
from dgdr_retune.replay._specification import CalibratedTiming
from dgdr_retune.replay._trace import Trace

Run = Callable[[State], int]


def build_entry(sources: int) -> Run:
    """The function that is compiled with all that it calls; `sources` tells versions of these apart."""

    def run_compiled(state: State) -> int:
        return run(state) if sources >= 0 else sources

    return run_compiled


def simulate(
    trace: Trace, scenario: Scenario, router: RouterParameters, replication: int, compiled_run: Run | None = None
) -> Outcome:
    """Replay a window of at least one request; equal arguments give equal numbers, bit for bit.

    Args:
        trace: the window.
        scenario: what all candidates share.
        router: the candidate.
        replication: its random numbers.
        compiled_run: the compiled hot loop; CPython runs it without. The numbers are the same.
    """
    state = initial_state(trace, scenario, router, replication, arrays=compiled_run is not None)
    advance = compiled_run or run
    while advance(state) != DONE:
        state = with_more_room(state)
    return _outcome(trace, scenario, state)


def _outcome(trace: Trace, scenario: Scenario, state: State) -> Outcome:
    requests = np.asarray(state.requests).reshape(-1, REQUEST_SIZE).astype(np.int64)
    times = np.asarray(state.times).reshape(-1, TIMES_SIZE)
    gaps = int(state.scratch[GAPS])
    timings = [pool.timing for pool in scenario.specification.pools]
    overhead_ms = sum(timing.overhead_ms for timing in timings if isinstance(timing, CalibratedTiming))
    return Outcome(
        arrival_ms=(trace.arrival_ms - trace.arrival_ms[0]) / scenario.speedup,
        first_token_ms=times[:, FIRST_TOKEN] + overhead_ms,
        second_token_ms=times[:, SECOND_TOKEN] + overhead_ms,
        end_ms=times[:, END] + overhead_ms,
        refused=requests[:, LIMIT] < 0,
        worker=requests[:, WORKER],
        output_length=requests[:, GENERATED],
        reused_first=requests[:, REUSED_FIRST],
        reused_most=requests[:, REUSED_MOST],
        gap_ms=state.gap_ms[:gaps],
        gap_tokens=state.gap_tokens[:gaps],
        committed_prefill_tokens=int(state.scratch[COMMITTED_PREFILL]),
        admissions=int(state.scratch[ADMISSIONS]),
    )
