"""Whatever happens in a replay, requests, tokens and blocks balance after every event."""

import math
from collections import Counter
from typing import Any

import numpy as np
from attrs import evolve
from hypothesis import given, settings
from replay_cases import Case, cases, disaggregated_cases

from dgdr_retune.replay._simulation import _blocks as blocks
from dgdr_retune.replay._simulation import _layout as layout
from dgdr_retune.replay._simulation import _loop as loop
from dgdr_retune.replay._simulation import _state as s


def waiting_rows(state: Any, at: int) -> list[int]:
    rows = []
    row = state.workers[at + s.WAITING_FIRST]
    while row >= 0:
        rows.append(row)
        row = state.requests[row * s.REQUEST_SIZE + s.FOLLOWING]
    assert state.workers[at + s.WAITING_LAST] == (rows[-1] if rows else -1)
    return rows


def running_slots(state: Any, at: int) -> list[int]:
    slots = []
    slot = state.workers[at + s.RUNNING_FIRST]
    while slot >= 0:
        slots.append(slot)
        slot = state.slots[slot + s.NEXT]
    assert state.workers[at + s.RUNNING_LAST] == (slots[-1] if slots else -1)
    return slots


def ending_rows(state: Any, at: int) -> list[int]:
    rows = []
    row = state.workers[at + s.FINISHED]
    while row >= 0:
        rows.append(row)
        row = state.requests[row * s.REQUEST_SIZE + s.FOLLOWING]
    return rows


def unreserved_rows(state: Any, at: int) -> list[int]:
    rows = []
    row = state.workers[at + s.UNRESERVED_FIRST]
    while row >= 0:
        rows.append(row)
        row = state.requests[row * s.REQUEST_SIZE + s.FOLLOWING]
    assert state.workers[at + s.UNRESERVED_LAST] == (rows[-1] if rows else -1)
    return rows


def transfer_of(state: Any, row: int, field: int) -> int:
    """A field of a request's transfer; -1 in an aggregated deployment."""
    return int(state.transfers[row * s.TRANSFER_SIZE + field]) if state.transfers else -1


def in_steps(state: Any) -> list[int]:
    """Rows with a step to take, now or after a worker's pass."""
    size = state.shape.worker_size
    deferred = [state.workers[worker * size + s.DEFERRED_FIRST] for worker in range(state.shape.workers)]
    rows = []
    for first in (state.scratch[s.STEP_FIRST], *deferred):
        row = first
        while row >= 0:
            rows.append(row)
            row = transfer_of(state, row, s.NEXT_STEP)
    return rows


def held_rows(state: Any) -> list[int]:
    """Rows that hold a slot of a prefill worker where they do not run any more."""
    return [row for row in range(state.shape.rows) if transfer_of(state, row, s.HELD_SLOT) >= 0]


def check_requests(state: Any) -> None:
    """Each arrived request is in one place or has ended, and the counts of each worker are those of its lists."""
    places: Counter[int] = Counter()
    for worker in range(state.shape.workers):
        at = worker * state.shape.worker_size
        slots = running_slots(state, at)
        assert state.workers[at + s.RUNNING] == len(slots) <= state.workers[at + s.SEQUENCES]
        admitted = [state.slots[slot + s.ADMITTED] for slot in slots]
        assert admitted == sorted(admitted)
        assert state.workers[at + s.PREFILLING] in (-1, state.workers[at + s.RUNNING_LAST])
        rows = [*waiting_rows(state, at), *(state.slots[slot + s.ROW] for slot in slots), *ending_rows(state, at)]
        rows += unreserved_rows(state, at)
        if state.workers[at + s.ROLE] == s.DECODE:
            assert all(transfer_of(state, row, s.DESTINATION) == worker for row in rows)
        else:
            assert all(state.requests[row * s.REQUEST_SIZE + s.WORKER] == worker for row in rows)
        places.update(rows)
        decoding = [slot for slot in slots if state.slots[slot + s.STARTED] >= 0]
        assert state.workers[at + s.DECODING] == len(decoding)
        assert state.workers[at + s.CONTEXT_TOKENS] == sum(known(state, at, slot) for slot in decoding)
        for slot in slots:
            check_tokens(state, at, slot)
    assert set(places.values()) <= {1}
    steps = in_steps(state)
    assert len(set(steps)) == len(steps)
    held = held_rows(state)
    assert len(held) == state.scratch[s.HELD_SLOTS]
    open_rows = set(places) | set(held) | set(steps)
    ended = {row for row in open_rows - set(places) if has_ended(state, row)}
    assert len(open_rows - ended) == state.scratch[s.OPEN_REQUESTS]
    assert all(row < state.scratch[s.NEXT_ROW] for row in open_rows)


