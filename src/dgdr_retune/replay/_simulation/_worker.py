"""A worker: vLLM's scheduler over one pool of KV blocks, one pass at a time.

A pass runs every decoding request by one token, then prompts. The worker's own state changes when a pass starts; what
others may see of it (tokens, ends, the router's view of the cache) shows when the pass ends.
"""

from dgdr_retune.replay._simulation._blocks import publish_changes, take_copy
from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._prompts import admit_waiting, continue_prompt
from dgdr_retune.replay._simulation._router import end_prefill, free_request
from dgdr_retune.replay._simulation._running import (
    begin_decoding,
    cache_computed,
    end_decoding,
    finish,
    known_tokens,
    leave_running,
    preempt_last,
    put_on_wheel,
    take_off_wheel,
)
from dgdr_retune.replay._simulation._state import (
    ACCOUNTS,
    BUDGET,
    COMPLETING,
    DUE,
    GAPS,
    OPEN_REQUESTS,
    PREEMPTED,
    PROMPT_ENDS,
    PROMPT_STARTS,
    PROMPTS,
    State,
)
from dgdr_retune.replay._simulation._timing import decode_ms, prefill_ms


@kernel
def start_pass(state: State, worker: int, now_ms: float) -> None:
    """Put a pass together and find when it ends."""
    workers = state.workers
    account = state.work.account
    for k in range(ACCOUNTS):
        account[k] = 0
    find_due(state, worker)
    give_blocks(state, worker, now_ms)
    decodes = workers.decoding[worker]
    account[BUDGET] = state.setup.max_batched_tokens - decodes
    if workers.prefilling[worker] >= 0 and account[BUDGET] > 0:
        continue_prompt(state, worker, now_ms)
    if account[PREEMPTED] == 0:
        admit_waiting(state, worker)
    pass_ms = prefill_ms(state.setup, account[PROMPTS], account[PROMPT_ENDS], account[PROMPT_STARTS])
    context_tokens = workers.context_tokens[worker] + resumed_tokens(state)
    if context_tokens > 0:
        pass_ms += decode_ms(state.setup, context_tokens)
    end_ms = now_ms + pass_ms
    if decodes > 0:
        log_gap(state, end_ms - now_ms, decodes)
        workers.tick[worker] += 1
        workers.context_tokens[worker] += decodes
    workers.busy[worker] = 1
    workers.pass_end_ms[worker] = end_ms
    end_without_output(state, worker, end_ms)
    give_second_tokens(state, worker, end_ms)
    end_or_requeue_due(state, worker, end_ms)
    give_first_tokens(state, worker, end_ms)


@kernel
def find_due(state: State, worker: int) -> None:
    """The decoding requests that need a block or end with the coming tick, into `Work.due`, in running order."""
    slots = state.slots
    due = state.work.due
    size = state.setup.block_size + 1
    slot = state.workers.wheel[worker * size + (state.workers.tick[worker] + 1) % size]
    count = 0
    while slot >= 0:
        place = count
        while place > 0 and slots.admitted[due[place - 1]] > slots.admitted[slot]:
            due[place] = due[place - 1]
            place -= 1
        due[place] = slot
        count += 1
        slot = slots.wheel_next[slot]
    state.work.account[DUE] = count


@kernel
def give_blocks(state: State, worker: int, now_ms: float) -> None:
    """Due requests that cross into a new block get one.

    Where none is left, the request that was admitted last goes, until there is one or the needy request itself has
    gone. Requests that go are struck from `Work.due` (-1).
    """
    setup = state.setup
    slots = state.slots
    pool = state.pool
    due = state.work.due
    for k in range(state.work.account[DUE]):
        slot = due[k]
        if slot < 0:
            continue
        known = known_tokens(state, worker, slot)
        if known <= slots.held[slot] * setup.block_size:
            continue
        cache_computed(state, worker, slot, known - 1)
        while due[k] >= 0 and pool.free_count[worker] + pool.inactive_count[worker] == 0:
            gone = preempt_last(state, worker, now_ms)
            for other in range(k, state.work.account[DUE]):
                if due[other] == gone:
                    due[other] = -1
        if due[k] >= 0:
            copy = take_copy(setup, state.entries, pool, worker)
            slots.blocks[slot * setup.depth_limit + slots.held[slot]] = copy
            slots.held[slot] += 1


