"""Block identities and physical KV blocks: allocation, prefix cache, least recently released eviction."""

from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._state import (
    ACTIVE_COUNT,
    CHANGED_ENTRY,
    ENTRY,
    FIRST_COPY,
    FREE_COPY,
    FREE_ENTRIES,
    FREE_ENTRY,
    HOLDERS,
    HOLDING_SIZE,
    KEY,
    MASK_BITS,
    MASKS,
    NEWER,
    NEWEST_COPY,
    NEXT_CHANGED,
    NEXT_DUPLICATE,
    NOT_LISTED,
    OLDER,
    OLDEST_COPY,
    OWNER,
    REFERENCES,
    SPARE_COPIES,
    USERS,
    Integers,
    State,
)

_WORD = 0xFFFFFFFF


@kernel
def bucket_of(buckets: Integers, depth: int, row: int) -> int:
    """Where the hash table starts to look for a block with output in it; its size is a power of two up to 2**25."""
    mixed = (depth ^ (row * 0x27D4EB2F & _WORD)) * 0x9E3779B1 & _WORD
    return (mixed ^ (mixed >> 15)) >> 7 & (len(buckets) - 1)


@kernel
def find_entry(state: State, key: int, owner: int) -> int:
    """The entry of an identity, or -1."""
    entries = state.entries
    buckets = state.buckets
    entry: int
    if owner < 0:
        entry = state.prompt_entries[key]
        return entry
    place = bucket_of(buckets, key, owner)
    entry = buckets[place]
    while entry >= 0 and (entries[entry + KEY] != key or entries[entry + OWNER] != owner):
        place = (place + 1) & (len(buckets) - 1)
        entry = buckets[place]
    return entry


@kernel
def add_entry(state: State, key: int, owner: int) -> int:
    """A new entry, with no users yet; the caller has seen to it that one is free and that the identity is new."""
    shape = state.shape
    entries = state.entries
    buckets = state.buckets
    entry: int = state.scratch[FREE_ENTRY]
    state.scratch[FREE_ENTRY] = entries[entry + KEY]
    state.scratch[FREE_ENTRIES] -= 1
    entries[entry + KEY] = key
    entries[entry + OWNER] = owner
    entries[entry + USERS] = 0
    for place in range(entry + MASKS, entry + shape.holdings):
        entries[place] = 0
    for holding in range(entry + shape.holdings, entry + shape.entry_size, HOLDING_SIZE):
        entries[holding + FIRST_COPY] = -1
        entries[holding + ACTIVE_COUNT] = 0
        entries[holding + NEXT_CHANGED] = NOT_LISTED
    if owner < 0:
        state.prompt_entries[key] = entry
        return entry
    bucket = bucket_of(buckets, key, owner)
    while buckets[bucket] >= 0:
        bucket = (bucket + 1) & (len(buckets) - 1)
    buckets[bucket] = entry
    return entry


@kernel
def drop_user(state: State, entry: int) -> None:
    """One user fewer; without any, the entry is free again."""
    entries = state.entries
    entries[entry + USERS] -= 1
    if entries[entry + USERS] > 0:
        return
    if entries[entry + OWNER] < 0:
        state.prompt_entries[entries[entry + KEY]] = -1
    else:
        empty_bucket(state, entry)
    entries[entry + KEY] = state.scratch[FREE_ENTRY]
    state.scratch[FREE_ENTRY] = entry
    state.scratch[FREE_ENTRIES] += 1


@kernel
def empty_bucket(state: State, entry: int) -> None:
    """Take an entry out of the hash table (linear probing, deletion by shifting back)."""
    entries = state.entries
    buckets = state.buckets
    mask = len(buckets) - 1
    hole = bucket_of(buckets, entries[entry + KEY], entries[entry + OWNER])
    while buckets[hole] != entry:
        hole = (hole + 1) & mask
    place = (hole + 1) & mask
    while buckets[place] >= 0:
        other = buckets[place]
        home = bucket_of(buckets, entries[other + KEY], entries[other + OWNER])
        if ((place - home) & mask) >= ((place - hole) & mask):
            buckets[hole] = other
            hole = place
        place = (place + 1) & mask
    buckets[hole] = -1


@kernel
def note_change(state: State, worker: int, entry: int) -> None:
    """Remember that the router must hear at the pass's end whether the worker holds this prompt block."""
    entries = state.entries
    holding = entry + state.shape.holdings + worker * HOLDING_SIZE
    if entries[entry + OWNER] >= 0 or entries[holding + NEXT_CHANGED] != NOT_LISTED:
        return
    if worker >= state.shape.arrival_workers:
        return
    at = worker * state.shape.worker_size
    entries[holding + NEXT_CHANGED] = state.workers[at + CHANGED_ENTRY]
    state.workers[at + CHANGED_ENTRY] = entry
    entries[entry + USERS] += 1


