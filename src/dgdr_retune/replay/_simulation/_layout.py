"""Lays out the simulator's state before the first arrival, and again with more room."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdr_retune.replay._engine import RouterParameters, Scenario
from dgdr_retune.replay._simulation._blocks import bucket_of
from dgdr_retune.replay._simulation._random import CANONICAL_SEED
from dgdr_retune.replay._simulation._sizes import capacity, most_copies, most_running, output_limits, shape_of
from dgdr_retune.replay._simulation._state import (
    AGGREGATED,
    BATCHED_TOKENS,
    BLOCKS,
    CHANGED_ENTRY,
    COPY_SIZE,
    DECODE,
    DEFERRED_FIRST,
    DEFERRED_LAST,
    DESTINATION,
    EMERGING,
    FINISHED,
    FOLLOWING,
    FREE_COPY,
    FREE_ENTRIES,
    FREE_ENTRY,
    FREE_SLOT,
    FREE_SLOTS,
    HELD_SLOT,
    HELD_SLOTS,
    KEY,
    LIMIT,
    NEWER,
    NEWEST_COPY,
    NEXT,
    NEXT_STEP,
    OLDEST_COPY,
    OWNER,
    PREFILL,
    PREFILLING,
    PREFIX_CACHING,
    REQUEST_SIZE,
    RESERVED_SLOT,
    REUSED_FIRST,
    ROLE,
    RUNNING_FIRST,
    RUNNING_LAST,
    SEQUENCES,
    SPARE_COPIES,
    STEP_FIRST,
    STEP_LAST,
    TIMES_SIZE,
    TRANSFER_SIZE,
    UNRESERVED_FIRST,
    UNRESERVED_LAST,
    WAITING_FIRST,
    WAITING_LAST,
    WHEEL,
    WORKER,
    Policy,
    Polynomial,
    Shape,
    State,
)
from dgdr_retune.replay._specification import (
    CalibratedTiming,
    EngineSpecification,
    FixedTiming,
    PolynomialTiming,
    Timing,
)
from dgdr_retune.replay._trace import Trace

_MOCKER_PREFILL = Polynomial(4.209989e-07, 1.518344e-02, 1.650142e01)
_MOCKER_DECODE = Polynomial(-25.74, 54.01, 5.74)
_MOCKER_LEAST_DECODE_MS = 1.0

_EMPTY_LISTS = (
    WAITING_FIRST,
    WAITING_LAST,
    RUNNING_FIRST,
    RUNNING_LAST,
    PREFILLING,
    EMERGING,
    FINISHED,
    OLDEST_COPY,
    NEWEST_COPY,
    CHANGED_ENTRY,
    DEFERRED_FIRST,
    DEFERRED_LAST,
    UNRESERVED_FIRST,
    UNRESERVED_LAST,
)


def initial_state(
    trace: Trace, scenario: Scenario, router: RouterParameters, replication: int, *, arrays: bool
) -> State:
    """The state before the first arrival of a window of at least one request; its tables as arrays, or as lists."""
    table = _array if arrays else _list
    specification = scenario.specification
    limits = output_limits(trace, specification)
    shape = shape_of(trace, specification, limits)
    entries, buckets, free_entries = _empty_entries(shape, 4 * shape.entry_reserve)
    requests = np.zeros((len(trace), REQUEST_SIZE), dtype=np.int32)
    requests[:, [FOLLOWING, WORKER, REUSED_FIRST]] = -1
    requests[:, LIMIT] = limits
    workers = _workers(trace, specification, shape, limits)
    slots = int(workers[:, SEQUENCES].sum()) + 2 * shape.slot_reserve
    scratch = np.zeros(shape.chain + shape.slot_size, dtype=np.int64)
    scratch[FREE_ENTRIES] = free_entries
    scratch[FREE_SLOTS] = slots
    scratch[[STEP_FIRST, STEP_LAST]] = -1
    return State(
        arrival_ms=table(_read_only(trace.arrival_ms)),
        input_length=table(_read_only(trace.input_length)),
        hash_start=table(_read_only(trace.hash_start)),
        blocks=table(_read_only(trace.blocks)),
        shape=shape,
        policy=_policy(scenario, router, replication),
        requests=table(requests),
        transfers=table(_transfers(trace, specification)),
        times=table(np.full(len(trace) * TIMES_SIZE, np.nan)),
        workers=table(workers),
        pass_end_ms=table(np.append(np.zeros(shape.workers), [np.inf, 0.0])),
        cost=table(np.zeros(shape.workers)),
        slots=table(_empty_slots(shape, slots)),
        copies=table(_copies(workers)),
        entries=table(entries),
        prompt_entries=table(np.full(1 + trace.blocks.max(initial=-1), -1, dtype=np.int64)),
        buckets=table(buckets),
        scratch=table(scratch),
        gap_ms=np.empty(4 * shape.gap_reserve),
        gap_tokens=np.empty(4 * shape.gap_reserve, dtype=np.int32),
    )


def with_more_room(state: State) -> State:
    """The same state with room for twice as much of what is short."""
    if state.scratch[FREE_ENTRIES] < state.shape.entry_reserve:
        return _with_more_entries(state)
    if state.scratch[FREE_SLOTS] < state.shape.slot_reserve + state.scratch[HELD_SLOTS]:
        return _with_more_slots(state)
    return state._replace(
        gap_ms=np.resize(state.gap_ms, 2 * len(state.gap_ms)),
        gap_tokens=np.resize(state.gap_tokens, 2 * len(state.gap_tokens)),
    )


def _with_more_slots(state: State) -> State:
    shape = state.shape
    size = len(state.slots)
    count = size // shape.slot_size
    slots = _empty_slots(shape, 2 * count)
    slots[:size] = state.slots
    new = state._replace(slots=_like(state.slots)(slots))
    new.slots[(2 * count - 1) * shape.slot_size + NEXT] = state.scratch[FREE_SLOT]
    new.scratch[FREE_SLOT] = size
    new.scratch[FREE_SLOTS] += count
    return new


def _with_more_entries(state: State) -> State:
    shape = state.shape
    count = len(state.entries) // shape.entry_size
    entries, buckets, _ = _empty_entries(shape, 2 * count)
    entries[: len(state.entries)] = state.entries
    table = _like(state.entries)
    new = state._replace(entries=table(entries), buckets=table(_filled(buckets, entries, np.array(state.buckets))))
    new.entries[(2 * count - 1) * shape.entry_size + KEY] = state.scratch[FREE_ENTRY]
    new.scratch[FREE_ENTRY] = count * shape.entry_size
    new.scratch[FREE_ENTRIES] += count
    return new


def _filled(empty: NDArray[np.int64], entries: NDArray[np.int64], smaller: NDArray[np.int64]) -> NDArray[np.int64]:
    """A hash table with the entries of a smaller one. In Python's integers: the hash overflows numpy's."""
    buckets = empty.tolist()
    used = smaller[smaller >= 0]
    for entry, key, owner in zip(
        used.tolist(), entries[used + KEY].tolist(), entries[used + OWNER].tolist(), strict=True
    ):
        place = bucket_of(buckets, key, owner)
        while buckets[place] >= 0:
            place = (place + 1) & (len(buckets) - 1)
        buckets[place] = entry
    return np.array(buckets, dtype=np.int64)


def _policy(scenario: Scenario, router: RouterParameters, replication: int) -> Policy:
    """In a disaggregated deployment the first pool's timing is that of prompts, the last one's that of decoding."""
    pools = scenario.specification.pools
    prefill_ms, _, _ = _durations(pools[0].timing, capacity(pools[0]))
    _, decode_ms, least_decode_ms = _durations(pools[-1].timing, capacity(pools[-1]))
    return Policy(
        credit=float(router.overlap_score_credit),
        credit_decay=float(router.overlap_score_credit_decay),
        prefill_scale=float(router.prefill_load_scale),
        request_weight=float(router.decode_active_request_weight),
        temperature=float(router.temperature),
        prefill_ms=prefill_ms,
        decode_ms=decode_ms,
        least_decode_ms=least_decode_ms,
        speedup=float(scenario.speedup),
        seed=CANONICAL_SEED,
        replication=replication,
    )


def _durations(timing: Timing, capacity: int) -> tuple[Polynomial, Polynomial, float]:
    """How long passes take: by new prompt tokens, by the share of the capacity, in tokens, that decodes, at least."""
    match timing:
        case FixedTiming():
            return Polynomial(0.0, 0.0, timing.prefill_ms), Polynomial(0.0, 0.0, timing.decode_ms), 0.0
        case CalibratedTiming():
            prefill = Polynomial(0.0, timing.prefill_ms_per_token, timing.prefill_ms)
            return prefill, Polynomial(0.0, timing.decode_ms_per_token * capacity, timing.decode_ms), 0.0
        case PolynomialTiming():
            return _MOCKER_PREFILL, _MOCKER_DECODE, _MOCKER_LEAST_DECODE_MS


def _transfers(trace: Trace, specification: EngineSpecification) -> NDArray[np.int32]:
    rows = len(trace) if len(specification.pools) > 1 else 0
    transfers = np.zeros((rows, TRANSFER_SIZE), dtype=np.int32)
    transfers[:, [DESTINATION, HELD_SLOT, RESERVED_SLOT, NEXT_STEP]] = -1
    return transfers


def _workers(
    trace: Trace, specification: EngineSpecification, shape: Shape, limits: NDArray[np.int32]
) -> NDArray[np.int64]:
    pools = specification.pools
    workers = np.zeros((shape.workers, shape.worker_size), dtype=np.int64)
    workers[:, list(_EMPTY_LISTS)] = -1
    workers[:, WHEEL:] = -1
    first = 0
    for pool, role in zip(pools, (PREFILL, DECODE) if len(pools) > 1 else (AGGREGATED,), strict=True):
        mine = workers[first : first + pool.replicas]
        mine[:, ROLE] = role
        mine[:, BLOCKS] = pool.blocks
        mine[:, SEQUENCES] = most_running(trace, pool)
        mine[:, BATCHED_TOKENS] = pool.max_batched_tokens
        mine[:, PREFIX_CACHING] = pool.prefix_caching
        mine[:, SPARE_COPIES] = most_copies(trace, limits, pool)
        first += pool.replicas
    ends = np.cumsum(workers[:, SPARE_COPIES])
    workers[:, FREE_COPY] = (ends - workers[:, SPARE_COPIES]) * COPY_SIZE
    return workers


def _empty_slots(shape: Shape, count: int) -> NDArray[np.int64]:
    """So many free slots, the first at 0."""
    slots = np.full((count, shape.slot_size), -1, dtype=np.int64)
    slots[:, NEXT] = _linked(count, shape.slot_size)
    return slots.ravel()


def _copies(workers: NDArray[np.int64]) -> NDArray[np.int64]:
    ends = np.cumsum(workers[:, SPARE_COPIES])
    copies = np.full((ends[-1], COPY_SIZE), -1, dtype=np.int64)
    copies[:, NEWER] = _linked(len(copies), COPY_SIZE)
    copies[ends - 1, NEWER] = -1
    return copies


def _empty_entries(shape: Shape, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """So many free entries, the first at 0, and a hash table at least twice as large."""
    entries = np.zeros((count, shape.entry_size), dtype=np.int64)
    entries[:, KEY] = _linked(count, shape.entry_size)
    return entries.ravel(), np.full(1 << (2 * count - 1).bit_length(), -1, dtype=np.int64), count


def _linked(length: int, size: int) -> NDArray[np.int64]:
    """For each of so many records: the address of the next, -1 for the last."""
    following = (np.arange(length) + 1) * size
    following[-1] = -1
    return following


def _like(values: Any) -> Callable[[NDArray[Any]], Any]:
    """What makes tables of the same kind."""
    return _array if isinstance(values, np.ndarray) else _list


def _read_only(column: NDArray[Any]) -> NDArray[Any]:
    """The column as one that cannot be written: to compiled code that is another type, and there is to be but one."""
    view = column.view()
    view.flags.writeable = False
    return view


def _array(values: NDArray[Any]) -> Any:
    return values.reshape(-1)


def _list(values: NDArray[Any]) -> Any:
    return values.reshape(-1).tolist()
