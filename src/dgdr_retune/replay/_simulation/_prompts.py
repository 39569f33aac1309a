"""The prompts of a pass: the one that the last pass could not finish, and those of waiting requests."""

from dgdr_retune.replay._simulation._blocks import hold_copy, take_copy
from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._running import (
    block_entry,
    cache_computed,
    enter_running,
    finish,
    preempt_last,
)
from dgdr_retune.replay._simulation._state import (
    ADMISSIONS,
    ADMITTED,
    BUDGET,
    CACHED,
    COMMITTED_PREFILL,
    COMPLETING,
    COMPUTED,
    COPIES,
    END,
    FIRST_COPY,
    FOLLOWING,
    GENERATED,
    HELD,
    HOLDING_SIZE,
    LIMIT,
    PREFILLING,
    PROMPT_ENDS,
    PROMPT_STARTS,
    PROMPTS,
    REFERENCES,
    REQUEST_SIZE,
    REUSED_FIRST,
    REUSED_MOST,
    ROW,
    RUNNING,
    SPARE_COPIES,
    TIMES_SIZE,
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
    """Waiting requests in line, as long as there are sequences, blocks and tokens for the next."""
    shape = state.shape
    workers = state.workers
    scratch = state.scratch
    at = worker * shape.worker_size
    while workers[at + RUNNING] < shape.max_sequences and workers[at + WAITING_FIRST] >= 0:
        row = workers[at + WAITING_FIRST]
        if state.requests[row * REQUEST_SIZE + LIMIT] < 0:
            leave_waiting(state, worker, row)
            finish(state, worker, row)
            state.times[row * TIMES_SIZE + END] = now_ms
            continue
        known = state.input_length[row] + state.requests[row * REQUEST_SIZE + GENERATED]
        hits = find_prefix(state, worker, row, known)
        needed = (known + shape.block_size - 1) // shape.block_size
        for k in range(hits):
            if state.copies[scratch[shape.chain + k] + REFERENCES] > 0:
                needed -= 1
        if needed > workers[at + SPARE_COPIES]:
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
def find_prefix(state: State, worker: int, row: int, known: int) -> int:
    """The longest prefix of a request's known tokens in the worker's cache, in blocks; their copies in the chain.

    A request that is to have more output computes its last known token at least.
    """
    shape = state.shape
    if not shape.prefix_caching:
        return 0
    request = row * REQUEST_SIZE
    reusable = known // shape.block_size
    if state.requests[request + GENERATED] < state.requests[request + LIMIT]:
        reusable = (known - 1) // shape.block_size
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
def leave_waiting(state: State, worker: int, row: int) -> None:
    """Take the first waiting request out of the queue."""
    workers = state.workers
    at = worker * state.shape.worker_size
    workers[at + WAITING_FIRST] = state.requests[row * REQUEST_SIZE + FOLLOWING]
    if workers[at + WAITING_FIRST] < 0:
        workers[at + WAITING_LAST] = -1


@kernel
def admit(state: State, worker: int, row: int, hits: int) -> int:
    """A slot for a request whose first `hits` blocks are in the cache; it holds their copies (from the chain)."""
    shape = state.shape
    slots = state.slots
    request = row * REQUEST_SIZE
    slot = enter_running(state, worker, row)
    for depth in range(hits):
        copy = state.scratch[shape.chain + depth]
        hold_copy(state, worker, copy)
        slots[slot + COPIES + depth] = copy
    cached = hits * shape.block_size
    slots[slot + HELD] = hits
    slots[slot + CACHED] = hits
    slots[slot + COMPUTED] = cached
    slots[slot + ADMITTED] = state.scratch[ADMISSIONS]
    state.scratch[ADMISSIONS] += 1
    if state.requests[request + REUSED_FIRST] < 0:
        state.requests[request + REUSED_FIRST] = cached
    state.requests[request + REUSED_MOST] = max(state.requests[request + REUSED_MOST], cached)
    return slot
