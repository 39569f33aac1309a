"""The KV router: its view of caches and load, the cost of a worker, and the choice among them.

A disaggregated deployment has a second one, which knows no caches, for the choice of a decode worker.
"""

import math

from dgdr_retune.replay._simulation._blocks import add_entry, drop_user, find_entry
from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._random import uniform
from dgdr_retune.replay._simulation._state import (
    ACTIVE,
    ACTIVE_BLOCKS,
    ACTIVE_COUNT,
    ACTIVE_OVERLAP,
    ACTIVE_REQUESTS,
    DESTINATION,
    HOLDERS,
    HOLDING_SIZE,
    MASK_BITS,
    MASKS,
    OVERLAP,
    PREFILL_TOKENS,
    REQUEST_SIZE,
    TRACKED_PREFILL,
    TRANSFER_SIZE,
    USERS,
    WORKER,
    State,
)

_DESTINATION_DRAWS = 1 << 20  # a request's draws for its decode worker come after those for its first worker


@kernel
def look_up(state: State, row: int) -> int:
    """Find or make the entries of a request's whole prompt blocks, in the scratch chain; returns how many there are.

    Leaves with each worker how many leading blocks the router believes to be in its cache (OVERLAP), and how many are
    active on it (ACTIVE_OVERLAP).
    """
    shape = state.shape
    scratch = state.scratch
    count: int = state.input_length[row] // shape.block_size
    start = state.hash_start[row]
    for depth in range(count):
        key = state.blocks[start + depth]
        entry = find_entry(state, key, -1)
        if entry < 0:
            entry = add_entry(state, key, -1)
        scratch[shape.chain + depth] = entry
    for word in range(shape.words):
        match_chain(state, word, count, HOLDERS, OVERLAP)
        match_chain(state, word, count, ACTIVE, ACTIVE_OVERLAP)
    return count


@kernel
def match_chain(state: State, word: int, count: int, mask: int, field: int) -> None:
    """For each worker of one word of masks: how many leading blocks of the chain have its bit set, into `field`."""
    shape = state.shape
    first = word * MASK_BITS
    members = min(MASK_BITS, shape.arrival_workers - first)
    alive = (1 << members) - 1
    for depth in range(count):
        kept = alive & state.entries[state.scratch[shape.chain + depth] + MASKS + 2 * word + mask]
        if kept != alive:
            for k in range(members):
                if (alive ^ kept) >> k & 1:
                    state.workers[(first + k) * shape.worker_size + field] = depth
            alive = kept
            if alive == 0:
                return
    for k in range(members):
        if alive >> k & 1:
            state.workers[(first + k) * shape.worker_size + field] = count


@kernel
def weigh(state: State, row: int, count: int) -> None:
    """The cost of each worker for a request of `count` whole blocks: Dynamo's default scorer, lower is better.

    Prefill workers do not decode, so their active blocks are no cost.
    """
    shape = state.shape
    policy = state.policy
    workers = state.workers
    cost = state.cost
    tokens = state.input_length[row]
    least = workers[PREFILL_TOKENS]
    for worker in range(1, shape.arrival_workers):
        least = min(least, workers[worker * shape.worker_size + PREFILL_TOKENS])
    request_blocks = (tokens + shape.block_size - 1) // shape.block_size
    for worker in range(shape.arrival_workers):
        at = worker * shape.worker_size
        prefill_tokens = workers[at + PREFILL_TOKENS]
        credit = policy.credit
        if policy.credit_decay > 0.0:
            excess = (prefill_tokens - least) / shape.block_size
            credit *= 1.0 / (1.0 + policy.credit_decay * (excess / request_blocks))
        prefill = (prefill_tokens + tokens) / shape.block_size - credit * workers[at + OVERLAP]
        cost[worker] = policy.prefill_scale * max(prefill, 0.0)
        if shape.arrival_workers == shape.workers:
            cost[worker] += workers[at + ACTIVE_BLOCKS] + count - workers[at + ACTIVE_OVERLAP]
        cost[worker] += policy.request_weight * workers[at + ACTIVE_REQUESTS]


@kernel
def weigh_destinations(state: State, count: int) -> None:
    """The cost of each decode worker for a request of `count` whole blocks: its load alone."""
    shape = state.shape
    for worker in range(shape.arrival_workers, shape.workers):
        at = worker * shape.worker_size
        state.cost[worker] = float(state.workers[at + ACTIVE_BLOCKS] + count)
        state.cost[worker] += state.policy.request_weight * state.workers[at + ACTIVE_REQUESTS]


