"""The KV router: its view of caches and load, the cost of a worker, and the choice among them."""

import math

from dgdr_retune.replay._simulation._blocks import add_entry, drop_user, find_entry
from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._random import uniform
from dgdr_retune.replay._simulation._state import MASK_BITS, Entries, Requests, Router, Rows, Setup


@kernel
def look_up(setup: Setup, rows: Rows, entries: Entries, router: Router, row: int) -> int:
    """Find or make the entries of a request's whole prompt blocks (`router.chain`); returns how many there are.

    Leaves in `router.overlap` and `router.active_overlap`, for each worker, how many leading blocks the router
    believes to be in its cache, and how many are active there.
    """
    count = rows.input_length[row] // setup.block_size
    start = rows.hash_start[row]
    for depth in range(count):
        entry = find_entry(entries, rows.hashes[start + depth], -1)
        if entry < 0:
            entry = add_entry(setup, entries, rows.hashes[start + depth], -1)
        router.chain[depth] = entry
    for word in range(setup.words):
        first = word * MASK_BITS
        workers = min(MASK_BITS, setup.workers - first)
        _match(setup, entries.holder_mask, router.chain, router.overlap, word, workers, count)
        _match(setup, entries.active_mask, router.chain, router.active_overlap, word, workers, count)
    return count


@kernel
def _match(setup: Setup, masks: list[int], chain: list[int], depths: list[int], word: int, workers: int, count: int) -> None:
    """For each worker of one mask word: how many leading blocks of the chain have its bit."""
    first = word * MASK_BITS
    alive = (1 << workers) - 1
    for depth in range(count):
        kept = alive & masks[chain[depth] * setup.words + word]
        if kept != alive:
            for k in range(workers):
                if (alive ^ kept) >> k & 1:
                    depths[first + k] = depth
            alive = kept
            if alive == 0:
                return
    for k in range(workers):
        if alive >> k & 1:
            depths[first + k] = count


@kernel
def weigh(setup: Setup, rows: Rows, router: Router, row: int, count: int) -> None:
    """The cost of each worker for a request of `count` whole blocks: Dynamo's default scorer (lower is better)."""
    tokens = rows.input_length[row]
    least = router.prefill_tokens[0]
    for worker in range(1, setup.workers):
        least = min(least, router.prefill_tokens[worker])
    request_blocks = (tokens + setup.block_size - 1) // setup.block_size
    for worker in range(setup.workers):
        credit = setup.credit
        if setup.credit_decay > 0.0:
            excess = (router.prefill_tokens[worker] - least) / setup.block_size
            credit *= 1.0 / (1.0 + setup.credit_decay * (excess / request_blocks))
        prefill = (router.prefill_tokens[worker] + tokens) / setup.block_size - credit * router.overlap[worker]
        decode = router.active_blocks[worker] + count - router.active_overlap[worker]
        router.cost[worker] = (
            setup.prefill_scale * max(prefill, 0.0)
            + decode
            + setup.request_weight * router.active_requests[worker]
        )


@kernel
def choose(setup: Setup, router: Router, row: int) -> int:
    """A worker by its cost: the least at temperature 0, ties drawn; else by a softmax of range-normalised costs."""
    least = router.cost[0]
    most = router.cost[0]
    for worker in range(1, setup.workers):
        least = min(least, router.cost[worker])
        most = max(most, router.cost[worker])
    if setup.temperature == 0.0:
        return _least_cost(setup, router, row, least)
    draw = uniform(setup.seed, setup.replication, row + 1, 0)
    total = 0.0
    for worker in range(setup.workers):
        total += _share(setup, router.cost[worker], least, most)
    cumulative = 0.0
    for worker in range(setup.workers):
        cumulative += _share(setup, router.cost[worker], least, most) / total
        if draw <= cumulative:
            return worker
    return setup.workers - 1


@kernel
def _least_cost(setup: Setup, router: Router, row: int, least: float) -> int:
    """The cheapest worker; the n-th of equal ones replaces the one kept so far with probability 1/n."""
    chosen = -1
    ties = 0
    for worker in range(setup.workers):
        if router.cost[worker] != least:
            continue
        ties += 1
        if ties == 1 or uniform(setup.seed, setup.replication, row + 1, ties - 2) * ties < 1.0:
            chosen = worker
    return chosen


@kernel
def _share(setup: Setup, cost: float, least: float, most: float) -> float:
    """The unnormalised probability of a worker."""
    if most == least:
        return 1.0
    return math.exp(-(cost - least) / ((most - least) * setup.temperature))


@kernel
def assign(
    setup: Setup, rows: Rows, requests: Requests, entries: Entries, router: Router, row: int, worker: int, count: int
) -> None:
    """Book a request on a worker: its blocks as active, the tokens it does not find cached as prefill to come."""
    requests.worker[row] = worker
    requests.tracked_prefill[row] = rows.input_length[row] - router.overlap[worker] * setup.block_size
    router.prefill_tokens[worker] += requests.tracked_prefill[row]
    router.active_requests[worker] += 1
    bit = 1 << (worker % MASK_BITS)
    word = worker // MASK_BITS
    for depth in range(count):
        entry = router.chain[depth]
        place = entry * setup.workers + worker
        if entries.active_count[place] == 0:
            entries.active_mask[entry * setup.words + word] |= bit
            entries.users[entry] += 1
            router.active_blocks[worker] += 1
        entries.active_count[place] += 1


@kernel
def end_prefill(requests: Requests, router: Router, row: int) -> None:
    """A request's first token is out: its prompt is no longer prefill to come."""
    router.prefill_tokens[requests.worker[row]] -= requests.tracked_prefill[row]
    requests.tracked_prefill[row] = 0


@kernel
def free_request(setup: Setup, rows: Rows, requests: Requests, entries: Entries, router: Router, row: int) -> None:
    """A request has ended: take it off the books."""
    worker = requests.worker[row]
    end_prefill(requests, router, row)
    router.active_requests[worker] -= 1
    bit = 1 << (worker % MASK_BITS)
    word = worker // MASK_BITS
    start = rows.hash_start[row]
    for depth in range(rows.input_length[row] // setup.block_size):
        entry = find_entry(entries, rows.hashes[start + depth], -1)
        place = entry * setup.workers + worker
        entries.active_count[place] -= 1
        if entries.active_count[place] == 0:
            entries.active_mask[entry * setup.words + word] ^= bit
            router.active_blocks[worker] -= 1
            drop_user(entries, entry)
