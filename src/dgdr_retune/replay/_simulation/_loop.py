"""The event loop: passes end, requests arrive, idle workers start passes; time jumps from event to event."""

from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._router import assign, choose, look_up, weigh
from dgdr_retune.replay._simulation._state import (
    BUSY,
    FOLLOWING,
    FREE_ENTRIES,
    GAPS,
    NEXT_ROW,
    OPEN_REQUESTS,
    REQUEST_SIZE,
    RUNNING,
    WAITING_FIRST,
    WAITING_LAST,
    State,
)
from dgdr_retune.replay._simulation._worker import end_pass, start_pass

DONE = 0
GOING_ON = 1
ROOM_SHORT = 2


@kernel
def arrival_ms(state: State, row: int) -> float:
    """When a request arrives, in milliseconds since the first."""
    since_first: int = state.arrival_ms[row] - state.arrival_ms[0]
    return since_first / state.policy.speedup


@kernel
def next_event_ms(state: State) -> float:
    """When the next request arrives or the next pass ends, whichever is first."""
    at_ms = float("inf")
    if state.scratch[NEXT_ROW] < state.shape.rows:
        at_ms = arrival_ms(state, state.scratch[NEXT_ROW])
    for worker in range(state.shape.workers):
        if state.workers[worker * state.shape.worker_size + BUSY] != 0:
            at_ms = min(at_ms, state.pass_end_ms[worker])
    return at_ms


@kernel
def receive(state: State, row: int) -> None:
    """Route an arriving request and queue it at its worker."""
    count = look_up(state, row)
    weigh(state, row, count)
    worker = choose(state, row)
    assign(state, row, worker, count)
    at = worker * state.shape.worker_size
    last = state.workers[at + WAITING_LAST]
    if last >= 0:
        state.requests[last * REQUEST_SIZE + FOLLOWING] = row
    else:
        state.workers[at + WAITING_FIRST] = row
    state.workers[at + WAITING_LAST] = row
    state.scratch[OPEN_REQUESTS] += 1


@kernel
def advance(state: State) -> int:
    """Everything that happens at the next event's time.

    Returns DONE, without effect, when nothing is left; ROOM_SHORT before anything that could need more entries or gaps
    than are free: the caller makes more and calls again; else GOING_ON.
    """
    shape = state.shape
    workers = state.workers
    scratch = state.scratch
    if scratch[NEXT_ROW] == shape.rows and scratch[OPEN_REQUESTS] == 0:
        return DONE
    if scratch[FREE_ENTRIES] < shape.entry_reserve or len(state.gap_ms) - scratch[GAPS] < shape.gap_reserve:
        return ROOM_SHORT
    now_ms = next_event_ms(state)
    for worker in range(shape.workers):
        if workers[worker * shape.worker_size + BUSY] != 0 and state.pass_end_ms[worker] <= now_ms:
            end_pass(state, worker)
    while scratch[NEXT_ROW] < shape.rows and arrival_ms(state, scratch[NEXT_ROW]) <= now_ms:
        if scratch[FREE_ENTRIES] < shape.entry_reserve:
            return ROOM_SHORT
        receive(state, scratch[NEXT_ROW])
        scratch[NEXT_ROW] += 1
    for worker in range(shape.workers):
        at = worker * shape.worker_size
        if workers[at + BUSY] == 0 and (workers[at + WAITING_FIRST] >= 0 or workers[at + RUNNING] > 0):
            start_pass(state, worker, now_ms)
    return GOING_ON


@kernel
def run(state: State) -> int:
    """Advance until the replay is done or needs more room; returns DONE or ROOM_SHORT."""
    status = GOING_ON
    while status == GOING_ON:
        status = advance(state)
    return status
