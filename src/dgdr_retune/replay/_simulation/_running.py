"""A worker's running requests: their list, their end, and the wheel that brings decoding ones up when it is time."""

from dgdr_retune.replay._simulation._blocks import add_entry, cache_copy, find_entry, release_copy
from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._state import (
    ADMISSIONS,
    ADMITTED,
    CACHED,
    CONTEXT_TOKENS,
    COPIES,
    DECODING,
    END,
    FINISHED,
    FOLLOWING,
    FREE_SLOT,
    FREE_SLOTS,
    GENERATED,
    HELD,
    LIMIT,
    NEXT,
    PREEMPTED,
    PREFILLING,
    PREFIX_CACHING,
    PREVIOUS,
    REQUEST_SIZE,
    RETRY,
    ROW,
    RUNNING,
    RUNNING_FIRST,
    RUNNING_LAST,
    STARTED,
    TICK,
    TIMES_SIZE,
    WAITING_FIRST,
    WAITING_LAST,
    WHEEL,
    WHEEL_NEXT,
    WHEEL_PREVIOUS,
    State,
)


@kernel
def block_entry(state: State, row: int, depth: int) -> int:
    """The entry of one of a request's whole blocks, or -1: a block of its prompt, or one with output in it."""
    if depth < state.input_length[row] // state.shape.block_size:
        return find_entry(state, state.blocks[state.hash_start[row] + depth], -1)
    return find_entry(state, depth, row)


@kernel
def add_block_entry(state: State, row: int, depth: int) -> int:
    """The same where there is none yet."""
    if depth < state.input_length[row] // state.shape.block_size:
        return add_entry(state, state.blocks[state.hash_start[row] + depth], -1)
    return add_entry(state, depth, row)


