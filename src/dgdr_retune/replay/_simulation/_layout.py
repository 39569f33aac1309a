"""Lays out the simulator's state before the first arrival, and again with more room."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dgdr_retune.replay._engine import RouterParameters, Scenario
from dgdr_retune.replay._simulation._blocks import bucket_of
from dgdr_retune.replay._simulation._random import CANONICAL_SEED
from dgdr_retune.replay._simulation._state import (
    CHANGED_ENTRY,
    COPIES,
    COPY_SIZE,
    COUNTERS,
    EMERGING,
    FINISHED,
    FOLLOWING,
    FREE_COPY,
    FREE_ENTRIES,
    FREE_ENTRY,
    FREE_SLOT,
    HOLDING_SIZE,
    KEY,
    LIMIT,
    MASK_BITS,
    MASKS,
    NEWER,
    NEWEST_COPY,
    NEXT,
    OLDEST_COPY,
    OWNER,
    PREFILLING,
    REQUEST_SIZE,
    REUSED_FIRST,
    RUNNING_FIRST,
    RUNNING_LAST,
    SPARE_COPIES,
    TIMES_SIZE,
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
)


def initial_state(
    trace: Trace, scenario: Scenario, router: RouterParameters, replication: int, *, arrays: bool
) -> State:
    """The state before the first arrival of a window of at least one request; its tables as arrays, or as lists."""
    table = _array if arrays else _list
    specification = scenario.specification
    limits = output_limits(trace, specification)
    shape = _shape(trace, specification, limits)
    entries, buckets, free_entries = _empty_entries(shape, 4 * shape.entry_reserve)
    requests = np.zeros((len(trace), REQUEST_SIZE), dtype=np.int32)
    requests[:, [FOLLOWING, WORKER, REUSED_FIRST]] = -1
    requests[:, LIMIT] = limits
    scratch = np.zeros(shape.chain + shape.slot_size, dtype=np.int64)
    scratch[FREE_ENTRIES] = free_entries
    return State(
        arrival_ms=table(_read_only(trace.arrival_ms)),
        input_length=table(_read_only(trace.input_length)),
        hash_start=table(_read_only(trace.hash_start)),
        blocks=table(_read_only(trace.blocks)),
        shape=shape,
        policy=_policy(scenario, router, replication),
        requests=table(requests),
        times=table(np.full(len(trace) * TIMES_SIZE, np.nan)),
        workers=table(_workers(shape)),
        pass_end_ms=table(np.zeros(shape.workers)),
        cost=table(np.zeros(shape.workers)),
        slots=table(_slots(shape)),
        copies=table(_copies(shape)),
        entries=table(entries),
        prompt_entries=table(np.full(1 + trace.blocks.max(initial=-1), -1, dtype=np.int64)),
        buckets=table(buckets),
        scratch=table(scratch),
        gap_ms=np.empty(4 * shape.gap_reserve),
        gap_tokens=np.empty(4 * shape.gap_reserve, dtype=np.int32),
    )


def output_limits(trace: Trace, specification: EngineSpecification) -> NDArray[np.int32]:
    """Tokens that each request ends with, -1 for one that is refused.

    A request ends at the context length, like in vLLM. It also ends when it alone fills its worker's KV cache (the
    native engine fails then), and is refused when its prompt does not fit.
    """
    worker = specification.aggregated
    capacity = worker.blocks * worker.block_size
    prompt = trace.input_length.astype(np.int64)
    limits = np.minimum(trace.output_length, capacity + 1 - prompt)
    refused = prompt > capacity
    if specification.context_length is not None:
        limits = np.minimum(limits, specification.context_length - prompt)
        refused |= prompt >= specification.context_length
    return np.where(refused, -1, limits).astype(np.int32)


def with_more_room(state: State) -> State:
    """The same state with room for twice as much of what is short."""
    if state.scratch[FREE_ENTRIES] < state.shape.entry_reserve:
        return _with_more_entries(state)
    return state._replace(
        gap_ms=np.resize(state.gap_ms, 2 * len(state.gap_ms)),
        gap_tokens=np.resize(state.gap_tokens, 2 * len(state.gap_tokens)),
    )


def _with_more_entries(state: State) -> State:
    shape = state.shape
    count = len(state.entries) // shape.entry_size
    entries, buckets, _ = _empty_entries(shape, 2 * count)
    entries[: len(state.entries)] = state.entries
    table = _array if isinstance(state.entries, np.ndarray) else _list
    new = state._replace(entries=table(entries), buckets=table(buckets))
    new.entries[(2 * count - 1) * shape.entry_size + KEY] = state.scratch[FREE_ENTRY]
    new.scratch[FREE_ENTRY] = count * shape.entry_size
    new.scratch[FREE_ENTRIES] += count
    mask = len(new.buckets) - 1
    for entry in state.buckets:
        if entry < 0:
            continue
        place = bucket_of(new.buckets, new.entries[entry + KEY], new.entries[entry + OWNER])
        while new.buckets[place] >= 0:
            place = (place + 1) & mask
        new.buckets[place] = entry
    return new


def _shape(trace: Trace, specification: EngineSpecification, limits: NDArray[np.int32]) -> Shape:
    worker = specification.aggregated
    words = -(-worker.replicas // MASK_BITS)
    holdings = MASKS + 2 * words
    blocks = -(-(trace.input_length + np.maximum(limits, 0).astype(np.int64)) // worker.block_size)
    depths = int(blocks.max())
    copies = min(worker.blocks, int(blocks.sum()))
    sequences = min(worker.max_sequences, len(trace))
    wheel = 1 + max(1, min(worker.block_size, int(limits.max())))
    return Shape(
        rows=len(trace),
        workers=worker.replicas,
        words=words,
        blocks=worker.blocks,
        copies=copies,
        block_size=worker.block_size,
        max_sequences=sequences,
        max_batched_tokens=worker.max_batched_tokens,
        prefix_caching=worker.prefix_caching,
        entry_reserve=worker.replicas * copies + depths,
        gap_reserve=worker.replicas * (sequences + 1),
        worker_size=WHEEL + wheel,
        wheel_size=wheel,
        slot_size=COPIES + depths,
        entry_size=holdings + worker.replicas * HOLDING_SIZE,
        holdings=holdings,
        due=COUNTERS,
        completing=COUNTERS + sequences,
        chain=COUNTERS + 2 * sequences,
    )


def _policy(scenario: Scenario, router: RouterParameters, replication: int) -> Policy:
    worker = scenario.specification.aggregated
    return Policy(
        credit=float(router.overlap_score_credit),
        credit_decay=float(router.overlap_score_credit_decay),
        prefill_scale=float(router.prefill_load_scale),
        request_weight=float(router.decode_active_request_weight),
        temperature=float(router.temperature),
        **_durations(worker.timing, worker.blocks * worker.block_size),
        speedup=float(scenario.speedup),
        seed=CANONICAL_SEED,
        replication=replication,
    )


def _durations(timing: Timing, capacity: int) -> dict[str, Any]:
    """How long passes take: by new prompt tokens, and by the share of the capacity, in tokens, that decodes."""
    match timing:
        case FixedTiming():
            prefill, decode = Polynomial(0.0, 0.0, timing.prefill_ms), Polynomial(0.0, 0.0, timing.decode_ms)
            return {"prefill_ms": prefill, "decode_ms": decode, "least_decode_ms": 0.0}
        case CalibratedTiming():
            prefill = Polynomial(0.0, timing.prefill_ms_per_token, timing.prefill_ms)
            decode = Polynomial(0.0, timing.decode_ms_per_token * capacity, timing.decode_ms)
            return {"prefill_ms": prefill, "decode_ms": decode, "least_decode_ms": 0.0}
        case PolynomialTiming():
            return {
                "prefill_ms": _MOCKER_PREFILL,
                "decode_ms": _MOCKER_DECODE,
                "least_decode_ms": _MOCKER_LEAST_DECODE_MS,
            }


def _workers(shape: Shape) -> NDArray[np.int64]:
    workers = np.zeros((shape.workers, shape.worker_size), dtype=np.int64)
    workers[:, list(_EMPTY_LISTS)] = -1
    workers[:, WHEEL:] = -1
    workers[:, FREE_SLOT] = np.arange(shape.workers) * shape.max_sequences * shape.slot_size
    workers[:, FREE_COPY] = np.arange(shape.workers) * shape.copies * COPY_SIZE
    workers[:, SPARE_COPIES] = shape.copies
    return workers


def _slots(shape: Shape) -> NDArray[np.int64]:
    slots = np.full((shape.workers, shape.max_sequences, shape.slot_size), -1, dtype=np.int64)
    slots[:, :, NEXT] = _linked(shape.workers, shape.max_sequences, shape.slot_size)
    return slots


def _copies(shape: Shape) -> NDArray[np.int64]:
    copies = np.full((shape.workers, shape.copies, COPY_SIZE), -1, dtype=np.int64)
    copies[:, :, NEWER] = _linked(shape.workers, shape.copies, COPY_SIZE)
    return copies


def _empty_entries(shape: Shape, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """So many free entries, the first at 0, and a hash table at least twice as large."""
    entries = np.zeros((count, shape.entry_size), dtype=np.int64)
    entries[:, KEY] = _linked(1, count, shape.entry_size)
    return entries.ravel(), np.full(1 << (2 * count - 1).bit_length(), -1, dtype=np.int64), count


def _linked(lists: int, length: int, size: int) -> NDArray[np.int64]:
    """For records of `lists` groups: the address of the next in the group, -1 for the last."""
    following = (np.arange(lists * length) + 1).reshape(lists, length) * size
    following[:, -1] = -1
    return following


def _read_only(column: NDArray[Any]) -> NDArray[Any]:
    """The column as one that cannot be written: to compiled code that is another type, and there is to be but one."""
    view = column.view()
    view.flags.writeable = False
    return view


def _array(values: NDArray[Any]) -> Any:
    return values.reshape(-1)


def _list(values: NDArray[Any]) -> Any:
    return values.reshape(-1).tolist()
