"""Runs the hot loop over a window, gives it more room when it asks, and hands out what it logged."""

from collections.abc import Callable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.replay._engine import RouterParameters, Scenario
from dgdr_retune.replay._simulation._compile import COMPILED, kernel_entry, sources_digest
from dgdr_retune.replay._simulation._layout import initial_state, with_more_entries
from dgdr_retune.replay._simulation._loop import DONE, run
from dgdr_retune.replay._simulation._state import (
    ADMISSIONS,
    COMMITTED_PREFILL,
    END,
    FIRST_TOKEN,
    GAPS,
    GENERATED,
    REQUEST_SIZE,
    REUSED_FIRST,
    REUSED_MOST,
    SECOND_TOKEN,
    TIMES_SIZE,
    WORKER,
    State,
)
from dgdr_retune.replay._trace import Trace


@frozen(eq=False)
class Outcome:
    """What a replay did, by row; float64 milliseconds since the first arrival, NaN where there was no such token.

    Attributes:
        arrival_ms: when each request arrived.
        first_token_ms: its first token.
        second_token_ms: its second token.
        end_ms: its last token, or its end if it had none; NaN if its worker refused it.
        worker: where the router sent it.
        output_length: tokens that it generated.
        reused_first: prompt tokens found cached at its first admission; -1 without one.
        reused_most: known tokens found cached at the best of its admissions.
        gap_ms: gaps between consecutive tokens of a request.
        gap_tokens: how many tokens had each of these gaps.
        committed_prefill_tokens: tokens computed in prompts, those computed again after a preemption included.
        admissions: requests admitted, again after a preemption included.
    """

    arrival_ms: NDArray[np.float64]
    first_token_ms: NDArray[np.float64]
    second_token_ms: NDArray[np.float64]
    end_ms: NDArray[np.float64]
    worker: NDArray[np.int64]
    output_length: NDArray[np.int64]
    reused_first: NDArray[np.int64]
    reused_most: NDArray[np.int64]
    gap_ms: NDArray[np.float64]
    gap_tokens: NDArray[np.int32]
    committed_prefill_tokens: int
    admissions: int


def simulate(trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Outcome:
    """Replay a window of at least one request; equal arguments give equal numbers, bit for bit."""
    state = initial_state(trace, scenario, router, replication)
    while _run(state) != DONE:
        state = with_more_entries(state)
    return _outcome(trace, scenario, state)


def _build_run(sources: int) -> Callable[[State], int]:
    @kernel_entry
    def run_compiled(state: State) -> int:
        return run(state) if sources >= 0 else sources

    return run_compiled


_run = _build_run(sources_digest() if COMPILED else 0)


def _outcome(trace: Trace, scenario: Scenario, state: State) -> Outcome:
    requests = np.asarray(state.requests).reshape(-1, REQUEST_SIZE).astype(np.int64)
    times = np.asarray(state.times).reshape(-1, TIMES_SIZE)
    gaps = int(state.scratch[GAPS])
    return Outcome(
        arrival_ms=(trace.arrival_ms - trace.arrival_ms[0]) / scenario.speedup,
        first_token_ms=times[:, FIRST_TOKEN],
        second_token_ms=times[:, SECOND_TOKEN],
        end_ms=times[:, END],
        worker=requests[:, WORKER],
        output_length=requests[:, GENERATED],
        reused_first=requests[:, REUSED_FIRST],
        reused_most=requests[:, REUSED_MOST],
        gap_ms=state.gap_ms[:gaps],
        gap_tokens=state.gap_tokens[:gaps],
        committed_prefill_tokens=int(state.scratch[COMMITTED_PREFILL]),
        admissions=int(state.scratch[ADMISSIONS]),
    )
