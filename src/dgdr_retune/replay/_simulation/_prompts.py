"""The prompts of a pass: the one that the last pass could not finish, and those of waiting requests."""

from dgdr_retune.replay._simulation._blocks import hold_copy, take_copy
from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._running import (
    block_entry,
    cache_computed,
    enter_running,
    finish,
    preempt_last,
    take_slot,
)
from dgdr_retune.replay._simulation._state import (
    BUDGET,
    CACHED,
    COMMITTED_PREFILL,
    COMPLETING,
    COMPUTED,
    COPIES,
    DECODE,
    END,
    FIRST_COPY,
    FOLLOWING,
    GENERATED,
    HELD,
    HOLDING_SIZE,
    LIMIT,
    PREFILLING,
    PREFIX_CACHING,
    PROMPT_ENDS,
    PROMPT_STARTS,
    PROMPTS,
    REFERENCES,
    REQUEST_SIZE,
    RESERVED_SLOT,
    REUSED_FIRST,
    REUSED_MOST,
    ROLE,
    ROW,
    RUNNING,
    SEQUENCES,
    SPARE_COPIES,
    TIMES_SIZE,
    TRANSFER_SIZE,
    WAITING_FIRST,
    WAITING_LAST,
    State,
)


@kernel
def run_prompt(state: State, worker: int, slot: int, tokens: int) -> None:
    """Compute the next `tokens` known tokens of a request; the caller has seen to it that there are blocks."""
    shape = state.shape
    slots = state.slots
    scratch = state.scratch
    row = slots[slot + ROW]
    before = slots[slot + COMPUTED]
    after = before + tokens
    needed = (after + shape.block_size - 1) // shape.block_size
    for depth in range(slots[slot + HELD], needed):
        slots[slot + COPIES + depth] = take_copy(state, worker)
    slots[slot + HELD] = needed
    slots[slot + COMPUTED] = after
    cache_computed(state, worker, slot, after)
    scratch[BUDGET] -= tokens
    prompt_before = min(before, state.input_length[row])
    prompt_after = min(after, state.input_length[row])
    if prompt_after > prompt_before:
        scratch[PROMPTS] += 1
        scratch[PROMPT_ENDS] += prompt_after
        scratch[PROMPT_STARTS] += prompt_before
        scratch[COMMITTED_PREFILL] += tokens
    if after == state.input_length[row] + state.requests[row * REQUEST_SIZE + GENERATED]:
        scratch[shape.completing + scratch[COMPLETING]] = slot
        scratch[COMPLETING] += 1


@kernel
def continue_prompt(state: State, worker: int, now_ms: float) -> None:
    """The next chunk of the prompt that the last pass could not finish; it is always the last of the running list."""
    slots = state.slots
    at = worker * state.shape.worker_size
    block_size = state.shape.block_size
    slot = state.workers[at + PREFILLING]
    row = slots[slot + ROW]
    known = state.input_length[row] + state.requests[row * REQUEST_SIZE + GENERATED]
    after = min(known, slots[slot + COMPUTED] + state.scratch[BUDGET])
    if (after + block_size - 1) // block_size - slots[slot + HELD] > state.workers[at + SPARE_COPIES]:
        preempt_last(state, worker, now_ms)
        return
    run_prompt(state, worker, slot, after - slots[slot + COMPUTED])
    if after == known:
        state.workers[at + PREFILLING] = -1