@kernel
def resumed_tokens(state: State) -> int:
    """Known tokens of the requests that go on after a preemption with this pass: they decode, new ones do not."""
    tokens = 0
    for k in range(state.work.account[COMPLETING]):
        row = state.slots.row[state.work.completing[k]]
        if 0 < state.requests.generated[row]:
            tokens += state.rows.input_length[row] + state.requests.generated[row]
    return tokens


@kernel
def log_gap(state: State, gap_ms: float, tokens: int) -> None:
    """So many tokens came so long after their request's token before."""
    place = state.log.counters[GAPS]
    state.log.gap_ms[place] = gap_ms
    state.log.gap_tokens[place] = tokens
    state.log.counters[GAPS] = place + 1


@kernel
def end_without_output(state: State, worker: int, end_ms: float) -> None:
    """Requests for no output end with their prompt, before any other."""
    for k in range(state.work.account[COMPLETING]):
        slot = state.work.completing[k]
        row = state.slots.row[slot]
        if state.requests.generated[row] < state.rows.output_length[row]:
            continue
        state.work.completing[k] = -1
        state.requests.terminal_ms[row] = end_ms
        leave_running(state, worker, slot)
        finish(state, worker, row)


@kernel
def give_second_tokens(state: State, worker: int, end_ms: float) -> None:
    """Requests whose first token came with the pass before have their second now, unless they were thrown out."""
    slot = state.workers.emerging[worker]
    while slot >= 0:
        row = state.slots.row[slot]
        if state.slots.started[slot] >= 0 and state.requests.generated[row] == 1:
            state.requests.second_token_ms[row] = end_ms
        slot = state.slots.next_emerging[slot]
    state.workers.emerging[worker] = -1


@kernel
def end_or_requeue_due(state: State, worker: int, end_ms: float) -> None:
    """Of the due requests, some have their last token with this pass; the others go back on the wheel."""
    for k in range(state.work.account[DUE]):
        slot = state.work.due[k]
        if slot < 0:
            continue
        row = state.slots.row[slot]
        if known_tokens(state, worker, slot) - state.rows.input_length[row] < state.rows.output_length[row]:
            take_off_wheel(state, slot)
            put_on_wheel(state, worker, slot)
            continue
        end_decoding(state, worker, slot)
        state.requests.last_token_ms[row] = end_ms
        state.requests.terminal_ms[row] = end_ms
        leave_running(state, worker, slot)
        finish(state, worker, row)


@kernel
def give_first_tokens(state: State, worker: int, end_ms: float) -> None:
    """A pass that computes all known tokens of a request also samples its next one."""
    requests = state.requests
    for k in range(state.work.account[COMPLETING]):
        slot = state.work.completing[k]
        if slot < 0:
            continue
        row = state.slots.row[slot]
        if requests.generated[row] == 0:
            requests.first_token_ms[row] = end_ms
        else:
            log_gap(state, end_ms - requests.last_token_ms[row], 1)
        requests.generated[row] += 1
        if requests.generated[row] == 2:
            requests.second_token_ms[row] = end_ms
        if requests.generated[row] < state.rows.output_length[row]:
            begin_decoding(state, worker, slot)
            state.slots.next_emerging[slot] = state.workers.emerging[worker]
            state.workers.emerging[worker] = slot
            continue
        requests.last_token_ms[row] = end_ms
        requests.terminal_ms[row] = end_ms
        leave_running(state, worker, slot)
        finish(state, worker, row)


@kernel
def end_pass(state: State, worker: int) -> None:
    """What the pass did becomes visible: cache changes, then first tokens and ends."""
    workers = state.workers
    workers.busy[worker] = 0
    publish_changes(state.setup, state.entries, state.pool, worker)
    slot = workers.emerging[worker]
    while slot >= 0:
        end_prefill(state.requests, state.router, state.slots.row[slot])
        slot = state.slots.next_emerging[slot]
    row = workers.finished[worker]
    while row >= 0:
        free_request(state.setup, state.rows, state.requests, state.entries, state.router, row)
        state.log.counters[OPEN_REQUESTS] -= 1
        row = state.requests.following[row]
    workers.finished[worker] = -1