@kernel
def choose(state: State, row: int, first: int, end: int) -> int:
    """One of the workers from `first` to before `end`, by their costs.

    At temperature 0 one of the least cost, ties drawn; else by a softmax of range-normalised costs.
    """
    policy = state.policy
    cost = state.cost
    least = cost[first]
    most = cost[first]
    for worker in range(first + 1, end):
        least = min(least, cost[worker])
        most = max(most, cost[worker])
    if policy.temperature == 0.0:
        return draw_cheapest(state, row, first, end, least)
    scale = 0.0
    if most > least:
        scale = -1.0 / ((most - least) * policy.temperature)
    total = 0.0
    for worker in range(first, end):
        total += math.exp((cost[worker] - least) * scale)
    number = draw(state, row, first, 0)
    cumulative = 0.0
    for worker in range(first, end):
        cumulative += math.exp((cost[worker] - least) * scale) / total
        if number <= cumulative:
            return worker
    return end - 1


@kernel
def draw(state: State, row: int, first: int, number: int) -> float:
    """A random number of a request, for the choice among the workers from `first` on."""
    if first > 0:
        number += _DESTINATION_DRAWS
    return uniform(state.policy.seed, state.policy.replication, row + 1, number)


@kernel
def draw_cheapest(state: State, row: int, first: int, end: int, least: float) -> int:
    """A worker of the least cost; the n-th of equal ones replaces the one kept so far with probability 1/n."""
    chosen = -1
    ties = 0
    for worker in range(first, end):
        if state.cost[worker] == least:
            ties += 1
            if ties == 1 or draw(state, row, first, ties - 2) * ties < 1.0:
                chosen = worker
    return chosen


@kernel
def assign_destination(state: State, row: int, worker: int) -> None:
    """Book a request on a decode worker: its whole prompt blocks as active, shared with nobody."""
    at = worker * state.shape.worker_size
    state.transfers[row * TRANSFER_SIZE + DESTINATION] = worker
    state.workers[at + ACTIVE_BLOCKS] += state.input_length[row] // state.shape.block_size
    state.workers[at + ACTIVE_REQUESTS] += 1


@kernel
def free_destination(state: State, row: int) -> None:
    """Undo `assign_destination`."""
    transfer = row * TRANSFER_SIZE
    at = state.transfers[transfer + DESTINATION] * state.shape.worker_size
    state.transfers[transfer + DESTINATION] = -1
    state.workers[at + ACTIVE_BLOCKS] -= state.input_length[row] // state.shape.block_size
    state.workers[at + ACTIVE_REQUESTS] -= 1


@kernel
def assign(state: State, row: int, worker: int, count: int) -> None:
    """Book a request on a worker: its blocks as active, the tokens not found cached as prefill to come."""
    shape = state.shape
    entries = state.entries
    workers = state.workers
    at = worker * shape.worker_size
    uncached = state.input_length[row] - workers[at + OVERLAP] * shape.block_size
    state.requests[row * REQUEST_SIZE + WORKER] = worker
    state.requests[row * REQUEST_SIZE + TRACKED_PREFILL] = uncached
    workers[at + PREFILL_TOKENS] += uncached
    workers[at + ACTIVE_REQUESTS] += 1
    bit = 1 << (worker % MASK_BITS)
    offset = MASKS + 2 * (worker // MASK_BITS) + ACTIVE
    for depth in range(count):
        entry = state.scratch[shape.chain + depth]
        holding = entry + shape.holdings + worker * HOLDING_SIZE
        if entries[holding + ACTIVE_COUNT] == 0:
            entries[entry + offset] |= bit
            entries[entry + USERS] += 1
            workers[at + ACTIVE_BLOCKS] += 1
        entries[holding + ACTIVE_COUNT] += 1


@kernel
def end_prefill(state: State, row: int) -> None:
    """A request's first token is out: its prompt is no longer prefill to come."""
    request = row * REQUEST_SIZE
    at = state.requests[request + WORKER] * state.shape.worker_size
    state.workers[at + PREFILL_TOKENS] -= state.requests[request + TRACKED_PREFILL]
    state.requests[request + TRACKED_PREFILL] = 0


@kernel
def free_request(state: State, row: int) -> None:
    """A request has ended: take it off the books."""
    shape = state.shape
    entries = state.entries
    workers = state.workers
    end_prefill(state, row)
    worker = state.requests[row * REQUEST_SIZE + WORKER]
    at = worker * shape.worker_size
    workers[at + ACTIVE_REQUESTS] -= 1
    bit = 1 << (worker % MASK_BITS)
    offset = MASKS + 2 * (worker // MASK_BITS) + ACTIVE
    start = state.hash_start[row]
    for depth in range(state.input_length[row] // shape.block_size):
        entry = find_entry(state, state.blocks[start + depth], -1)
        holding = entry + shape.holdings + worker * HOLDING_SIZE
        entries[holding + ACTIVE_COUNT] -= 1
        if entries[holding + ACTIVE_COUNT] == 0:
            entries[entry + offset] ^= bit
            workers[at + ACTIVE_BLOCKS] -= 1
            drop_user(state, entry)
