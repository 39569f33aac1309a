"""A window's requests as columns."""

from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from attrs import Factory, field, frozen
from numpy.typing import NDArray

from dgdr_retune.replay._errors import TraceError


def _numbered(trace: "Trace") -> NDArray[np.int32]:
    """Equal numbers for equal hashes, from 0 in order of first appearance.

    By sorting: whoever writes the rows chooses the hashes, and could choose them to collide in a hash table.
    """
    order = np.argsort(trace.hashes)
    ascending = trace.hashes[order]
    starts = np.concatenate(([0], 1 + np.flatnonzero(ascending[1:] != ascending[:-1]))) if len(order) else order
    del ascending  # millions of hashes
    numbers = np.empty(len(starts), dtype=np.int32)
    numbers[np.argsort(np.minimum.reduceat(order, starts))] = np.arange(len(starts), dtype=np.int32)
    blocks = np.empty(len(order), dtype=np.int32)
    blocks[order] = np.repeat(numbers, np.diff(starts, append=len(order)))
    blocks.flags.writeable = False
    return blocks


@frozen(eq=False)
class Trace:
    """The requests of one window, in the file's order: by (start, end, request id).

    n requests; request i has ordinal i + 1. Read-only arrays, shared by every candidate and process.

    Attributes:
        block_size: tokens per KV block.
        arrival_ms: int64[n], unix milliseconds.
        input_length: int32[n], prompt tokens.
        output_length: int32[n], generated tokens.
        hash_start: int64[n + 1]; the hashes of request i are `hashes[hash_start[i]:hash_start[i + 1]]`.
        hashes: uint64[sum of blocks], one per prompt block, the last partial one included; each hash covers its block
            and everything before it. Their values are the writer's choice: nothing may depend on how they spread.
        blocks: int32[sum of blocks], the hashes as small numbers, equal where they are equal, from 0 in order of first
            appearance. Derived from them when left out.
    """

    block_size: int
    arrival_ms: NDArray[np.int64]
    input_length: NDArray[np.int32]
    output_length: NDArray[np.int32]
    hash_start: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    blocks: NDArray[np.int32] = field(default=Factory(_numbered, takes_self=True))

    def __len__(self) -> int:
        return len(self.arrival_ms)


class RowLike(Protocol):
    """What a trace takes from a row of a window."""

    @property
    def received_ms(self) -> int:
        """Arrival, unix milliseconds."""
        ...

    @property
    def block_size(self) -> int:
        """Tokens per KV block."""
        ...

    @property
    def input_length(self) -> int:
        """Prompt tokens."""
        ...

    @property
    def output_tokens(self) -> int:
        """Generated tokens."""
        ...

    @property
    def hashes(self) -> list[int]:
        """One per prompt block."""
        ...


def trace_of(rows: Iterable[RowLike]) -> Trace:
    """The columns of valid rows in replay order.

    Raises:
        TraceError: there is no row, the rows differ in block size, or are not in order of arrival.
    """
    arrival_ms = array("q")
    input_length = array("i")
    output_length = array("i")
    hash_start = array("q", [0])
    hashes = array("Q")
    block_sizes = set()
    for row in rows:
        if arrival_ms and row.received_ms < arrival_ms[-1]:
            raise TraceError(
                f"row {len(arrival_ms) + 1} arrives before the row above it: sort the window, or cut it again"
            )
        arrival_ms.append(row.received_ms)
        input_length.append(row.input_length)
        output_length.append(row.output_tokens)
        hashes.extend(row.hashes)
        hash_start.append(len(hashes))
        block_sizes.add(row.block_size)
    if not arrival_ms:
        raise TraceError("the window has no request: wait for traffic, or choose another window")
    if len(block_sizes) > 1:
        raise TraceError(f"the window mixes KV block sizes {sorted(block_sizes)}: cut one model's frontends at a time")
    return Trace(
        block_size=block_sizes.pop(),
        arrival_ms=_column(arrival_ms, np.int64),
        input_length=_column(input_length, np.int32),
        output_length=_column(output_length, np.int32),
        hash_start=_column(hash_start, np.int64),
        hashes=_column(hashes, np.uint64),
    )


def row_hashes(trace: Trace) -> Iterator[list[int]]:
    """The hashes of each request."""
    bounds = trace.hash_start.tolist()
    for start, end in pairwise(bounds):
        yield trace.hashes[start:end].tolist()


def _column(values: "array[Any]", dtype: type[np.generic]) -> NDArray[Any]:
    column = np.frombuffer(values, dtype=dtype)
    column.flags.writeable = False
    return column
