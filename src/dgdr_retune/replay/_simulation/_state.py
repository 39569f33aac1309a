"""The simulator's state: a few flat tables of integer records.

A record is known by its address, the place of its first field; field F of record r of a table stands at `table[r + F]`.
Lists are linked through fields that hold addresses; -1 ends a list and means "none" everywhere. Compiled code gets
numpy arrays; CPython gets lists, which it indexes several times faster.

- A request's record is the `row`-th of `requests`, `row` being its place in the window.
- A worker's record is the `worker`-th of `workers`.
- A slot is a place for a running request, with the copies of its blocks behind its fields, by depth.
- A copy is a physical KV block of one worker.
- An entry is a block identity that somebody holds: a block of prompts (by its number in the window) or a request's own
  with output in it (by its depth and row). Behind its fields stand two masks for each MASK_BITS workers, then what it
  is to each. `prompt_entries` has the entry of each prompt block; `buckets` is a hash table of the other entries.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = Any  # NDArray[np.int64], NDArray[np.int32] or list[int]
Floats = Any  # NDArray[np.float64] or list[float]

MASK_BITS = 62  # workers per mask: it stays a positive 64-bit integer

# Request.
GENERATED = 0  # output tokens; of a decoding request those it had when it began to decode
FOLLOWING = 1  # row of the next in the waiting queue, or in the list of those that end with a pass
TRACKED_PREFILL = 2  # prompt tokens that the router counts as its worker's prefill to come
WORKER = 3
REUSED_FIRST = 4  # tokens found cached at the first admission; -1 before it
REUSED_MOST = 5  # the most found cached at any admission
LIMIT = 6  # output tokens that it ends with; -1 for a request that a worker refuses
REQUEST_SIZE = 7

# Request, in `times`: milliseconds since the first arrival, NaN before they are known.
FIRST_TOKEN = 0
SECOND_TOKEN = 1
END = 2  # its last token so far, or its end without any
TIMES_SIZE = 3

# Worker. The wheel stands behind the fields: for each tick (a pass with decoding requests in it), modulo its size, the
# decoding requests that then need a block or end.
BUSY = 0
WAITING_FIRST = 1
WAITING_LAST = 2
RUNNING_FIRST = 3
RUNNING_LAST = 4
RUNNING = 5
FREE_SLOT = 6
PREFILLING = 7  # slot of the request whose prompt did not fit into the last pass
DECODING = 8
CONTEXT_TOKENS = 9  # known tokens of the decoding requests
TICK = 10
EMERGING = 11  # slots whose known tokens are all computed with the pass under way
FINISHED = 12  # rows that end with the pass under way
FREE_COPY = 13
OLDEST_COPY = 14  # the cached copies without a user, in order of their release
NEWEST_COPY = 15
SPARE_COPIES = 16  # free ones and cached ones without a user
CHANGED_ENTRY = 17  # prompt blocks that came into or left its cache with the pass under way
ACTIVE_BLOCKS = 18  # the router's account of the worker, from here on
PREFILL_TOKENS = 19
ACTIVE_REQUESTS = 20
OVERLAP = 21  # leading blocks of the request to be routed that the router believes to be in its cache
ACTIVE_OVERLAP = 22  # and those that are active on it
WHEEL = 23

# Slot. The addresses of its copies stand behind the fields, by depth.
ROW = 0
COMPUTED = 1
HELD = 2  # blocks
CACHED = 3  # of these, leading ones that are in the prefix cache
ADMITTED = 4  # admissions of the whole replay before this one
PREVIOUS = 5  # in the running list, which is in order of admission; NEXT also links free slots
NEXT = 6
STARTED = 7  # tick at which it began to decode
WHEEL_PREVIOUS = 8  # -2 - place in `workers` for the first of its place on the wheel
WHEEL_NEXT = 9
NEXT_EMERGING = 10
COPIES = 11

# Copy.
REFERENCES = 0
ENTRY = 1
NEXT_DUPLICATE = 2  # the next copy of the same block on the same worker
OLDER = 3
NEWER = 4  # also links free copies
COPY_SIZE = 5

# Entry.
KEY = 0  # a free entry has the address of the next here
OWNER = 1  # row, -1 for a prompt block
USERS = 2  # what it is to each worker (below, a bit of a mask, being in a list), counted; a free entry has none
MASKS = 3
HOLDERS = 0  # first mask of a pair: workers that the router believes to hold it
ACTIVE = 1  # second: workers where it is active in the router's account

# What an entry is to one worker.
FIRST_COPY = 0
ACTIVE_COUNT = 1
NEXT_CHANGED = 2  # in the worker's list of changes, or NOT_LISTED
NOT_LISTED = -2
HOLDING_SIZE = 3

# Scratch: counters of the replay, then of the pass that is being put together; lists stand behind them (see Shape).
NEXT_ROW = 0
OPEN_REQUESTS = 1
ADMISSIONS = 2
GAPS = 3
COMMITTED_PREFILL = 4
FREE_ENTRY = 5
FREE_ENTRIES = 6
BUDGET = 7
PROMPTS = 8
PROMPT_ENDS = 9
PROMPT_STARTS = 10
COMPLETING = 11
DUE = 12
PREEMPTED = 13
COUNTERS = 14


class Shape(NamedTuple):
    """Sizes, and where things stand.

    A worker has `blocks`, of which no more `copies` need a record than the whole window could fill; likewise
    `max_sequences` is at most the number of requests. The reserves are how many entries and gaps must be free before
    an event.
    """

    rows: int
    workers: int
    words: int
    blocks: int
    copies: int
    block_size: int
    max_sequences: int
    max_batched_tokens: int
    prefix_caching: bool
    entry_reserve: int
    gap_reserve: int
    worker_size: int
    wheel_size: int
    slot_size: int
    entry_size: int
    holdings: int
    due: int
    completing: int
    chain: int


class Polynomial(NamedTuple):
    """Milliseconds: `square * x * x + linear * x + constant`."""

    square: float
    linear: float
    constant: float


class Policy(NamedTuple):
    """The router's parameters, the timing, and what the random numbers are a function of."""

    credit: float
    credit_decay: float
    prefill_scale: float
    request_weight: float
    temperature: float
    prefill_ms: Polynomial
    decode_ms: Polynomial
    least_decode_ms: float
    speedup: float
    seed: int
    replication: int


class State(NamedTuple):
    """Everything a replay reads and writes; the first four arrays are the window's own and only read."""

    arrival_ms: Integers
    input_length: Integers
    hash_start: Integers
    blocks: Integers
    shape: Shape
    policy: Policy
    requests: Integers
    times: Floats
    workers: Integers
    pass_end_ms: Floats
    cost: Floats
    slots: Integers
    copies: Integers
    entries: Integers
    prompt_entries: Integers
    buckets: Integers
    scratch: Integers
    gap_ms: NDArray[np.float64]
    gap_tokens: NDArray[np.int32]
