"""The simulator's state: named tuples of flat arrays, indexed by the ids named here.

- `row`: a request's place in the window.
- `worker`: 0 to workers - 1.
- `slot`: worker * max_sequences + k, one per request that can run at a time.
- `copy`: worker * blocks + k, one per physical KV block.
- `entry`: a block identity that somebody holds: a prompt block (by its hash) or a request's own output block.
- `depth`: a block's place in its sequence; a slot's blocks stand at `slot * depth_limit + depth`.

Lists are linked through arrays; -1 ends a list and means "none" everywhere.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Arrays of int64 in compiled code, lists of int in CPython, which indexes them several times faster.
Integers = Any
Floats = Any

MASK_BITS = 62  # workers per mask word: a mask stays a positive int64


class Rows(NamedTuple):
    """The window's requests (read only)."""

    arrival_ms: Floats
    input_length: Integers
    output_length: Integers
    hash_start: Integers
    hashes: Integers


class Setup(NamedTuple):
    """What does not change during a replay."""

    workers: int
    words: int
    blocks: int
    block_size: int
    max_sequences: int
    max_batched_tokens: int
    prefix_caching: bool
    depth_limit: int
    entry_reserve: int
    polynomial: bool
    fixed_prefill_ms: float
    fixed_decode_ms: float
    credit: float
    credit_decay: float
    prefill_scale: float
    request_weight: float
    temperature: float
    seed: int
    replication: int


class Requests(NamedTuple):
    """What happens to each request, by row."""

    worker: Integers
    generated: Integers
    tracked_prefill: Integers
    admissions: Integers
    following: Integers
    first_token_ms: NDArray[np.float64]
    second_token_ms: NDArray[np.float64]
    last_token_ms: NDArray[np.float64]
    terminal_ms: NDArray[np.float64]
    reused_first: Integers
    reused_most: Integers


class Entries(NamedTuple):
    """Block identities by entry, and the hash table that finds them.

    `users` counts the workers that hold a copy, that the router believes to hold one, that have the block active in
    the router's accounts, or whose change of holding the router has yet to hear; without any the entry is free.
    """

    bucket: Integers
    key: Integers
    owner: Integers
    users: Integers
    free: Integers
    count: Integers
    holder_mask: Integers
    active_mask: Integers
    first_copy: Integers
    active_count: Integers
    changed: Integers


class Pool(NamedTuple):
    """Physical KV blocks by copy, and each worker's free list and inactive list (oldest first)."""

    references: Integers
    entry: Integers
    next_duplicate: Integers
    older: Integers
    newer: Integers
    free: Integers
    free_count: Integers
    oldest: Integers
    newest: Integers
    inactive_count: Integers
    changes: Integers
    change_count: Integers


class Slots(NamedTuple):
    """Running requests by slot; a worker's running list is in order of admission.

    `computed` tokens and `held` blocks of its sequence, of which the first `cached` are in the prefix cache. A request
    that decodes has the tick at which it began in `started`; its `computed` is then one less than its known tokens.
    """

    row: Integers
    computed: Integers
    held: Integers
    cached: Integers
    admitted: Integers
    previous: Integers
    next: Integers
    started: Integers
    wheel_previous: Integers
    wheel_next: Integers
    next_emerging: Integers
    blocks: Integers
    free: Integers


class Workers(NamedTuple):
    """Scheduler state by worker, and what the pass under way will show at its end.

    A tick is a pass with decoding requests in it. `wheel` holds, by worker and tick modulo its size, the decoding
    requests that need a block or end at that tick. `emerging` lists the slots whose prompt ends with the pass under
    way, `finished` the rows that end with it.
    """

    busy: Integers
    pass_end_ms: Floats
    waiting_first: Integers
    waiting_last: Integers
    running_first: Integers
    running_last: Integers
    running_count: Integers
    free_slots: Integers
    prefilling: Integers
    decoding: Integers
    context_tokens: Integers
    tick: Integers
    wheel: Integers
    emerging: Integers
    finished: Integers


class Work(NamedTuple):
    """The pass that is being put together: due and completing slots, prefix copies of a candidate, and accounts."""

    due: Integers
    completing: Integers
    hits: Integers
    account: Integers


# Places in Work.account.
BUDGET = 0
PROMPTS = 1
PROMPT_ENDS = 2
PROMPT_STARTS = 3
COMPLETING = 4
PREEMPTED = 5
DUE = 6
ACCOUNTS = 7


class Router(NamedTuple):
    """The router's accounts by worker, and room for one decision."""

    active_blocks: Integers
    prefill_tokens: Integers
    active_requests: Integers
    overlap: Integers
    active_overlap: Integers
    cost: Floats
    chain: Integers


class Log(NamedTuple):
    """Token gaps as (milliseconds, how many tokens had it), and counters of the whole replay."""

    gap_ms: NDArray[np.float64]
    gap_tokens: NDArray[np.int64]
    counters: Integers


# Places in Log.counters.
NEXT_ROW = 0
GAPS = 1
ADMISSIONS = 2
COMMITTED_PREFILL = 3
OPEN_REQUESTS = 4
COUNTERS = 5


class State(NamedTuple):
    """Everything a replay reads and writes."""

    setup: Setup
    rows: Rows
    requests: Requests
    entries: Entries
    pool: Pool
    slots: Slots
    workers: Workers
    work: Work
    router: Router
    log: Log
