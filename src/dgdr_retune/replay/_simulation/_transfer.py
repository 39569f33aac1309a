"""How a request of a disaggregated deployment gets from its prefill worker to its decode worker.

A prompt stays on the prefill worker, out of the running list, until a decode worker has room for it and has taken it
over. Each request does so in steps (see the state module); those of all requests are taken in one line, in order, and
one that a worker under way cannot take waits for the end of its pass.
"""

from dgdr_retune.replay._simulation._blocks import take_copy
from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._prompts import find_prefix, has_room, hold_prefix
from dgdr_retune.replay._simulation._router import (
    assign,
    assign_destination,
    choose,
    free_destination,
    free_request,
    look_up,
    weigh,
    weigh_destinations,
)
from dgdr_retune.replay._simulation._running import cache_computed, enter_running, give_back, leave_running, take_slot
from dgdr_retune.replay._simulation._state import (
    ACTIVATE,
    BLOCKS,
    BUDGET,
    BUSY,
    CANCEL,
    COMPLETE,
    COMPLETING,
    COPIES,
    DEFERRED_FIRST,
    DEFERRED_LAST,
    DESTINATION,
    EMERGING,
    END,
    FINISHED,
    FOLLOWING,
    FREE_ENTRIES,
    GIVE_UP,
    HELD,
    HELD_SLOT,
    HELD_SLOTS,
    LIMIT,
    MOVE,
    NEXT_EMERGING,
    NEXT_STEP,
    OPEN_REQUESTS,
    PREFILLING,
    RELEASE,
    REQUEST_SIZE,
    RESERVE,
    RESERVED_SLOT,
    RETRY,
    ROW,
    RUNNING,
    SEQUENCES,
    STEP,
    STEP_FIRST,
    STEP_LAST,
    STUCK,
    SUBMIT,
    TIMES_SIZE,
    TRANSFER_SIZE,
    UNRESERVED_FIRST,
    UNRESERVED_LAST,
    WAITING_FIRST,
    WAITING_LAST,
    WORKER,
    State,
)


@kernel
def queue(state: State, worker: int, row: int) -> None:
    """Put a request at the end of a worker's waiting queue."""
    at = worker * state.shape.worker_size
    last = state.workers[at + WAITING_LAST]
    state.requests[row * REQUEST_SIZE + FOLLOWING] = -1
    if last >= 0:
        state.requests[last * REQUEST_SIZE + FOLLOWING] = row
    else:
        state.workers[at + WAITING_FIRST] = row
    state.workers[at + WAITING_LAST] = row


@kernel
def line_up(state: State, row: int, step: int) -> None:
    """Put a request's next step at the end of the line."""
    scratch = state.scratch
    state.transfers[row * TRANSFER_SIZE + STEP] = step
    state.transfers[row * TRANSFER_SIZE + NEXT_STEP] = -1
    last = scratch[STEP_LAST]
    if last >= 0:
        state.transfers[last * TRANSFER_SIZE + NEXT_STEP] = row
    else:
        scratch[STEP_FIRST] = row
    scratch[STEP_LAST] = row


@kernel
def defer(state: State, worker: int, row: int) -> None:
    """A request's step waits for the end of the worker's pass."""
    at = worker * state.shape.worker_size
    last = state.workers[at + DEFERRED_LAST]
    if last >= 0:
        state.transfers[last * TRANSFER_SIZE + NEXT_STEP] = row
    else:
        state.workers[at + DEFERRED_FIRST] = row
    state.workers[at + DEFERRED_LAST] = row


@kernel
def wake(state: State, worker: int) -> None:
    """The steps that waited for the worker's pass to end go to the end of the line."""
    scratch = state.scratch
    workers = state.workers
    at = worker * state.shape.worker_size
    first = workers[at + DEFERRED_FIRST]
    if first < 0:
        return
    if scratch[STEP_LAST] >= 0:
        state.transfers[scratch[STEP_LAST] * TRANSFER_SIZE + NEXT_STEP] = first
    else:
        scratch[STEP_FIRST] = first
    scratch[STEP_LAST] = workers[at + DEFERRED_LAST]
    workers[at + DEFERRED_FIRST] = -1
    workers[at + DEFERRED_LAST] = -1


