"""Block identities and physical KV blocks: allocation, prefix cache, least recently released eviction."""

from dgdr_retune.replay._simulation._compile import kernel
from dgdr_retune.replay._simulation._state import MASK_BITS, Entries, Pool, Setup

_WORD = 0xFFFFFFFF


@kernel
def bucket_of(entries: Entries, key: int, owner: int) -> int:
    """Where the hash table starts to look for an identity; the table's size is a power of two below 2**32."""
    mixed = ((key & _WORD) ^ ((key >> 32) & _WORD) ^ (owner * 0x27D4EB2F & _WORD)) * 0x9E3779B1 & _WORD
    return ((mixed ^ (mixed >> 15)) * 0x85EBCA6B & _WORD) >> 7 & (len(entries.bucket) - 1)


@kernel
def find_entry(entries: Entries, key: int, owner: int) -> int:
    """The entry of a prompt block (`key` is its hash, `owner` -1) or an output block (its depth and its row), or -1."""
    mask = len(entries.bucket) - 1
    place = bucket_of(entries, key, owner)
    entry = entries.bucket[place]
    while entry >= 0 and (entries.key[entry] != key or entries.owner[entry] != owner):
        place = (place + 1) & mask
        entry = entries.bucket[place]
    return entry


@kernel
def add_entry(setup: Setup, entries: Entries, key: int, owner: int) -> int:
    """A new entry, with no users yet; the caller has seen to it that one is free and that the identity is new."""
    entries.count[0] -= 1
    entry = entries.free[entries.count[0]]
    entries.key[entry] = key
    entries.owner[entry] = owner
    entries.users[entry] = 0
    for word in range(setup.words):
        entries.holder_mask[entry * setup.words + word] = 0
        entries.active_mask[entry * setup.words + word] = 0
    for worker in range(setup.workers):
        entries.first_copy[entry * setup.workers + worker] = -1
        entries.active_count[entry * setup.workers + worker] = 0
        entries.changed[entry * setup.workers + worker] = 0
    mask = len(entries.bucket) - 1
    place = bucket_of(entries, key, owner)
    while entries.bucket[place] >= 0:
        place = (place + 1) & mask
    entries.bucket[place] = entry
    return entry


@kernel
def drop_user(entries: Entries, entry: int) -> None:
    """One user fewer; without any, the entry is free again (linear probing, deletion by shifting back)."""
    entries.users[entry] -= 1
    if entries.users[entry] > 0:
        return
    mask = len(entries.bucket) - 1
    hole = bucket_of(entries, entries.key[entry], entries.owner[entry])
    while entries.bucket[hole] != entry:
        hole = (hole + 1) & mask
    place = hole
    while True:
        place = (place + 1) & mask
        other = entries.bucket[place]
        if other < 0:
            break
        home = bucket_of(entries, entries.key[other], entries.owner[other])
        if ((place - home) & mask) >= ((place - hole) & mask):
            entries.bucket[hole] = other
            hole = place
    entries.bucket[hole] = -1
    entries.free[entries.count[0]] = entry
    entries.count[0] += 1


@kernel
def note_change(setup: Setup, entries: Entries, pool: Pool, worker: int, entry: int) -> None:
    """Remember that the router must hear at the pass's end whether this worker holds this prompt block."""
    place = entry * setup.workers + worker
    if entries.owner[entry] >= 0 or entries.changed[place] != 0:
        return
    entries.changed[place] = 1
    entries.users[entry] += 1
    pool.changes[worker * 2 * setup.blocks + pool.change_count[worker]] = entry
    pool.change_count[worker] += 1


