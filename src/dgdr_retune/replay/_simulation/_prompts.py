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
    BUDGET,
    COMMITTED_PREFILL,
    COMPLETING,
    PROMPT_ENDS,
    PROMPT_STARTS,
    PROMPTS,
    State,
)


@kernel
def run_prompt(state: State, worker: int, slot: int, tokens: int) -> None:
    """Compute the next `tokens` known tokens of a request; the caller has seen to it that there are blocks."""
    setup = state.setup
    slots = state.slots
    account = state.work.account
    row = slots.row[slot]
    before = slots.computed[slot]
    after = before + tokens
    needed = (after + setup.block_size - 1) // setup.block_size
    for depth in range(slots.held[slot], needed):
        slots.blocks[slot * setup.depth_limit + depth] = take_copy(setup, state.entries, state.pool, worker)
        slots.held[slot] = depth + 1
    slots.computed[slot] = after
    cache_computed(state, worker, slot, after)
    account[BUDGET] -= tokens
    prompt_before = min(before, state.rows.input_length[row])
    prompt_after = min(after, state.rows.input_length[row])
    if prompt_after > prompt_before:
        account[PROMPTS] += 1
        account[PROMPT_ENDS] += prompt_after
        account[PROMPT_STARTS] += prompt_before
        state.log.counters[COMMITTED_PREFILL] += tokens
    if after == state.rows.input_length[row] + state.requests.generated[row]:
        state.work.completing[account[COMPLETING]] = slot
        account[COMPLETING] += 1


@kernel
def continue_prompt(state: State, worker: int, now_ms: float) -> None:
    """The next chunk of the prompt that the last pass could not finish; it is always the last of the running list."""
    slots = state.slots
    slot = state.workers.prefilling[worker]
    row = slots.row[slot]
    left = state.rows.input_length[row] + state.requests.generated[row] - slots.computed[slot]
    tokens = min(left, state.work.account[BUDGET])
    block_size = state.setup.block_size
    needed = (slots.computed[slot] + tokens + block_size - 1) // block_size - slots.held[slot]
    if needed > state.pool.free_count[worker] + state.pool.inactive_count[worker]:
        preempt_last(state, worker, now_ms)
        return
    run_prompt(state, worker, slot, tokens)
    if tokens == left:
        state.workers.prefilling[worker] = -1


@kernel
def admit_waiting(state: State, worker: int) -> None:
    """Waiting requests in line, as long as there are sequences, blocks and tokens for the next."""
    setup = state.setup
    workers = state.workers
    pool = state.pool
    while workers.running_count[worker] < setup.max_sequences and workers.waiting_first[worker] >= 0:
        row = workers.waiting_first[worker]
        if state.rows.output_length[row] < 0:
            leave_waiting(state, worker, row)
            finish(state, worker, row)
            continue
        known = state.rows.input_length[row] + state.requests.generated[row]
        hits = find_prefix(state, worker, row, known)
        active_hits = 0
        for k in range(hits):
            if pool.references[state.work.hits[k]] > 0:
                active_hits += 1
        blocks = (known + setup.block_size - 1) // setup.block_size
        if blocks - active_hits > pool.free_count[worker] + pool.inactive_count[worker]:
            return
        new_tokens = known - hits * setup.block_size
        tokens = min(new_tokens, state.work.account[BUDGET])
        if tokens == 0 and new_tokens > 0:
            return
        leave_waiting(state, worker, row)
        slot = admit(state, worker, row, hits)
        run_prompt(state, worker, slot, tokens)
        if tokens < new_tokens:
            workers.prefilling[worker] = slot
        if tokens == 0 and state.work.account[BUDGET] == 0:
            return


@kernel
def find_prefix(state: State, worker: int, row: int, known: int) -> int:
    """The longest prefix of a request's known tokens in the worker's cache, in blocks; their copies in `Work.hits`.

    A request that is to have more output computes its last known token at least.
    """
    if not state.setup.prefix_caching:
        return 0
    reusable = known // state.setup.block_size
    if state.requests.generated[row] < state.rows.output_length[row]:
        reusable = (known - 1) // state.setup.block_size
    for depth in range(reusable):
        entry = block_entry(state, row, depth)
        if entry < 0:
            return depth
        copy = state.entries.first_copy[entry * state.setup.workers + worker]
        if copy < 0:
            return depth
        state.work.hits[depth] = copy
    return reusable


@kernel
def leave_waiting(state: State, worker: int, row: int) -> None:
    """Take the first waiting request out of the queue."""
    state.workers.waiting_first[worker] = state.requests.following[row]
    if state.workers.waiting_first[worker] < 0:
        state.workers.waiting_last[worker] = -1


@kernel
def admit(state: State, worker: int, row: int, hits: int) -> int:
    """A slot for a request whose first `hits` blocks are in the cache; it holds their copies."""
    slots = state.slots
    requests = state.requests
    slot = enter_running(state, worker, row)
    for depth in range(hits):
        hold_copy(state.pool, worker, state.work.hits[depth])
        slots.blocks[slot * state.setup.depth_limit + depth] = state.work.hits[depth]
    slots.held[slot] = hits
    slots.cached[slot] = hits
    slots.computed[slot] = hits * state.setup.block_size
    slots.admitted[slot] = state.log.counters[ADMISSIONS]
    state.log.counters[ADMISSIONS] += 1
    if requests.admissions[row] == 0:
        requests.reused_first[row] = slots.computed[slot]
    requests.admissions[row] += 1
    requests.reused_most[row] = max(requests.reused_most[row], slots.computed[slot])
    return slot
