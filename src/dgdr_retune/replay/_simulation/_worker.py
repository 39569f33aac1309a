"""A worker: vLLM's scheduler over one pool of KV blocks, one pass at a time.

A pass runs every decoding request by one token, then prompts. A prefill worker's pass takes no time for what decodes,
a decode worker's none for prompts. The worker's own state changes when a pass starts; what
others may see of it (tokens, ends, the router's view of the cache) shows when the pass ends.
"""

from dgdr_retune.replay._simulation._blocks import publish_changes, take_copy
from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._prompts import admit_waiting, continue_prompt
from dgdr_retune.replay._simulation._router import end_prefill, free_destination, free_request
from dgdr_retune.replay._simulation._running import (
    begin_decoding,
    cache_computed,
    end_decoding,
    end_running,
    output_tokens,
    preempt_last,
    put_on_wheel,
    take_off_wheel,
)
from dgdr_retune.replay._simulation._state import (
    ADMISSIONS,
    ADMITTED,
    AGGREGATED,
    BATCHED_TOKENS,
    BUDGET,
    BUSY,
    COMPLETING,
    CONTEXT_TOKENS,
    COPIES,
    DECODE,
    DECODING,
    DUE,
    EMERGING,
    END,
    FINISHED,
    FIRST_TOKEN,
    FOLLOWING,
    GAPS,
    GENERATED,
    HELD,
    LIMIT,
    NEXT_EMERGING,
    OPEN_REQUESTS,
    PASS,
    PASSES,
    PREEMPTED,
    PREFILL,
    PREFILLING,
    PROMPT_ENDS,
    PROMPT_STARTS,
    PROMPTS,
    REQUEST_SIZE,
    ROLE,
    ROW,
    RUNNING,
    SECOND_TOKEN,
    SPARE_COPIES,
    STARTED,
    TICK,
    TIMES_SIZE,
    UNRESERVED_FIRST,
    WAITING_FIRST,
    WHEEL,
    WHEEL_NEXT,
    State,
)
from dgdr_retune.replay._simulation._timing import decode_ms, prefill_ms
from dgdr_retune.replay._simulation._transfer import admit_transferred, hand_over, hold_completed, reserve_next, wake


@kernel
def start_pass(state: State, worker: int, now_ms: float) -> None:
    """Put a pass together and find when it ends."""
    workers = state.workers
    scratch = state.scratch
    at = worker * state.shape.worker_size
    for counter in range(BUDGET, PREEMPTED + 1):
        scratch[counter] = 0
    find_due(state, worker)
    give_blocks(state, worker, now_ms)
    decodes = workers[at + DECODING]
    scratch[BUDGET] = workers[at + BATCHED_TOKENS] - decodes
    if workers[at + PREFILLING] >= 0 and scratch[BUDGET] > 0:
        continue_prompt(state, worker, now_ms)
    role = workers[at + ROLE]
    if scratch[PREEMPTED] == 0:
        if workers[at + UNRESERVED_FIRST] < 0:
            admit_waiting(state, worker, now_ms)
        if role == DECODE:
            admit_transferred(state, worker)
    end_ms = now_ms
    if role != DECODE:
        end_ms += prefill_ms(state.policy, scratch[PROMPTS], scratch[PROMPT_ENDS], scratch[PROMPT_STARTS])
    context_tokens = workers[at + CONTEXT_TOKENS] + joining_tokens(state, role)
    if context_tokens > 0:
        end_ms += decode_ms(state.shape, state.policy, context_tokens)
    if decodes > 0:
        log_gap(state, end_ms - now_ms, decodes)
        workers[at + TICK] += 1
        workers[at + CONTEXT_TOKENS] += decodes
    workers[at + BUSY] = 1
    workers[at + PASS] = scratch[PASSES]
    scratch[PASSES] += 1
    state.pass_end_ms[worker] = end_ms
    if role == PREFILL:
        hold_completed(state, worker)
        return
    end_without_output(state, worker, end_ms)
    give_second_tokens(state, worker, end_ms)
    end_or_requeue_due(state, worker, end_ms)
    give_next_tokens(state, worker, end_ms)


