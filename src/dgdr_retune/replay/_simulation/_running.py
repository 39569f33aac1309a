"""A worker's running requests: their list, the wheel that brings decoding ones up when they need attention, their end."""

from dgdr_retune.replay._simulation._blocks import add_entry, cache_copy, find_entry, release_copy
from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._state import PREEMPTED, State


@kernel
def block_entry(state: State, row: int, depth: int) -> int:
    """The entry of one of a request's whole blocks, or -1: a block of its prompt, or one with output in it."""
    if depth < state.rows.input_length[row] // state.setup.block_size:
        return find_entry(state.entries, state.rows.hashes[state.rows.hash_start[row] + depth], -1)
    return find_entry(state.entries, depth, row)


@kernel
def cache_computed(state: State, worker: int, slot: int, computed: int) -> None:
    """Put the blocks of a request that are whole after `computed` tokens into the prefix cache."""
    if not state.setup.prefix_caching:
        return
    row = state.slots.row[slot]
    base = slot * state.setup.depth_limit
    for depth in range(state.slots.cached[slot], computed // state.setup.block_size):
        entry = block_entry(state, row, depth)
        if entry < 0:
            entry = add_entry(state.setup, state.entries, depth, row)
        cache_copy(state.setup, state.entries, state.pool, worker, state.slots.blocks[base + depth], entry)
        state.slots.cached[slot] = depth + 1


@kernel
def enter_running(state: State, worker: int, row: int) -> int:
    """A slot for a request that leaves the waiting queue, at the end of the running list."""
    slots = state.slots
    workers = state.workers
    workers.free_slots[worker] -= 1
    slot = slots.free[worker * state.setup.max_sequences + workers.free_slots[worker]]
    slots.row[slot] = row
    slots.started[slot] = -1
    last = workers.running_last[worker]
    slots.previous[slot] = last
    slots.next[slot] = -1
    if last >= 0:
        slots.next[last] = slot
    else:
        workers.running_first[worker] = slot
    workers.running_last[worker] = slot
    workers.running_count[worker] += 1
    return slot


@kernel
def leave_running(state: State, worker: int, slot: int) -> None:
    """Give a slot back, and its blocks, last block first, so that a prefix outlives what follows it."""
    slots = state.slots
    workers = state.workers
    base = slot * state.setup.depth_limit
    for depth in range(slots.held[slot] - 1, -1, -1):
        release_copy(state.setup, state.pool, worker, slots.blocks[base + depth])
    before = slots.previous[slot]
    after = slots.next[slot]
    if before >= 0:
        slots.next[before] = after
    else:
        workers.running_first[worker] = after
    if after >= 0:
        slots.previous[after] = before
    else:
        workers.running_last[worker] = before
    workers.running_count[worker] -= 1
    slots.free[worker * state.setup.max_sequences + workers.free_slots[worker]] = slot
    workers.free_slots[worker] += 1


@kernel
def known_tokens(state: State, worker: int, slot: int) -> int:
    """Prompt and output tokens of a running request after its worker's last tick."""
    row = state.slots.row[slot]
    known = state.rows.input_length[row] + state.requests.generated[row]
    if state.slots.started[slot] >= 0:
        known += state.workers.tick[worker] - state.slots.started[slot]
    return known


@kernel
def begin_decoding(state: State, worker: int, slot: int) -> None:
    """From the next pass on, one token a pass."""
    state.slots.started[slot] = state.workers.tick[worker]
    state.workers.decoding[worker] += 1
    state.workers.context_tokens[worker] += known_tokens(state, worker, slot)
    put_on_wheel(state, worker, slot)


@kernel
def put_on_wheel(state: State, worker: int, slot: int) -> None:
    """Note the tick at which a decoding request next needs a block, or ends; at most a block's tokens ahead."""
    slots = state.slots
    row = slots.row[slot]
    known = known_tokens(state, worker, slot)
    until_block = slots.held[slot] * state.setup.block_size + 2 - known
    until_end = state.rows.output_length[row] - (known - state.rows.input_length[row])
    size = state.setup.block_size + 1
    place = worker * size + (state.workers.tick[worker] + min(until_block, until_end)) % size
    first = state.workers.wheel[place]
    slots.wheel_previous[slot] = -2 - place
    slots.wheel_next[slot] = first
    if first >= 0:
        slots.wheel_previous[first] = slot
    state.workers.wheel[place] = slot


@kernel
def take_off_wheel(state: State, slot: int) -> None:
    """Undo `put_on_wheel`."""
    before = state.slots.wheel_previous[slot]
    after = state.slots.wheel_next[slot]
    if before >= 0:
        state.slots.wheel_next[before] = after
    else:
        state.workers.wheel[-2 - before] = after
    if after >= 0:
        state.slots.wheel_previous[after] = before


@kernel
def end_decoding(state: State, worker: int, slot: int) -> None:
    """Take a request out of its worker's decoding sums; its last token stays uncomputed."""
    row = state.slots.row[slot]
    known = known_tokens(state, worker, slot)
    take_off_wheel(state, slot)
    state.workers.decoding[worker] -= 1
    state.workers.context_tokens[worker] -= known
    state.requests.generated[row] = known - state.rows.input_length[row]
    state.slots.started[slot] = -1
    cache_computed(state, worker, slot, known - 1)


@kernel
def preempt_last(state: State, worker: int, now_ms: float) -> int:
    """Throw out the request that was admitted last: it waits again, first in line, and keeps its output."""
    slot = state.workers.running_last[worker]
    row = state.slots.row[slot]
    if state.slots.started[slot] >= 0:
        end_decoding(state, worker, slot)
        state.requests.last_token_ms[row] = now_ms
    if state.workers.prefilling[worker] == slot:
        state.workers.prefilling[worker] = -1
    leave_running(state, worker, slot)
    first = state.workers.waiting_first[worker]
    state.requests.following[row] = first
    if first < 0:
        state.workers.waiting_last[worker] = row
    state.workers.waiting_first[worker] = row
    state.work.account[PREEMPTED] = 1
    return slot


@kernel
def finish(state: State, worker: int, row: int) -> None:
    """A request has ended; the others see it when the pass ends."""
    state.requests.following[row] = state.workers.finished[worker]
    state.workers.finished[worker] = row
