"""Runs the hot loop over a window: lays out its state, gives it more room when it asks, and hands out what it logged."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.replay._engine import RouterParameters, Scenario
from dgdr_retune.replay._simulation._blocks import bucket_of
from dgdr_retune.replay._simulation._compile import COMPILED, kernel_entry, sources_digest
from dgdr_retune.replay._simulation._loop import DONE, run
from dgdr_retune.replay._simulation._random import CANONICAL_SEED
from dgdr_retune.replay._simulation._state import (
    ACCOUNTS,
    ADMISSIONS,
    COMMITTED_PREFILL,
    COUNTERS,
    GAPS,
    MASK_BITS,
    Entries,
    Log,
    Pool,
    Requests,
    Router,
    Rows,
    Setup,
    Slots,
    State,
    Work,
    Workers,
)
from dgdr_retune.replay._specification import FixedTiming
from dgdr_retune.replay._trace import Trace


@frozen(eq=False)
class Outcome:
    """What a replay did, by row: float64 milliseconds since the first arrival, NaN where there was no such token.

    Attributes:
        arrival_ms, first_token_ms, second_token_ms, last_token_ms: times of each request.
        terminal_ms: its end, NaN if the worker refused it.
        worker: where the router sent it.
        output_length: tokens that it generated.
        reused_first, reused_most: tokens found cached at its first admission, and at the best of all.
        gap_ms, gap_tokens: gaps between consecutive tokens of a request, and how many tokens had each.
        committed_prefill_tokens: prompt tokens computed, those computed again after a preemption included.
        admissions: requests admitted, again after a preemption included.
    """

    arrival_ms: NDArray[np.float64]
    first_token_ms: NDArray[np.float64]
    second_token_ms: NDArray[np.float64]
    last_token_ms: NDArray[np.float64]
    terminal_ms: NDArray[np.float64]
    worker: NDArray[np.int64]
    output_length: NDArray[np.int64]
    reused_first: NDArray[np.int64]
    reused_most: NDArray[np.int64]
    gap_ms: NDArray[np.float64]
    gap_tokens: NDArray[np.int64]
    committed_prefill_tokens: int
    admissions: int


def simulate(trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Outcome:
    """Replay a window on the built-in simulator; equal arguments give equal numbers, bit for bit."""
    state = initial_state(trace, scenario, router, replication)
    while _run(state) != DONE:
        state = with_more_entries(state)
    return outcome(state)


def _build_run(sources: int) -> Callable[[State], int]:
    @kernel_entry
    def run_compiled(state: State) -> int:
        return run(state) if sources >= 0 else sources

    return run_compiled


_run = _build_run(sources_digest() if COMPILED else 0)


def initial_state(trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> State:
    """The state before the first arrival."""
    worker = scenario.specification.aggregated
    rows = len(trace)
    block_size = worker.block_size
    arrival_ms = (trace.arrival_ms - trace.arrival_ms[0]) / scenario.speedup
    output_length = _effective_output(trace, worker.blocks, block_size)
    longest = int((trace.input_length + np.maximum(output_length, 0)).max(initial=1))
    depth_limit = -(-longest // block_size)
    workers = worker.replicas
    words = -(-workers // MASK_BITS)
    copies = workers * worker.blocks
    slots = workers * worker.max_sequences
    reserve = copies + depth_limit
    timing = worker.timing
    setup = Setup(
        workers=workers,
        words=words,
        blocks=worker.blocks,
        block_size=block_size,
        max_sequences=worker.max_sequences,
        max_batched_tokens=worker.max_batched_tokens,
        prefix_caching=worker.prefix_caching,
        depth_limit=depth_limit,
        entry_reserve=reserve,
        polynomial=not isinstance(timing, FixedTiming),
        fixed_prefill_ms=timing.prefill_ms if isinstance(timing, FixedTiming) else 0.0,
        fixed_decode_ms=timing.decode_ms if isinstance(timing, FixedTiming) else 0.0,
        credit=float(router.overlap_score_credit),
        credit_decay=float(router.overlap_score_credit_decay),
        prefill_scale=float(router.prefill_load_scale),
        request_weight=float(router.decode_active_request_weight),
        temperature=float(router.temperature),
        seed=CANONICAL_SEED,
        replication=replication,
    )
    gaps = int(np.maximum(output_length, 0).sum()) + 1
    return State(
        setup=setup,
        rows=Rows(
            arrival_ms=_floats(arrival_ms),
            input_length=_integers(trace.input_length),
            output_length=_integers(output_length),
            hash_start=_integers(trace.hash_start),
            hashes=_integers(trace.hashes.view(np.int64)),
        ),
        requests=Requests(
            worker=_filled(rows, -1),
            generated=_filled(rows, 0),
            tracked_prefill=_filled(rows, 0),
            admissions=_filled(rows, 0),
            following=_filled(rows, -1),
            first_token_ms=np.full(rows, np.nan),
            second_token_ms=np.full(rows, np.nan),
            last_token_ms=np.full(rows, np.nan),
            terminal_ms=np.full(rows, np.nan),
            reused_first=_filled(rows, 0),
            reused_most=_filled(rows, 0),
        ),
        entries=_empty_entries(4 * reserve, workers, words),
        pool=Pool(
            references=_filled(copies, 0),
            entry=_filled(copies, -1),
            next_duplicate=_filled(copies, -1),
            older=_filled(copies, -1),
            newer=_filled(copies, -1),
            free=_integers(np.arange(copies)[::-1].reshape(workers, -1)[::-1].ravel()),
            free_count=_filled(workers, worker.blocks),
            oldest=_filled(workers, -1),
            newest=_filled(workers, -1),
            inactive_count=_filled(workers, 0),
            changes=_filled(2 * copies, -1),
            change_count=_filled(workers, 0),
        ),
        slots=Slots(
            **{
                name: _filled(slots, -1)
                for name in Slots._fields
                if name not in ("blocks", "free")
            },
            blocks=_filled(slots * depth_limit, -1),
            free=_integers(np.arange(slots)),
        ),
        workers=Workers(
            busy=_filled(workers, 0),
            pass_end_ms=_floats(np.zeros(workers)),
            waiting_first=_filled(workers, -1),
            waiting_last=_filled(workers, -1),
            running_first=_filled(workers, -1),
            running_last=_filled(workers, -1),
            running_count=_filled(workers, 0),
            free_slots=_filled(workers, worker.max_sequences),
            prefilling=_filled(workers, -1),
            decoding=_filled(workers, 0),
            context_tokens=_filled(workers, 0),
            tick=_filled(workers, 0),
            wheel=_filled(workers * (block_size + 1), -1),
            emerging=_filled(workers, -1),
            finished=_filled(workers, -1),
        ),
        work=Work(
            due=_filled(worker.max_sequences, -1),
            completing=_filled(worker.max_sequences, -1),
            hits=_filled(depth_limit, -1),
            account=_filled(ACCOUNTS, 0),
        ),
        router=Router(
            active_blocks=_filled(workers, 0),
            prefill_tokens=_filled(workers, 0),
            active_requests=_filled(workers, 0),
            overlap=_filled(workers, 0),
            active_overlap=_filled(workers, 0),
            cost=_floats(np.zeros(workers)),
            chain=_filled(depth_limit, -1),
        ),
        log=Log(
            gap_ms=np.empty(gaps),
            gap_tokens=np.empty(gaps, dtype=np.int64),
            counters=_filled(COUNTERS, 0),
        ),
    )


def with_more_entries(state: State) -> State:
    """The same state with room for twice as many block identities."""
    setup = state.setup
    old = state.entries
    size = len(old.key)
    new = _empty_entries(2 * size, setup.workers, setup.words)
    for name in ("key", "owner", "users", "holder_mask", "active_mask", "first_copy", "active_count", "changed"):
        values = getattr(old, name)
        getattr(new, name)[: len(values)] = values
    new.free[size : size + old.count[0]] = old.free[: old.count[0]]
    new.count[0] = size + old.count[0]
    for place in range(len(old.bucket)):
        entry = old.bucket[place]
        if entry < 0:
            continue
        mask = len(new.bucket) - 1
        home = bucket_of(new, old.key[entry], old.owner[entry])
        while new.bucket[home] >= 0:
            home = (home + 1) & mask
        new.bucket[home] = entry
    return state._replace(entries=new)


def outcome(state: State) -> Outcome:
    """What a finished replay has logged."""
    gaps = state.log.counters[GAPS]
    requests = state.requests
    return Outcome(
        arrival_ms=np.asarray(state.rows.arrival_ms),
        first_token_ms=requests.first_token_ms,
        second_token_ms=requests.second_token_ms,
        last_token_ms=requests.last_token_ms,
        terminal_ms=requests.terminal_ms,
        worker=np.asarray(requests.worker),
        output_length=np.asarray(requests.generated),
        reused_first=np.asarray(requests.reused_first),
        reused_most=np.asarray(requests.reused_most),
        gap_ms=state.log.gap_ms[:gaps],
        gap_tokens=state.log.gap_tokens[:gaps],
        committed_prefill_tokens=int(state.log.counters[COMMITTED_PREFILL]),
        admissions=int(state.log.counters[ADMISSIONS]),
    )


def _effective_output(trace: Trace, blocks: int, block_size: int) -> NDArray[np.int64]:
    """Tokens that each request can generate before a worker's KV cache is full; -1 if its prompt does not fit."""
    capacity = blocks * block_size
    prompt = trace.input_length.astype(np.int64)
    return np.where(prompt > capacity, -1, np.minimum(trace.output_length, capacity + 1 - prompt))


def _empty_entries(size: int, workers: int, words: int) -> Entries:
    return Entries(
        bucket=_filled(1 << (2 * size - 1).bit_length(), -1),
        key=_filled(size, 0),
        owner=_filled(size, 0),
        users=_filled(size, 0),
        free=_integers(np.arange(size)[::-1]),
        count=_filled(1, size),
        holder_mask=_filled(size * words, 0),
        active_mask=_filled(size * words, 0),
        first_copy=_filled(size * workers, -1),
        active_count=_filled(size * workers, 0),
        changed=_filled(size * workers, 0),
    )


def _filled(size: int, value: int) -> Any:
    return np.full(size, value, dtype=np.int64) if COMPILED else [value] * size


def _integers(values: NDArray[Any]) -> Any:
    array = np.ascontiguousarray(values, dtype=np.int64)
    return array if COMPILED else array.tolist()


def _floats(values: NDArray[np.float64]) -> Any:
    return np.ascontiguousarray(values) if COMPILED else values.tolist()