@kernel
def publish_changes(setup: Setup, entries: Entries, pool: Pool, worker: int) -> None:
    """Bring the router's view of this worker's cache up to date (stored and removed events of one pass)."""
    word = worker // MASK_BITS
    bit = 1 << (worker % MASK_BITS)
    for k in range(pool.change_count[worker]):
        entry = pool.changes[worker * 2 * setup.blocks + k]
        place = entry * setup.words + word
        entries.changed[entry * setup.workers + worker] = 0
        held = entries.first_copy[entry * setup.workers + worker] >= 0
        if held and entries.holder_mask[place] & bit == 0:
            entries.holder_mask[place] |= bit
            entries.users[entry] += 1
        if not held and entries.holder_mask[place] & bit != 0:
            entries.holder_mask[place] ^= bit
            drop_user(entries, entry)
        drop_user(entries, entry)
    pool.change_count[worker] = 0


@kernel
def unlink_inactive(pool: Pool, worker: int, copy: int) -> None:
    """Take a cached copy without references out of its worker's inactive list."""
    older = pool.older[copy]
    newer = pool.newer[copy]
    if older >= 0:
        pool.newer[older] = newer
    else:
        pool.oldest[worker] = newer
    if newer >= 0:
        pool.older[newer] = older
    else:
        pool.newest[worker] = older
    pool.inactive_count[worker] -= 1


@kernel
def forget_copy(setup: Setup, entries: Entries, pool: Pool, worker: int, copy: int) -> None:
    """An inactive copy stops to be a cached block; the next copy of the same block, if any, takes its place."""
    entry = pool.entry[copy]
    pool.entry[copy] = -1
    place = entry * setup.workers + worker
    first = entries.first_copy[place]
    if first != copy:
        while pool.next_duplicate[first] != copy:
            first = pool.next_duplicate[first]
        pool.next_duplicate[first] = pool.next_duplicate[copy]
        return
    entries.first_copy[place] = pool.next_duplicate[copy]
    if entries.first_copy[place] < 0:
        note_change(setup, entries, pool, worker, entry)
        drop_user(entries, entry)


@kernel
def take_copy(setup: Setup, entries: Entries, pool: Pool, worker: int) -> int:
    """A private copy with one reference: a free one, else the longest inactive one. The caller knows there is one."""
    if pool.free_count[worker] > 0:
        pool.free_count[worker] -= 1
        copy = pool.free[worker * setup.blocks + pool.free_count[worker]]
    else:
        copy = pool.oldest[worker]
        unlink_inactive(pool, worker, copy)
        forget_copy(setup, entries, pool, worker, copy)
    pool.references[copy] = 1
    return copy


@kernel
def cache_copy(setup: Setup, entries: Entries, pool: Pool, worker: int, copy: int, entry: int) -> None:
    """A private copy becomes a cached block, behind the copies of the same block that are there already."""
    pool.entry[copy] = entry
    pool.next_duplicate[copy] = -1
    place = entry * setup.workers + worker
    first = entries.first_copy[place]
    if first < 0:
        entries.first_copy[place] = copy
        entries.users[entry] += 1
        note_change(setup, entries, pool, worker, entry)
        return
    while pool.next_duplicate[first] >= 0:
        first = pool.next_duplicate[first]
    pool.next_duplicate[first] = copy


@kernel
def hold_copy(pool: Pool, worker: int, copy: int) -> None:
    """One more request uses a cached copy."""
    if pool.references[copy] == 0:
        unlink_inactive(pool, worker, copy)
    pool.references[copy] += 1


@kernel
def release_copy(setup: Setup, pool: Pool, worker: int, copy: int) -> None:
    """One request fewer uses a copy: a private one is free, a cached one without users is the newest inactive one."""
    pool.references[copy] -= 1
    if pool.entry[copy] < 0:
        pool.free[worker * setup.blocks + pool.free_count[worker]] = copy
        pool.free_count[worker] += 1
        return
    if pool.references[copy] > 0:
        return
    newest = pool.newest[worker]
    pool.older[copy] = newest
    pool.newer[copy] = -1
    if newest >= 0:
        pool.newer[newest] = copy
    else:
        pool.oldest[worker] = copy
    pool.newest[worker] = copy
    pool.inactive_count[worker] += 1