def has_ended(state: Any, row: int) -> bool:
    """Whether a request decoded to its end, while its prefill worker may still be busy and keep its blocks."""
    limit = state.requests[row * s.REQUEST_SIZE + s.LIMIT]
    generated = state.requests[row * s.REQUEST_SIZE + s.GENERATED]
    return limit >= 0 and generated == limit and not math.isnan(state.times[row * s.TIMES_SIZE + s.END])


def known(state: Any, at: int, slot: int) -> int:
    row = state.slots[slot + s.ROW]
    tokens: int = state.input_length[row] + state.requests[row * s.REQUEST_SIZE + s.GENERATED]
    if state.slots[slot + s.STARTED] >= 0:
        tokens += state.workers[at + s.TICK] - state.slots[slot + s.STARTED]
    return tokens


def check_tokens(state: Any, at: int, slot: int) -> None:
    """A running request holds blocks for its computed tokens and no more, and is within its limit."""
    row = state.slots[slot + s.ROW]
    tokens = known(state, at, slot)
    computed = tokens - 1 if state.slots[slot + s.STARTED] >= 0 else state.slots[slot + s.COMPUTED]
    assert 0 <= computed < tokens
    assert state.slots[slot + s.HELD] == -(-computed // state.shape.block_size)
    assert tokens - state.input_length[row] < max(1, state.requests[row * s.REQUEST_SIZE + s.LIMIT])


def check_copies(state: Any) -> None:
    """Each copy is free, spare or used by as many requests as it says; lookups find the cached ones."""
    shape = state.shape
    first = 0
    for worker in range(shape.workers):
        at = worker * shape.worker_size
        users: Counter[int] = Counter()
        for slot in (*running_slots(state, at), *transfer_slots(state, worker)):
            held = state.slots[slot + s.COPIES : slot + s.COPIES + state.slots[slot + s.HELD]]
            assert len(set(held)) == len(held)
            users.update(held)
        free = linked(state.copies, state.workers[at + s.FREE_COPY], s.NEWER)
        spare = linked(state.copies, state.workers[at + s.OLDEST_COPY], s.NEWER)
        assert spare == linked(state.copies, state.workers[at + s.NEWEST_COPY], s.OLDER)[::-1]
        own = range(first, first + (len(users) + len(free) + len(spare)) * s.COPY_SIZE, s.COPY_SIZE)
        first = own.stop
        assert sorted([*users, *free, *spare]) == list(own)
        assert {copy: state.copies[copy + s.REFERENCES] for copy in own if copy in users} == users
        assert state.workers[at + s.SPARE_COPIES] == len(free) + len(spare)
        assert all(state.copies[copy + s.ENTRY] >= 0 for copy in spare)
        assert all(state.copies[copy + s.ENTRY] < 0 for copy in free)
        for copy in own:
            entry = state.copies[copy + s.ENTRY]
            if entry >= 0:
                holding = entry + shape.holdings + worker * s.HOLDING_SIZE
                assert copy in linked(state.copies, state.entries[holding + s.FIRST_COPY], s.NEXT_DUPLICATE)
    assert first == len(state.copies)


def transfer_slots(state: Any, worker: int) -> list[int]:
    """Slots of a worker that requests hold without running there."""
    rows = range(state.shape.rows)
    if state.workers[worker * state.shape.worker_size + s.ROLE] == s.DECODE:
        here = [row for row in rows if transfer_of(state, row, s.DESTINATION) == worker]
        slots = [transfer_of(state, row, s.RESERVED_SLOT) for row in here]
    else:
        here = [row for row in rows if state.requests[row * s.REQUEST_SIZE + s.WORKER] == worker]
        slots = [transfer_of(state, row, s.HELD_SLOT) for row in here]
    return [slot for slot in slots if slot >= 0]


def check_slots(state: Any) -> None:
    """Each slot is free, or of one request on one worker."""
    used = [
        slot
        for worker in range(state.shape.workers)
        for slot in (*running_slots(state, worker * state.shape.worker_size), *transfer_slots(state, worker))
    ]
    free = linked(state.slots, state.scratch[s.FREE_SLOT], s.NEXT)
    assert len(free) == state.scratch[s.FREE_SLOTS]
    assert sorted([*used, *free]) == list(range(0, len(state.slots), state.shape.slot_size))


def linked(table: Any, first: int, field: int) -> list[int]:
    records = []
    while first >= 0:
        records.append(first)
        assert len(records) <= len(table)
        first = table[first + field]
    return records


def check_entries(state: Any) -> None:
    """Entries live as long as they have users, and exactly those that do are found."""
    shape = state.shape
    live = [entry for entry in (*state.prompt_entries, *state.buckets) if entry >= 0]
    free = linked(state.entries, state.scratch[s.FREE_ENTRY], s.KEY)
    assert len(free) == state.scratch[s.FREE_ENTRIES]
    assert sorted([*live, *free]) == list(range(0, len(state.entries), shape.entry_size))
    for entry in live:
        key, owner = state.entries[entry + s.KEY], state.entries[entry + s.OWNER]
        assert blocks.find_entry(state, key, owner) == entry
        users = 0
        for worker in range(shape.workers):
            holding = entry + shape.holdings + worker * s.HOLDING_SIZE
            bit = 1 << worker
            held = state.entries[holding + s.FIRST_COPY] >= 0
            told = state.entries[entry + s.MASKS + s.HOLDERS] & bit != 0
            active = state.entries[holding + s.ACTIVE_COUNT] > 0
            listed = state.entries[holding + s.NEXT_CHANGED] != s.NOT_LISTED
            assert active == (state.entries[entry + s.MASKS + s.ACTIVE] & bit != 0)
            assert owner >= 0 or held == told or listed or worker >= shape.arrival_workers
            assert owner < 0 or not (told or active or listed)
            users += held + told + active + listed
        assert users == state.entries[entry + s.USERS] > 0


def check_router(state: Any) -> None:
    """The router's accounts are the sums over the requests that are on its books."""
    shape = state.shape
    steps = [row for row in in_steps(state) if transfer_of(state, row, s.STEP) != s.SUBMIT]
    leaving = {*held_rows(state), *steps}
    for worker in range(shape.arrival_workers):
        at = worker * shape.worker_size
        rows = {
            *waiting_rows(state, at),
            *(state.slots[slot + s.ROW] for slot in running_slots(state, at)),
            *ending_rows(state, at),
            *(row for row in leaving if state.requests[row * s.REQUEST_SIZE + s.WORKER] == worker),
        }
        tracked = [state.requests[row * s.REQUEST_SIZE + s.TRACKED_PREFILL] for row in rows]
        assert state.workers[at + s.PREFILL_TOKENS] == sum(tracked)
        assert state.workers[at + s.ACTIVE_REQUESTS] == len(rows)
        active = set()
        for row in rows:
            start = state.hash_start[row]
            active |= set(state.blocks[start : start + state.input_length[row] // shape.block_size])
        assert state.workers[at + s.ACTIVE_BLOCKS] == len(active)
    for worker in range(shape.arrival_workers, shape.workers):
        at = worker * shape.worker_size
        there = [row for row in range(shape.rows) if transfer_of(state, row, s.DESTINATION) == worker]
        assert state.workers[at + s.ACTIVE_REQUESTS] == len(there)
        assert state.workers[at + s.ACTIVE_BLOCKS] == sum(state.input_length[row] // shape.block_size for row in there)


def check_passes(state: Any) -> None:
    """Passes stay within the budgets of tokens and sequences, and end no earlier than they start."""
    assert state.scratch[s.BUDGET] >= 0
    assert state.scratch[s.COMPLETING] <= max(state.workers[s.SEQUENCES :: state.shape.worker_size])


def follow(case: Case) -> Any:
    state = layout.initial_state(case.trace, case.scenario, case.router, 0, arrays=False)
    events = 0
    while True:
        status = loop.advance(state)
        for check in (check_requests, check_copies, check_slots, check_entries, check_router, check_passes):
            check(state)
        if status == loop.DONE:
            return state
        if status == loop.ROOM_SHORT:
            state = layout.with_more_room(state)
        events += 1
        assert events < 100_000


@given(cases(workers=3, roomy=False) | disaggregated_cases(workers=3, roomy=False))
@settings(deadline=None, max_examples=250)
def test_requests_tokens_and_blocks_balance_after_every_event(case: Case) -> None:
    copies = layout.initial_state(case.trace, case.scenario, case.router, 0, arrays=False).workers
    state = follow(case)
    shape = state.shape
    requests = np.array(state.requests).reshape(-1, s.REQUEST_SIZE)
    times = np.array(state.times).reshape(-1, s.TIMES_SIZE)
    limits = requests[:, s.LIMIT]
    assert (requests[:, s.GENERATED] == np.maximum(limits, 0)).all()
    assert not np.isnan(times[:, s.END]).any()
    assert (np.isnan(times[:, s.FIRST_TOKEN]) == (limits <= 0)).all()
    assert (np.isnan(times[:, s.SECOND_TOKEN]) == (limits <= 1)).all()
    assert state.gap_tokens[: state.scratch[s.GAPS]].sum() == np.maximum(limits - 1, 0).sum()
    gaps = state.gap_ms[: state.scratch[s.GAPS]] @ state.gap_tokens[: state.scratch[s.GAPS]]
    tokens = limits > 0
    assert np.isclose(gaps, (times[tokens, s.END] - times[tokens, s.FIRST_TOKEN]).sum())
    for worker in range(shape.workers):
        at = worker * shape.worker_size
        assert state.workers[at + s.SPARE_COPIES] == copies[at + s.SPARE_COPIES]
        assert [state.workers[at + field] for field in (s.ACTIVE_BLOCKS, s.PREFILL_TOKENS, s.ACTIVE_REQUESTS)] == [
            0
        ] * 3


@given(cases(workers=3) | disaggregated_cases(workers=3))
@settings(deadline=None, max_examples=50)
def test_a_writer_that_chooses_hashes_to_collide_changes_nothing_in_the_tables(case: Case) -> None:
    """Every word of the state is the same, so no look-up takes a step more."""
    hostile = evolve(
        case, requests=tuple(evolve(one, hashes=[key << 32 | key for key in one.hashes]) for one in case.requests)
    )
    plain, other = follow(case), follow(hostile)
    for name in ("blocks", "workers", "transfers", "slots", "copies", "entries", "prompt_entries", "buckets"):
        assert getattr(other, name) == getattr(plain, name), name


@given(cases(workers=3) | disaggregated_cases(workers=3))
@settings(deadline=None, max_examples=50)
def test_a_replay_that_has_to_make_room_for_block_identities_is_the_same_replay(case: Case) -> None:
    roomy = follow(case)
    state = layout.initial_state(case.trace, case.scenario, case.router, 0, arrays=False)
    tight = state._replace(shape=state.shape._replace(entry_reserve=len(state.entries) // state.shape.entry_size + 1))
    grown = 0
    while (status := loop.run(tight)) != loop.DONE:
        assert status == loop.ROOM_SHORT
        tight = layout.with_more_room(tight)
        grown += 1
    assert grown > 0
    assert np.array_equal(tight.times, roomy.times, equal_nan=True)
    assert tight.requests == roomy.requests