@kernel
def admit_waiting(state: State, worker: int, now_ms: float) -> None:
    """Waiting requests in line, as long as there are sequences, blocks and tokens for the next.

    Stops before one whose prompt came from a prefill worker.
    """
    shape = state.shape
    workers = state.workers
    scratch = state.scratch
    at = worker * shape.worker_size
    while workers[at + RUNNING] < workers[at + SEQUENCES] and workers[at + WAITING_FIRST] >= 0:
        row = workers[at + WAITING_FIRST]
        if workers[at + ROLE] == DECODE and state.transfers[row * TRANSFER_SIZE + RESERVED_SLOT] >= 0:
            return
        if state.requests[row * REQUEST_SIZE + LIMIT] < 0:
            leave_waiting(state, worker, row)
            finish(state, worker, row)
            state.times[row * TIMES_SIZE + END] = now_ms
            continue
        known = state.input_length[row] + state.requests[row * REQUEST_SIZE + GENERATED]
        hits = find_prefix(state, worker, row, reusable_blocks(state, row, known))
        if not has_room(state, worker, (known + shape.block_size - 1) // shape.block_size, hits):
            return
        new_tokens = known - hits * shape.block_size
        tokens = min(new_tokens, scratch[BUDGET])
        if tokens == 0 and new_tokens > 0:
            return
        leave_waiting(state, worker, row)
        slot = admit(state, worker, row, hits)
        run_prompt(state, worker, slot, tokens)
        if tokens < new_tokens:
            workers[at + PREFILLING] = slot
        if tokens == 0 and scratch[BUDGET] == 0:
            return


@kernel
def reusable_blocks(state: State, row: int, known: int) -> int:
    """Whole blocks of a request's known tokens; one that is to have more output computes its last token at least."""
    request = row * REQUEST_SIZE
    if state.requests[request + GENERATED] < state.requests[request + LIMIT]:
        return (known - 1) // state.shape.block_size
    return known // state.shape.block_size


@kernel
def find_prefix(state: State, worker: int, row: int, reusable: int) -> int:
    """How many of a request's first `reusable` blocks are in the worker's cache; leaves their copies in the chain."""
    shape = state.shape
    if state.workers[worker * shape.worker_size + PREFIX_CACHING] == 0:
        return 0
    for depth in range(reusable):
        entry = block_entry(state, row, depth)
        if entry < 0:
            return depth
        copy = state.entries[entry + shape.holdings + worker * HOLDING_SIZE + FIRST_COPY]
        if copy < 0:
            return depth
        state.scratch[shape.chain + depth] = copy
    return reusable


@kernel
def has_room(state: State, worker: int, blocks: int, hits: int) -> bool:
    """Whether a request of so many blocks fits; the cached ones (in the chain) that somebody uses need no room."""
    needed = blocks
    for k in range(hits):
        if state.copies[state.scratch[state.shape.chain + k] + REFERENCES] > 0:
            needed -= 1
    spare: int = state.workers[worker * state.shape.worker_size + SPARE_COPIES]
    return needed <= spare


@kernel
def leave_waiting(state: State, worker: int, row: int) -> None:
    """Take the first waiting request out of the queue."""
    workers = state.workers
    at = worker * state.shape.worker_size
    workers[at + WAITING_FIRST] = state.requests[row * REQUEST_SIZE + FOLLOWING]
    if workers[at + WAITING_FIRST] < 0:
        workers[at + WAITING_LAST] = -1


@kernel
def hold_prefix(state: State, worker: int, slot: int, hits: int) -> None:
    """The request of a new slot uses so many cached copies (from the chain)."""
    slots = state.slots
    for depth in range(hits):
        copy = state.scratch[state.shape.chain + depth]
        hold_copy(state, worker, copy)
        slots[slot + COPIES + depth] = copy
    slots[slot + HELD] = hits
    slots[slot + CACHED] = hits


@kernel
def admit(state: State, worker: int, row: int, hits: int) -> int:
    """A slot for a request whose first `hits` blocks are in the cache; it holds their copies (from the chain)."""
    request = row * REQUEST_SIZE
    slot = take_slot(state, row)
    hold_prefix(state, worker, slot, hits)
    enter_running(state, worker, slot)
    cached = hits * state.shape.block_size
    state.slots[slot + COMPUTED] = cached
    if state.requests[request + REUSED_FIRST] < 0:
        state.requests[request + REUSED_FIRST] = cached
    state.requests[request + REUSED_MOST] = max(state.requests[request + REUSED_MOST], cached)
    return slot