@kernel
def find_due(state: State, worker: int) -> None:
    """List the decoding requests that need a block or end with the coming tick, in running order."""
    slots = state.slots
    scratch = state.scratch
    at = worker * state.shape.worker_size
    first = state.shape.due
    slot = state.workers[at + WHEEL + (state.workers[at + TICK] + 1) % state.shape.wheel_size]
    end = first
    while slot >= 0:
        place = end
        while place > first and slots[scratch[place - 1] + ADMITTED] > slots[slot + ADMITTED]:
            scratch[place] = scratch[place - 1]
            place -= 1
        scratch[place] = slot
        end += 1
        slot = slots[slot + WHEEL_NEXT]
    scratch[DUE] = end - first


@kernel
def give_blocks(state: State, worker: int, now_ms: float) -> None:
    """Due requests that cross into a new block get one.

    Where none is left, the request that was admitted last goes, until there is one or the needy request itself has
    gone. Requests that go are struck from the list of the due (-1).
    """
    shape = state.shape
    slots = state.slots
    scratch = state.scratch
    workers = state.workers
    at = worker * shape.worker_size
    end = shape.due + scratch[DUE]
    for place in range(shape.due, end):
        slot = scratch[place]
        if slot < 0:
            continue
        row = slots[slot + ROW]
        known = state.input_length[row] + output_tokens(state, worker, slot)
        if known <= slots[slot + HELD] * shape.block_size:
            continue
        cache_computed(state, worker, slot, known - 1)
        while scratch[place] >= 0 and workers[at + SPARE_COPIES] == 0:
            gone = preempt_last(state, worker, now_ms)
            for other in range(place, end):
                if scratch[other] == gone:
                    scratch[other] = -1
        if scratch[place] >= 0:
            copy = take_copy(state, worker)
            slots[slot + COPIES + slots[slot + HELD]] = copy
            slots[slot + HELD] += 1


@kernel
def joining_tokens(state: State, role: int) -> int:
    """Known tokens of the requests that decode with this pass for the first time since they were admitted.

    These are those that go on after a preemption, and on a decode worker those whose prompts have come there; new ones
    of an aggregated worker do not decode in the pass that computes their prompt.
    """
    tokens = 0
    for place in range(state.shape.completing, state.shape.completing + state.scratch[COMPLETING]):
        row = state.slots[state.scratch[place] + ROW]
        generated = state.requests[row * REQUEST_SIZE + GENERATED]
        if generated > 0 or (role == DECODE and state.requests[row * REQUEST_SIZE + LIMIT] > 0):
            tokens += state.input_length[row] + generated
    return tokens


@kernel
def log_gap(state: State, gap_ms: float, tokens: int) -> None:
    """So many tokens came so long after their request's token before."""
    place = state.scratch[GAPS]
    state.gap_ms[place] = gap_ms
    state.gap_tokens[place] = tokens
    state.scratch[GAPS] = place + 1


@kernel
def end_without_output(state: State, worker: int, end_ms: float) -> None:
    """Requests for no output end with their prompt, before any other."""
    for place in range(state.shape.completing, state.shape.completing + state.scratch[COMPLETING]):
        slot = state.scratch[place]
        row = state.slots[slot + ROW]
        if state.requests[row * REQUEST_SIZE + LIMIT] > 0:
            continue
        state.scratch[place] = -1
        end_running(state, worker, slot, end_ms)


@kernel
def give_second_tokens(state: State, worker: int, end_ms: float) -> None:
    """Requests whose first token came with the pass before have their second now, unless they were thrown out."""
    at = worker * state.shape.worker_size
    slot = state.workers[at + EMERGING]
    while slot >= 0:
        row = state.slots[slot + ROW]
        if state.slots[slot + STARTED] >= 0 and state.requests[row * REQUEST_SIZE + GENERATED] == 1:
            state.times[row * TIMES_SIZE + SECOND_TOKEN] = end_ms
        slot = state.slots[slot + NEXT_EMERGING]
    state.workers[at + EMERGING] = -1


