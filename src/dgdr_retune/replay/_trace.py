"""A window's requests as columns."""

import numpy as np
from attrs import frozen
from numpy.typing import NDArray


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
            and everything before it.
    """

    block_size: int
    arrival_ms: NDArray[np.int64]
    input_length: NDArray[np.int32]
    output_length: NDArray[np.int32]
    hash_start: NDArray[np.int64]
    hashes: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.arrival_ms)
