"""A published window as a trace."""

import os

from dgdr_retune.replay._errors import TraceError
from dgdr_retune.replay._trace import Trace, trace_of
from dgdr_retune.windows import Row, load_window


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """The requests of a window, checked as a whole, in replay order: (start, end, request id).

    A window that this project did not cut may have its rows in any order; it is then sorted in memory.

    Raises:
        TraceError: it has no request, or requests that cannot be replayed together.
        WindowCorruptError: it is not what it says, or has a row that is not valid.
        OSError: as the system says.
    """
    window = load_window(path)
    try:
        rows = window.rows()
        if window.header.sha256 is None:
            rows = iter(sorted(rows, key=replay_order))
        return trace_of(rows)
    except OverflowError as error:
        raise TraceError(f"a row has a time or length beyond any that can be replayed: {error}") from error


def replay_order(row: Row) -> tuple[int, int, str]:
    """What rows are sorted by."""
    return row.received_ms, row.end_ms, row.request_id
