"""One copy of a trace for all processes of this machine: an anonymous file in memory.

Nothing is left behind when processes die: the kernel frees the memory with its last user.
"""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import DTypeLike, NDArray

from dgdr_retune.replay._errors import TraceError
from dgdr_retune.replay._trace import Trace


@frozen
class TraceHandle:
    """Where another process of the same user finds a shared trace, for as long as `share` holds it open."""

    process: int
    descriptor: int
    block_size: int
    rows: int
    blocks: int


@contextmanager
def share(trace: Trace) -> Iterator[TraceHandle]:
    """Hold a trace in shared memory; yields a small picklable handle for `attach`.

    Processes that have attached by the end keep their view of it.
    """
    columns: tuple[NDArray[Any], ...] = (
        trace.arrival_ms,
        trace.hash_start,
        trace.hashes,
        trace.input_length,
        trace.output_length,
        trace.blocks,
    )
    descriptor = os.memfd_create("dgdr-retune-trace", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            for column in columns:
                file.write(np.ascontiguousarray(column).data)
        yield TraceHandle(
            process=os.getpid(),
            descriptor=descriptor,
            block_size=trace.block_size,
            rows=len(trace),
            blocks=len(trace.hashes),
        )
    finally:
        os.close(descriptor)


def attach(handle: TraceHandle) -> Trace:
    """The trace behind a handle, without a copy.

    Raises:
        TraceError: nothing is shared there any more.
    """
    try:
        descriptor = os.open(f"/proc/{handle.process}/fd/{handle.descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise TraceError(f"the shared trace is gone ({error}): attach before its owner ends") from error
    try:
        columns = _Columns(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    finally:
        os.close(descriptor)
    return Trace(
        block_size=handle.block_size,
        arrival_ms=columns.take(np.int64, handle.rows),
        hash_start=columns.take(np.int64, handle.rows + 1),
        hashes=columns.take(np.uint64, handle.blocks),
        input_length=columns.take(np.int32, handle.rows),
        output_length=columns.take(np.int32, handle.rows),
        blocks=columns.take(np.int32, handle.blocks),
    )


class _Columns:
    """Arrays that stand one behind the other in a mapping, which lives as long as any of them."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self._offset = 0

    def take(self, dtype: DTypeLike, count: int) -> NDArray[Any]:
        column = np.frombuffer(self._mapping, dtype=dtype, count=count, offset=self._offset)
        self._offset += column.nbytes
        return column