@kernel
def take_steps(state: State, now_ms: float) -> bool:
    """Take the steps in line, and those that follow from them; False where entries are short before the next."""
    scratch = state.scratch
    while scratch[STEP_FIRST] >= 0:
        if scratch[FREE_ENTRIES] < state.shape.entry_reserve:
            return False
        row = scratch[STEP_FIRST]
        transfer = row * TRANSFER_SIZE
        scratch[STEP_FIRST] = state.transfers[transfer + NEXT_STEP]
        if scratch[STEP_FIRST] < 0:
            scratch[STEP_LAST] = -1
        state.transfers[transfer + NEXT_STEP] = -1
        take_step(state, row, state.transfers[transfer + STEP], now_ms)
    return True


@kernel
def take_step(state: State, row: int, step: int, now_ms: float) -> None:
    """One step of one request."""
    if step == SUBMIT:
        submit(state, row)
    elif step == RESERVE:
        reserve(state, row, now_ms)
    elif step == MOVE:
        line_up(state, row, ACTIVATE)
    elif step == ACTIVATE:
        activate(state, row)
    elif step == RELEASE:
        release(state, row, COMPLETE)
    elif step == COMPLETE:
        free_request(state, row)
    elif step == CANCEL:
        if state.transfers[row * TRANSFER_SIZE + DESTINATION] >= 0:
            free_destination(state, row)
        release(state, row, GIVE_UP)
    else:
        free_request(state, row)
        state.scratch[OPEN_REQUESTS] -= 1


@kernel
def submit(state: State, row: int) -> None:
    """Route a request to a worker and queue it there."""
    count = look_up(state, row)
    weigh(state, row, count)
    worker = choose(state, row, 0, state.shape.arrival_workers)
    assign(state, row, worker, count)
    queue(state, worker, row)


