"""The event loop: passes end, requests arrive, idle workers start passes; time jumps from event to event."""

from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._router import assign, choose, look_up, weigh
from dgdr_retune.replay._simulation._state import NEXT_ROW, OPEN_REQUESTS, State
from dgdr_retune.replay._simulation._worker import end_pass, start_pass

DONE = 0
GOING_ON = 1
ENTRIES_SHORT = 2


@kernel
def next_event_ms(state: State) -> float:
    """When the next request arrives or the next pass ends, whichever is first."""
    at_ms = float("inf")
    if state.log.counters[NEXT_ROW] < len(state.rows.input_length):
        at_ms = state.rows.arrival_ms[state.log.counters[NEXT_ROW]]
    for worker in range(state.setup.workers):
        if state.workers.busy[worker] != 0 and state.workers.pass_end_ms[worker] < at_ms:
            at_ms = state.workers.pass_end_ms[worker]
    return at_ms


@kernel
def receive(state: State, row: int) -> None:
    """Route an arriving request and queue it at its worker."""
    count = look_up(state.setup, state.rows, state.entries, state.router, row)
    weigh(state.setup, state.rows, state.router, row, count)
    worker = choose(state.setup, state.router, row)
    assign(state.setup, state.rows, state.requests, state.entries, state.router, row, worker, count)
    workers = state.workers
    state.requests.following[row] = -1
    if workers.waiting_last[worker] >= 0:
        state.requests.following[workers.waiting_last[worker]] = row
    else:
        workers.waiting_first[worker] = row
    workers.waiting_last[worker] = row
    state.log.counters[OPEN_REQUESTS] += 1


@kernel
def advance(state: State) -> int:
    """Everything that happens at the next event's time.

    Returns DONE without effect when nothing is left; ENTRIES_SHORT, before anything that could need more entries than
    there are: the caller gives more and calls again; else GOING_ON.
    """
    if state.log.counters[NEXT_ROW] == len(state.rows.input_length) and state.log.counters[OPEN_REQUESTS] == 0:
        return DONE
    if state.entries.count[0] < state.setup.entry_reserve:
        return ENTRIES_SHORT
    now_ms = next_event_ms(state)
    for worker in range(state.setup.workers):
        if state.workers.busy[worker] != 0 and state.workers.pass_end_ms[worker] <= now_ms:
            end_pass(state, worker)
    while state.log.counters[NEXT_ROW] < len(state.rows.input_length):
        row = state.log.counters[NEXT_ROW]
        if state.rows.arrival_ms[row] > now_ms:
            break
        if state.entries.count[0] < state.setup.entry_reserve:
            return ENTRIES_SHORT
        receive(state, row)
        state.log.counters[NEXT_ROW] = row + 1
    for worker in range(state.setup.workers):
        if state.workers.busy[worker] == 0 and (
            state.workers.waiting_first[worker] >= 0 or state.workers.running_first[worker] >= 0
        ):
            start_pass(state, worker, now_ms)
    return GOING_ON


@kernel
def run(state: State) -> int:
    """Advance until the replay is done or needs more entries; returns DONE or ENTRIES_SHORT."""
    status = GOING_ON
    while status == GOING_ON:
        status = advance(state)
    return status
