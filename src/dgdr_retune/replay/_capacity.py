"""How many blocks a worker caches, from the cached tokens that a window's rows record.

Every prompt is put through a least-recently-used list of its worker's blocks. A cache of n blocks holds the first n of
such a list, so one pass tells the cached tokens for every size at once (R. Mattson et al., "Evaluation techniques for
storage hierarchies", 1970).
"""

import numpy as np
from numpy.typing import NDArray

from dgdr_retune.replay._recorded import Recorded, by_worker
from dgdr_retune.replay._trace import Trace

Rows = NDArray[np.intp]

MOST_BLOCKS = 500_000
"""Of prompts that are looked at, from the first on: a few seconds' work."""


def cached_blocks(trace: Trace, recorded: Recorded, rows: Rows) -> int | None:
    """The size of a cache that tells the recorded cached tokens best, the smallest of equals.

    None where none tells them twice as well as one that evicts nothing, and one that holds nothing.
    """
    served = rows[np.argsort(trace.arrival_ms[rows] + recorded.wait_ms[rows], kind="stable")]
    blocks = trace.hash_start[served + 1] - trace.hash_start[served]
    served = served[: np.searchsorted(np.cumsum(blocks), MOST_BLOCKS, "right")]
    steps = [_steps(trace, recorded, served[own]) for own in by_worker(recorded, served)]
    sizes, changes = np.concatenate(steps).T
    if not len(sizes):
        return None
    order = np.argsort(sizes, kind="stable")
    sizes = sizes[order]
    none_cached = int((recorded.cached_tokens[served] // trace.block_size).sum())
    each = np.append(sizes[1:] != sizes[:-1], True)
    sizes, errors = sizes[each], (none_cached + np.cumsum(changes[order]))[each]
    best = int(np.argmin(errors))
    return int(sizes[best]) if 2 * errors[best] < min(errors[-1], none_cached) else None


def _steps(trace: Trace, recorded: Recorded, served: Rows) -> NDArray[np.int64]:
    """What larger caches change, for the requests of one worker: int64[steps, 2].

    Each step is a size from which on one more block of a prompt is held, and what that changes of the error, which
    counts the blocks that are held but were not recorded, or the other way round.
    """
    steps: list[tuple[int, int]] = []
    places = int((trace.hash_start[served + 1] - trace.hash_start[served]).sum()) + len(served)
    used = _Used(places)
    newest: dict[int, int] = {}
    place = 0
    for row in served.tolist():
        start, length = int(trace.hash_start[row]), int(trace.input_length[row])
        blocks = trace.blocks[start : start + length // trace.block_size].tolist()
        recorded_blocks = int(recorded.cached_tokens[row]) // trace.block_size
        needed = 0
        for number, block in enumerate(blocks):
            if block not in newest:
                break
            needed = max(needed, used.since(newest[block]))
            steps.append((needed, -1 if number < recorded_blocks else 1))
        for block in blocks:
            if block in newest:
                used.add(newest[block], -1)
            place += 1
            newest[block] = place
            used.add(place, 1)
        place += 1
        used.add(place, (length + int(trace.output_length[row])) // trace.block_size - len(blocks))
    return np.array(steps, dtype=np.int64).reshape(-1, 2)


class _Used:
    """Blocks by when they were last used, places 1 to n: sums in a binary indexed tree."""

    def __init__(self, places: int) -> None:
        self._tree = [0] * (places + 1)
        self._total = 0

    def add(self, place: int, blocks: int) -> None:
        self._total += blocks
        while place < len(self._tree):
            self._tree[place] += blocks
            place += place & -place

    def since(self, place: int) -> int:
        """Blocks that were last used at this place or later."""
        before = 0
        place -= 1
        while place > 0:
            before += self._tree[place]
            place &= place - 1
        return self._total - before