@kernel
def reserve(state: State, row: int, now_ms: float) -> None:
    """Route a request with a computed prompt to a decode worker, where it waits for room; none has any for too much."""
    shape = state.shape
    weigh_destinations(state, state.input_length[row] // shape.block_size)
    worker = choose(state, row, shape.arrival_workers, shape.workers)
    assign_destination(state, row, worker)
    at = worker * shape.worker_size
    if (state.input_length[row] + shape.block_size - 1) // shape.block_size > state.workers[at + BLOCKS]:
        state.requests[row * REQUEST_SIZE + LIMIT] = -1
        state.times[row * TIMES_SIZE + END] = now_ms
        line_up(state, row, CANCEL)
        return
    last = state.workers[at + UNRESERVED_LAST]
    state.requests[row * REQUEST_SIZE + FOLLOWING] = -1
    if last >= 0:
        state.requests[last * REQUEST_SIZE + FOLLOWING] = row
    else:
        state.workers[at + UNRESERVED_FIRST] = row
        state.workers[at + RETRY] = 1
    state.workers[at + UNRESERVED_LAST] = row
    if state.workers[at + BUSY] == 0:
        reserve_next(state, worker)


@kernel
def reserve_next(state: State, worker: int) -> None:
    """Give the first of the requests that wait for room its blocks, if there are a sequence and room for the prompt.

    Tried again only after something has made room.
    """
    shape = state.shape
    workers = state.workers
    at = worker * shape.worker_size
    row = workers[at + UNRESERVED_FIRST]
    if row < 0 or workers[at + RETRY] == 0:
        return
    workers[at + RETRY] = 0
    if workers[at + RUNNING] >= workers[at + SEQUENCES]:
        return
    hits = find_prefix(state, worker, row, state.input_length[row] // shape.block_size)
    blocks = (state.input_length[row] + shape.block_size - 1) // shape.block_size
    if not has_room(state, worker, blocks, hits):
        return
    workers[at + RETRY] = 1
    workers[at + UNRESERVED_FIRST] = state.requests[row * REQUEST_SIZE + FOLLOWING]
    if workers[at + UNRESERVED_FIRST] < 0:
        workers[at + UNRESERVED_LAST] = -1
    slot = take_slot(state, row)
    hold_prefix(state, worker, slot, hits)
    for depth in range(hits, blocks):
        state.slots[slot + COPIES + depth] = take_copy(state, worker)
    state.slots[slot + HELD] = blocks
    state.transfers[row * TRANSFER_SIZE + RESERVED_SLOT] = slot
    line_up(state, row, MOVE)


@kernel
def activate(state: State, row: int) -> None:
    """The prompt has arrived in its blocks, which are cached now; the request waits for its turn to decode."""
    transfer = row * TRANSFER_SIZE
    worker = state.transfers[transfer + DESTINATION]
    if state.workers[worker * state.shape.worker_size + BUSY] != 0:
        defer(state, worker, row)
        return
    cache_computed(state, worker, state.transfers[transfer + RESERVED_SLOT], state.input_length[row])
    queue(state, worker, row)
    line_up(state, row, RELEASE)
    reserve_next(state, worker)


@kernel
def release(state: State, row: int, following: int) -> None:
    """The prefill worker's blocks of the request are no longer needed."""
    transfer = row * TRANSFER_SIZE
    worker = state.requests[row * REQUEST_SIZE + WORKER]
    if state.workers[worker * state.shape.worker_size + BUSY] != 0:
        defer(state, worker, row)
        return
    slot = state.transfers[transfer + HELD_SLOT]
    if slot >= 0:
        state.transfers[transfer + HELD_SLOT] = -1
        state.scratch[HELD_SLOTS] -= 1
        give_back(state, worker, slot)
    line_up(state, row, following)


@kernel
def hold_completed(state: State, worker: int) -> None:
    """With this pass, prompts are computed: they leave the running list and keep their blocks.

    EMERGING lists them in the order in which they leave, those for no output first.
    """
    slots = state.slots
    scratch = state.scratch
    at = worker * state.shape.worker_size
    first = state.shape.completing
    for without_output in range(2):
        for place in range(first + scratch[COMPLETING] - 1, first - 1, -1):
            slot = scratch[place]
            row = slots[slot + ROW]
            if (state.requests[row * REQUEST_SIZE + LIMIT] == 0) != (without_output == 1):
                continue
            leave_running(state, worker, slot)
            state.transfers[row * TRANSFER_SIZE + HELD_SLOT] = slot
            scratch[HELD_SLOTS] += 1
            slots[slot + NEXT_EMERGING] = state.workers[at + EMERGING]
            state.workers[at + EMERGING] = slot


@kernel
def hand_over(state: State, worker: int) -> None:
    """A prefill worker's pass has ended: what it refused is given up, what it computed goes on."""
    workers = state.workers
    at = worker * state.shape.worker_size
    row = workers[at + FINISHED]
    while row >= 0:
        following = state.requests[row * REQUEST_SIZE + FOLLOWING]
        line_up(state, row, CANCEL)
        row = following
    workers[at + FINISHED] = -1
    slot = workers[at + EMERGING]
    while slot >= 0:
        line_up(state, state.slots[slot + ROW], RESERVE)
        slot = state.slots[slot + NEXT_EMERGING]
    workers[at + EMERGING] = -1


@kernel
def admit_transferred(state: State, worker: int) -> None:
    """Waiting requests whose prompts are here, in line; they decode with this pass.

    While a prompt waits for room, they pass those that were thrown out, which would need room as well; also when all is
    stuck otherwise (the native engine fails then). None goes on while a request is computed again in parts: that one
    stays the last of the running list.
    """
    requests = state.requests
    transfers = state.transfers
    scratch = state.scratch
    workers = state.workers
    at = worker * state.shape.worker_size
    if workers[at + PREFILLING] >= 0:
        return
    before = -1
    row = workers[at + WAITING_FIRST]
    while row >= 0 and transfers[row * TRANSFER_SIZE + RESERVED_SLOT] < 0:
        if workers[at + UNRESERVED_FIRST] < 0 and scratch[STUCK] == 0:
            return
        before = row
        row = requests[row * REQUEST_SIZE + FOLLOWING]
    while row >= 0 and workers[at + RUNNING] < workers[at + SEQUENCES]:
        slot = transfers[row * TRANSFER_SIZE + RESERVED_SLOT]
        transfers[row * TRANSFER_SIZE + RESERVED_SLOT] = -1
        row = requests[row * REQUEST_SIZE + FOLLOWING]
        if before >= 0:
            requests[before * REQUEST_SIZE + FOLLOWING] = row
        else:
            workers[at + WAITING_FIRST] = row
        if row < 0:
            workers[at + WAITING_LAST] = before
        enter_running(state, worker, slot)
        scratch[state.shape.completing + scratch[COMPLETING]] = slot
        scratch[COMPLETING] += 1
        if scratch[BUDGET] == 0:
            return