@kernel
def publish_changes(state: State, worker: int) -> None:
    """Bring the router's view of a worker's cache up to date (the stored and removed events of one pass)."""
    entries = state.entries
    at = worker * state.shape.worker_size
    bit = 1 << (worker % MASK_BITS)
    mask = MASKS + 2 * (worker // MASK_BITS) + HOLDERS
    entry = state.workers[at + CHANGED_ENTRY]
    while entry >= 0:
        holding = entry + state.shape.holdings + worker * HOLDING_SIZE
        following = entries[holding + NEXT_CHANGED]
        entries[holding + NEXT_CHANGED] = NOT_LISTED
        held = entries[holding + FIRST_COPY] >= 0
        known = entries[entry + mask] & bit != 0
        if held and not known:
            entries[entry + mask] |= bit
            entries[entry + USERS] += 1
        if known and not held:
            entries[entry + mask] ^= bit
            entries[entry + USERS] -= 1
        drop_user(state, entry)
        entry = following
    state.workers[at + CHANGED_ENTRY] = -1


@kernel
def unlink_spare(state: State, worker: int, copy: int) -> None:
    """Take a cached copy without users out of its worker's list of such."""
    copies = state.copies
    workers = state.workers
    at = worker * state.shape.worker_size
    older = copies[copy + OLDER]
    newer = copies[copy + NEWER]
    if older >= 0:
        copies[older + NEWER] = newer
    else:
        workers[at + OLDEST_COPY] = newer
    if newer >= 0:
        copies[newer + OLDER] = older
    else:
        workers[at + NEWEST_COPY] = older
    workers[at + SPARE_COPIES] -= 1


@kernel
def forget_copy(state: State, worker: int, copy: int) -> None:
    """A copy stops to be a cached block; the next copy of the same block on the worker, if any, takes its place."""
    copies = state.copies
    entries = state.entries
    entry = copies[copy + ENTRY]
    copies[copy + ENTRY] = -1
    holding = entry + state.shape.holdings + worker * HOLDING_SIZE
    first = entries[holding + FIRST_COPY]
    if first != copy:
        while copies[first + NEXT_DUPLICATE] != copy:
            first = copies[first + NEXT_DUPLICATE]
        copies[first + NEXT_DUPLICATE] = copies[copy + NEXT_DUPLICATE]
        return
    entries[holding + FIRST_COPY] = copies[copy + NEXT_DUPLICATE]
    if entries[holding + FIRST_COPY] < 0:
        note_change(state, worker, entry)
        drop_user(state, entry)


@kernel
def take_copy(state: State, worker: int) -> int:
    """A copy of no block yet, with one user: a free one, else the spare one released longest ago. There is one."""
    workers = state.workers
    at = worker * state.shape.worker_size
    copy: int = workers[at + FREE_COPY]
    if copy >= 0:
        workers[at + FREE_COPY] = state.copies[copy + NEWER]
        workers[at + SPARE_COPIES] -= 1
    else:
        copy = workers[at + OLDEST_COPY]
        unlink_spare(state, worker, copy)
        forget_copy(state, worker, copy)
    state.copies[copy + REFERENCES] = 1
    return copy


@kernel
def cache_copy(state: State, worker: int, copy: int, entry: int) -> None:
    """A copy becomes a cached block, behind the copies of the same block that the worker has already."""
    copies = state.copies
    entries = state.entries
    copies[copy + ENTRY] = entry
    copies[copy + NEXT_DUPLICATE] = -1
    holding = entry + state.shape.holdings + worker * HOLDING_SIZE
    first = entries[holding + FIRST_COPY]
    if first < 0:
        entries[holding + FIRST_COPY] = copy
        entries[entry + USERS] += 1
        note_change(state, worker, entry)
        return
    while copies[first + NEXT_DUPLICATE] >= 0:
        first = copies[first + NEXT_DUPLICATE]
    copies[first + NEXT_DUPLICATE] = copy


@kernel
def hold_copy(state: State, worker: int, copy: int) -> None:
    """One more request uses a cached copy."""
    if state.copies[copy + REFERENCES] == 0:
        unlink_spare(state, worker, copy)
    state.copies[copy + REFERENCES] += 1


@kernel
def release_copy(state: State, worker: int, copy: int) -> None:
    """One request fewer uses a copy: without any it is free, or the newest spare one if it is a cached block."""
    copies = state.copies
    workers = state.workers
    at = worker * state.shape.worker_size
    copies[copy + REFERENCES] -= 1
    if copies[copy + REFERENCES] > 0:
        return
    workers[at + SPARE_COPIES] += 1
    if copies[copy + ENTRY] < 0:
        copies[copy + NEWER] = workers[at + FREE_COPY]
        workers[at + FREE_COPY] = copy
        return
    newest = workers[at + NEWEST_COPY]
    copies[copy + OLDER] = newest
    copies[copy + NEWER] = -1
    if newest >= 0:
        copies[newest + NEWER] = copy
    else:
        workers[at + OLDEST_COPY] = copy
    workers[at + NEWEST_COPY] = copy