@kernel
def end_or_requeue_due(state: State, worker: int, end_ms: float) -> None:
    """Of the due requests, some have their last token with this pass; the others go back on the wheel."""
    for place in range(state.shape.due, state.shape.due + state.scratch[DUE]):
        slot = state.scratch[place]
        if slot < 0:
            continue
        row = state.slots[slot + ROW]
        generated = output_tokens(state, worker, slot)
        if generated < state.requests[row * REQUEST_SIZE + LIMIT]:
            take_off_wheel(state, slot)
            put_on_wheel(state, worker, slot)
            continue
        end_decoding(state, worker, slot)
        end_running(state, worker, slot, end_ms)


@kernel
def give_next_tokens(state: State, worker: int, end_ms: float) -> None:
    """A pass that computes all known tokens of a request also samples its next one."""
    requests = state.requests
    at = worker * state.shape.worker_size
    for place in range(state.shape.completing, state.shape.completing + state.scratch[COMPLETING]):
        slot = state.scratch[place]
        if slot < 0:
            continue
        row = state.slots[slot + ROW]
        times = row * TIMES_SIZE
        request = row * REQUEST_SIZE
        if requests[request + GENERATED] == 0:
            state.times[times + FIRST_TOKEN] = end_ms
        else:
            if requests[request + GENERATED] == 1:
                state.times[times + SECOND_TOKEN] = end_ms
            log_gap(state, end_ms - state.times[times + END], 1)
        requests[request + GENERATED] += 1
        if requests[request + GENERATED] < requests[request + LIMIT]:
            begin_decoding(state, worker, slot)
            state.slots[slot + NEXT_EMERGING] = state.workers[at + EMERGING]
            state.workers[at + EMERGING] = slot
            continue
        end_running(state, worker, slot, end_ms)


@kernel
def end_pass(state: State, worker: int) -> None:
    """What the pass did becomes visible: cache changes, then computed prompts and ends."""
    at = worker * state.shape.worker_size
    role = state.workers[at + ROLE]
    state.workers[at + BUSY] = 0
    if role != AGGREGATED:
        wake(state, worker)
    publish_changes(state, worker)
    if role != DECODE:
        slot = state.workers[at + EMERGING]
        while slot >= 0:
            end_prefill(state, state.slots[slot + ROW])
            slot = state.slots[slot + NEXT_EMERGING]
    if role == PREFILL:
        hand_over(state, worker)
        return
    row = state.workers[at + FINISHED]
    while row >= 0:
        if role == DECODE:
            free_destination(state, row)
        else:
            free_request(state, row)
        state.scratch[OPEN_REQUESTS] -= 1
        row = state.requests[row * REQUEST_SIZE + FOLLOWING]
    state.workers[at + FINISHED] = -1
    if role == DECODE:
        reserve_next(state, worker)


@kernel
def run_idle(state: State, worker: int, now_ms: float) -> None:
    """Start a pass of an idle worker of a disaggregated deployment, if it can do anything.

    One that takes no time ends at once, and the next follows.
    """
    at = worker * state.shape.worker_size
    while state.workers[at + BUSY] == 0 and (state.workers[at + WAITING_FIRST] >= 0 or state.workers[at + RUNNING] > 0):
        admissions = state.scratch[ADMISSIONS]
        start_pass(state, worker, now_ms)
        if state.pass_end_ms[worker] > now_ms:
            return
        idle = state.scratch[PREEMPTED] == 0 and state.scratch[ADMISSIONS] == admissions
        idle = idle and state.scratch[BUDGET] == state.workers[at + BATCHED_TOKENS]
        idle = idle and state.workers[at + FINISHED] < 0
        end_pass(state, worker)
        if idle:
            return
