"""The simulator's state: a few flat tables of integer records.

A record is known by its address, the place of its first field; field F of record r of a table stands at `table[r + F]`.
Lists are linked through fields that hold addresses; -1 ends a list and means "none" everywhere. Compiled code gets
numpy arrays; CPython gets lists, which it indexes several times faster.

- A request's record is the `row`-th of `requests`, `row` being its place in the window.
- A worker's record is the `worker`-th of `workers`. The first `arrival_workers` get the requests that arrive: all of an
  aggregated deployment, the prefill workers of a disaggregated one, whose decode workers follow.
- A slot is a place for a request that holds blocks, with their copies behind its fields, by depth.
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

# Request, in `transfers`, which only a disaggregated deployment has: on the way to its decode worker.
DESTINATION = 0  # the decode worker, while it is on that one's books
HELD_SLOT = 1  # of the prefill worker, which keeps its blocks for the transfer
RESERVED_SLOT = 2  # of the decode worker, from the reservation until it runs there
STEP = 3  # what it does next
NEXT_STEP = 4  # row of the next in a list of such steps
TRANSFER_SIZE = 5

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
ROLE = 6
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
BLOCKS = 23  # what its pool gives it, from here on; see WorkerSpecification
SEQUENCES = 24
BATCHED_TOKENS = 25
PREFIX_CACHING = 26
PASS = 27  # passes of all workers that started before its last one
DEFERRED_FIRST = 28  # steps of requests that wait for its pass to end
DEFERRED_LAST = 29
UNRESERVED_FIRST = 30  # requests whose prompts wait for room on this decode worker
UNRESERVED_LAST = 31
RETRY = 32  # whether something has made room since the first of these was tried
WHEEL = 33

# Roles.
AGGREGATED = 0
PREFILL = 1
DECODE = 2

# Steps of a request in a disaggregated deployment.
SUBMIT = 0  # to a prefill worker
RESERVE = 1  # go to a decode worker, and wait for room for the prompt there
MOVE = 2  # the prompt, in no time
ACTIVATE = 3  # wait for a turn to decode
RELEASE = 4  # the prefill worker's blocks
COMPLETE = 5  # leave the prefill worker's books
CANCEL = 6  # of a request that a worker refuses: release what it holds
GIVE_UP = 7  # and leave the books

# Slot. The addresses of its copies stand behind the fields, by depth.
ROW = 0
COMPUTED = 1
HELD = 2  # blocks
CACHED = 3  # of these, leading ones that are in the prefix cache
ADMITTED = 4  # admissions of the whole replay before this one
PREVIOUS = 5  # in the worker's running list, which is in order of admission; NEXT also links free slots
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
FREE_SLOT = 14
FREE_SLOTS = 15
HELD_SLOTS = 16  # of prefill workers, by requests that do not run there any more
PASSES = 17
STEP_FIRST = 18  # the requests that take a step now, in order
STEP_LAST = 19
STUCK = 20  # whether nothing else can happen any more
COUNTERS = 21


class Shape(NamedTuple):
    """Sizes, and where things stand.

    `decode_tokens` is the capacity of a worker that decodes. The reserves are how many entries, gaps and slots must be
    free before an event; of slots, as many more as are held.
    """

    rows: int
    workers: int
    arrival_workers: int
    words: int
    block_size: int
    decode_tokens: int
    entry_reserve: int
    gap_reserve: int
    slot_reserve: int
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
    transfers: Integers
    times: Floats
    workers: Integers
    pass_end_ms: (
        Floats  # by worker; then the time of steps that are yet to be taken, or infinity; then of the last event
    )
    cost: Floats
    slots: Integers
    copies: Integers
    entries: Integers
    prompt_entries: Integers
    buckets: Integers
    scratch: Integers
    gap_ms: NDArray[np.float64]
    gap_tokens: NDArray[np.int32]
