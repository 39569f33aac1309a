"""The event loop: passes end, requests arrive, idle workers start passes; time jumps from event to event."""

from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._state import (
    BUSY,
    FREE_ENTRIES,
    FREE_SLOTS,
    GAPS,
    HELD_SLOTS,
    NEXT_ROW,
    OPEN_REQUESTS,
    PASS,
    PASSES,
    RUNNING,
    STEP_FIRST,
    STUCK,
    SUBMIT,
    WAITING_FIRST,
    State,
)
from dgdr_retune.replay._simulation._transfer import line_up, submit, take_steps
from dgdr_retune.replay._simulation._worker import end_pass, run_idle, start_pass

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
    """When the next request arrives or the next pass ends, or the time of the steps to be taken, whichever is first."""
    at_ms: float = state.pass_end_ms[state.shape.workers]
    if state.scratch[NEXT_ROW] < state.shape.rows:
        at_ms = min(at_ms, arrival_ms(state, state.scratch[NEXT_ROW]))
    for worker in range(state.shape.workers):
        if state.workers[worker * state.shape.worker_size + BUSY] != 0:
            at_ms = min(at_ms, state.pass_end_ms[worker])
    return at_ms


@kernel
def is_short(state: State) -> bool:
    """Whether fewer entries, gaps or slots are free than an event may need."""
    shape = state.shape
    scratch = state.scratch
    gaps = len(state.gap_ms) - scratch[GAPS]
    slots = scratch[FREE_SLOTS] - scratch[HELD_SLOTS]
    short: bool = scratch[FREE_ENTRIES] < shape.entry_reserve
    return short or gaps < shape.gap_reserve or slots < shape.slot_reserve


@kernel
def advance(state: State) -> int:
    """Everything that happens at the next event's time.

    Returns DONE, without effect, when nothing is left; ROOM_SHORT before anything that could need more entries, gaps or
    slots than are free: the caller makes more and calls again; else GOING_ON.
    """
    shape = state.shape
    workers = state.workers
    scratch = state.scratch
    if scratch[NEXT_ROW] == shape.rows and scratch[OPEN_REQUESTS] == 0:
        return DONE
    if is_short(state):
        return ROOM_SHORT
    now_ms = next_event_ms(state)
    if shape.arrival_workers < shape.workers:
        return advance_pools(state, now_ms)
    for worker in range(shape.workers):
        if workers[worker * shape.worker_size + BUSY] != 0 and state.pass_end_ms[worker] <= now_ms:
            end_pass(state, worker)
    while scratch[NEXT_ROW] < shape.rows and arrival_ms(state, scratch[NEXT_ROW]) <= now_ms:
        if scratch[FREE_ENTRIES] < shape.entry_reserve:
            return ROOM_SHORT
        submit(state, scratch[NEXT_ROW])
        scratch[OPEN_REQUESTS] += 1
        scratch[NEXT_ROW] += 1
    for worker in range(shape.workers):
        at = worker * shape.worker_size
        if workers[at + BUSY] == 0 and (workers[at + WAITING_FIRST] >= 0 or workers[at + RUNNING] > 0):
            start_pass(state, worker, now_ms)
    return GOING_ON


@kernel
def advance_pools(state: State, now_ms: float) -> int:
    """The same in a disaggregated deployment.

    Passes end in the order in which they started, requests take steps, passes start, requests arrive. Steps that follow
    from passes without a length and from arrivals are left to the next call, at the same time.
    """
    shape = state.shape
    scratch = state.scratch
    if now_ms == float("inf"):
        now_ms = state.pass_end_ms[shape.workers + 1]
        scratch[STUCK] = 1
    state.pass_end_ms[shape.workers] = now_ms
    state.pass_end_ms[shape.workers + 1] = now_ms
    worker = first_ended(state, now_ms)
    while worker >= 0:
        end_pass(state, worker)
        worker = first_ended(state, now_ms)
    if not take_steps(state, now_ms):
        return ROOM_SHORT
    for worker in range(shape.workers):
        run_idle(state, worker, now_ms)
    while scratch[NEXT_ROW] < shape.rows and arrival_ms(state, scratch[NEXT_ROW]) <= now_ms:
        line_up(state, scratch[NEXT_ROW], SUBMIT)
        scratch[OPEN_REQUESTS] += 1
        scratch[NEXT_ROW] += 1
    scratch[STUCK] = 0
    if scratch[STEP_FIRST] < 0:
        state.pass_end_ms[shape.workers] = float("inf")
    return GOING_ON


@kernel
def first_ended(state: State, now_ms: float) -> int:
    """Of the workers whose pass is over, the one whose pass started first; -1 without any."""
    first = -1
    started = state.scratch[PASSES]
    for worker in range(state.shape.workers):
        at = worker * state.shape.worker_size
        if state.workers[at + BUSY] != 0 and state.pass_end_ms[worker] <= now_ms and state.workers[at + PASS] < started:
            first = worker
            started = state.workers[at + PASS]
    return first


@kernel
def run(state: State) -> int:
    """Advance until the replay is done or needs more room; returns DONE or ROOM_SHORT."""
    status = GOING_ON
    while status == GOING_ON:
        status = advance(state)
    return status