@kernel
def cache_computed(state: State, worker: int, slot: int, computed: int) -> None:
    """Put the blocks of a request that are whole after `computed` tokens into the prefix cache."""
    shape = state.shape
    if state.workers[worker * shape.worker_size + PREFIX_CACHING] == 0:
        return
    row = state.slots[slot + ROW]
    for depth in range(state.slots[slot + CACHED], computed // shape.block_size):
        entry = block_entry(state, row, depth)
        if entry < 0:
            entry = add_block_entry(state, row, depth)
        cache_copy(state, worker, state.slots[slot + COPIES + depth], entry)
        state.slots[slot + CACHED] = depth + 1


@kernel
def take_slot(state: State, row: int) -> int:
    """A slot for a request that is to hold blocks; there is one."""
    slots = state.slots
    scratch = state.scratch
    slot: int = scratch[FREE_SLOT]
    scratch[FREE_SLOT] = slots[slot + NEXT]
    scratch[FREE_SLOTS] -= 1
    slots[slot + ROW] = row
    slots[slot + STARTED] = -1
    return slot


@kernel
def give_back(state: State, worker: int, slot: int) -> None:
    """Free a slot, and release its blocks, last block first, so that a prefix outlives what follows it."""
    slots = state.slots
    scratch = state.scratch
    for place in range(slot + COPIES + slots[slot + HELD] - 1, slot + COPIES - 1, -1):
        release_copy(state, worker, slots[place])
    slots[slot + NEXT] = scratch[FREE_SLOT]
    scratch[FREE_SLOT] = slot
    scratch[FREE_SLOTS] += 1
    state.workers[worker * state.shape.worker_size + RETRY] = 1


@kernel
def enter_running(state: State, worker: int, slot: int) -> None:
    """Put a request at the end of the running list."""
    workers = state.workers
    slots = state.slots
    slots[slot + ADMITTED] = state.scratch[ADMISSIONS]
    state.scratch[ADMISSIONS] += 1
    at = worker * state.shape.worker_size
    last = workers[at + RUNNING_LAST]
    slots[slot + PREVIOUS] = last
    slots[slot + NEXT] = -1
    if last >= 0:
        slots[last + NEXT] = slot
    else:
        workers[at + RUNNING_FIRST] = slot
    workers[at + RUNNING_LAST] = slot
    workers[at + RUNNING] += 1


@kernel
def leave_running(state: State, worker: int, slot: int) -> None:
    """Take a request out of the running list; it keeps its slot and its blocks."""
    workers = state.workers
    slots = state.slots
    at = worker * state.shape.worker_size
    before = slots[slot + PREVIOUS]
    after = slots[slot + NEXT]
    if before >= 0:
        slots[before + NEXT] = after
    else:
        workers[at + RUNNING_FIRST] = after
    if after >= 0:
        slots[after + PREVIOUS] = before
    else:
        workers[at + RUNNING_LAST] = before
    workers[at + RUNNING] -= 1


@kernel
def output_tokens(state: State, worker: int, slot: int) -> int:
    """Output tokens of a running request after its worker's last tick."""
    started = state.slots[slot + STARTED]
    generated: int = state.requests[state.slots[slot + ROW] * REQUEST_SIZE + GENERATED]
    if started >= 0:
        generated += state.workers[worker * state.shape.worker_size + TICK] - started
    return generated


@kernel
def begin_decoding(state: State, worker: int, slot: int) -> None:
    """From the next pass on, one token a pass."""
    at = worker * state.shape.worker_size
    row = state.slots[slot + ROW]
    state.slots[slot + STARTED] = state.workers[at + TICK]
    state.workers[at + DECODING] += 1
    state.workers[at + CONTEXT_TOKENS] += state.input_length[row] + state.requests[row * REQUEST_SIZE + GENERATED]
    put_on_wheel(state, worker, slot)


@kernel
def put_on_wheel(state: State, worker: int, slot: int) -> None:
    """Note the tick at which a decoding request next needs a block, or ends; less than the wheel's size ahead."""
    workers = state.workers
    slots = state.slots
    at = worker * state.shape.worker_size
    row = slots[slot + ROW]
    generated = output_tokens(state, worker, slot)
    until_end = state.requests[row * REQUEST_SIZE + LIMIT] - generated
    until_block = slots[slot + HELD] * state.shape.block_size + 2 - state.input_length[row] - generated
    tick = workers[at + TICK] + min(until_block, until_end)
    place = at + WHEEL + tick % state.shape.wheel_size
    first = workers[place]
    slots[slot + WHEEL_PREVIOUS] = -2 - place
    slots[slot + WHEEL_NEXT] = first
    if first >= 0:
        slots[first + WHEEL_PREVIOUS] = slot
    workers[place] = slot


@kernel
def take_off_wheel(state: State, slot: int) -> None:
    """Undo `put_on_wheel`."""
    slots = state.slots
    before = slots[slot + WHEEL_PREVIOUS]
    after = slots[slot + WHEEL_NEXT]
    if before >= 0:
        slots[before + WHEEL_NEXT] = after
    else:
        state.workers[-2 - before] = after
    if after >= 0:
        slots[after + WHEEL_PREVIOUS] = before


@kernel
def end_decoding(state: State, worker: int, slot: int) -> None:
    """Take a request out of its worker's decoding sums; its last token stays uncomputed."""
    at = worker * state.shape.worker_size
    row = state.slots[slot + ROW]
    generated = output_tokens(state, worker, slot)
    known = state.input_length[row] + generated
    take_off_wheel(state, slot)
    state.workers[at + DECODING] -= 1
    state.workers[at + CONTEXT_TOKENS] -= known
    state.requests[row * REQUEST_SIZE + GENERATED] = generated
    state.slots[slot + STARTED] = -1
    cache_computed(state, worker, slot, known - 1)


@kernel
def preempt_last(state: State, worker: int, now_ms: float) -> int:
    """Throw out the request that was admitted last: it waits again, first in line, and keeps its output."""
    workers = state.workers
    at = worker * state.shape.worker_size
    slot: int = workers[at + RUNNING_LAST]
    row = state.slots[slot + ROW]
    if state.slots[slot + STARTED] >= 0:
        end_decoding(state, worker, slot)
        state.times[row * TIMES_SIZE + END] = now_ms
    if workers[at + PREFILLING] == slot:
        workers[at + PREFILLING] = -1
    leave_running(state, worker, slot)
    give_back(state, worker, slot)
    first = workers[at + WAITING_FIRST]
    state.requests[row * REQUEST_SIZE + FOLLOWING] = first
    if first < 0:
        workers[at + WAITING_LAST] = row
    workers[at + WAITING_FIRST] = row
    state.scratch[PREEMPTED] = 1
    return slot


@kernel
def end_running(state: State, worker: int, slot: int, end_ms: float) -> None:
    """A running request ends with this pass."""
    row = state.slots[slot + ROW]
    state.times[row * TIMES_SIZE + END] = end_ms
    leave_running(state, worker, slot)
    give_back(state, worker, slot)
    finish(state, worker, row)


@kernel
def finish(state: State, worker: int, row: int) -> None:
    """A request has ended; the others see it when the pass ends."""
    at = worker * state.shape.worker_size
    state.requests[row * REQUEST_SIZE + FOLLOWING] = state.workers[at + FINISHED]
    state.workers[at + FINISHED] = row
