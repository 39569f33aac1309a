"""How large the simulator's tables are for a window."""

import numpy as np
from numpy.typing import NDArray

from dgdr_retune.replay._simulation._state import COPIES, COUNTERS, HOLDING_SIZE, MASK_BITS, MASKS, WHEEL, Shape
from dgdr_retune.replay._specification import EngineSpecification, WorkerSpecification
from dgdr_retune.replay._trace import Trace


def output_limits(trace: Trace, specification: EngineSpecification) -> NDArray[np.int32]:
    """Tokens that each request ends with, -1 for one that its first worker refuses.

    A request ends at the context length, like in vLLM. It also ends when it alone fills its worker's KV cache (the
    native engine fails then), and is refused when its prompt does not fit.
    """
    pools = specification.pools
    prompt = trace.input_length.astype(np.int64)
    limits = np.minimum(trace.output_length, capacity(pools[-1]) + 1 - prompt)
    limits = np.where(prompt > capacity(pools[-1]), np.minimum(trace.output_length, 1), limits)
    refused = prompt > capacity(pools[0])
    if specification.context_length is not None:
        limits = np.minimum(limits, specification.context_length - prompt)
        refused |= prompt >= specification.context_length
    return np.where(refused, -1, limits).astype(np.int32)


def shape_of(trace: Trace, specification: EngineSpecification, limits: NDArray[np.int32]) -> Shape:
    """The sizes of all tables, and where things stand in them."""
    pools = specification.pools
    block_size = pools[0].block_size
    workers = sum(pool.replicas for pool in pools)
    words = -(-pools[0].replicas // MASK_BITS)
    holdings = MASKS + 2 * words
    depths = int(_most_blocks(trace, limits, block_size).max())
    sequences = [most_running(trace, pool) for pool in pools]
    wheel = 1 + max(1, min(block_size, int(limits.max())))
    running = sum(pool.replicas * most for pool, most in zip(pools, sequences, strict=True))
    return Shape(
        rows=len(trace),
        workers=workers,
        arrival_workers=pools[0].replicas,
        words=words,
        block_size=block_size,
        decode_tokens=capacity(pools[-1]),
        entry_reserve=sum(pool.replicas * most_copies(trace, limits, pool) for pool in pools) + depths,
        gap_reserve=running + workers,
        slot_reserve=running if len(pools) > 1 else 0,
        worker_size=WHEEL + wheel,
        wheel_size=wheel,
        slot_size=COPIES + depths,
        entry_size=holdings + workers * HOLDING_SIZE,
        holdings=holdings,
        due=COUNTERS,
        completing=COUNTERS + max(sequences),
        chain=COUNTERS + 2 * max(sequences),
    )


def capacity(pool: WorkerSpecification) -> int:
    """Tokens that a worker's KV cache holds."""
    return pool.blocks * pool.block_size


def most_running(trace: Trace, pool: WorkerSpecification) -> int:
    """The most requests that can run on a worker at a time."""
    return min(pool.max_sequences, len(trace))


def _most_blocks(trace: Trace, limits: NDArray[np.int32], block_size: int) -> NDArray[np.int64]:
    """The most blocks that each request can hold."""
    tokens = trace.input_length.astype(np.int64) + np.maximum(limits, 0)
    return -(-tokens // block_size)


def most_copies(trace: Trace, limits: NDArray[np.int32], pool: WorkerSpecification) -> int:
    """The blocks of a worker that need a record: no more than the whole window could fill."""
    return min(pool.blocks, int(_most_blocks(trace, limits, pool.block_size).sum()))
