"""The trace that is replayed: first whether it is a file at all, then what is in it."""

import os
import stat
from collections.abc import Mapping
from functools import partial
from typing import Final

from dgdr_retune.replay import Trace, TraceError, load_trace, trace_of
from dgdr_retune.sweeper._errors import TraceUnusableError
from dgdr_retune.sweeper._input import Json
from dgdr_retune.windows import Row, WindowError, decode_rows

_LONGEST_LINE: Final = 32 << 20
"""Bytes that are read of a line: more than a row may have, so that it is refused and not held in memory."""

_SUB_PATH: Final = "spec.workload.trace.source.persistentVolumeClaim.subPath"


def trace_paths(document: Mapping[str, Json]) -> list[str]:
    """The traces that an input names, whatever else is wrong with it; none for synthetic traffic."""
    match document:
        case {"traffic": {"source": {"type": "trace", "paths": [*paths]}}}:
            return [path for path in paths if isinstance(path, str)]
    return []


def check_trace(path: str) -> None:
    """Refuse what is no regular, non-empty, readable file: a claim without the file mounts an empty directory.

    Errors: `TraceUnusableError`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise _unusable(path, "it may not be read; give it mode 0644") from error
    except (OSError, ValueError) as error:
        raise _unusable(path, f"{getattr(error, 'strerror', None) or error}; check {_SUB_PATH}") from error
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise _unusable(path, f"it is a directory, which is what a missing file is mounted as; check {_SUB_PATH}")
    if not stat.S_ISREG(status.st_mode):
        raise _unusable(path, f"it is no regular file; check {_SUB_PATH}")
    if status.st_size == 0:
        raise _unusable(path, "it is empty; record traffic, or choose another window")


def read_trace(path: str) -> Trace:
    """The requests of a trace; as AISimulate has it, a name that ends with `.gz` says that it is compressed.

    Errors: `TraceUnusableError`.
    """
    try:
        return load_trace(path) if path.endswith(".gz") else _plain(path)
    except (WindowError, TraceError) as error:
        raise _unusable(path, str(error)) from error
    except OSError as error:
        raise _unusable(path, f"it cannot be read: {error.strerror}") from error


def _plain(path: str) -> Trace:
    """Rows that nobody compressed, in any order."""
    with open(path, "rb") as lines:  # noqa: PTH123 -- a path as AISimulate was given it
        bounded = iter(partial(lines.readline, _LONGEST_LINE), b"")
        rows = sorted(decode_rows(bounded), key=_replay_order)
    if any(row.agent for row in rows):
        raise TraceError("a row belongs to an agent's session; such traffic is not replayed")
    ids = {row.request_id for row in rows}
    if len(ids) != len(rows):
        raise TraceError(f"{len(rows)} rows have {len(ids)} request ids; remove what stands twice")
    try:
        return trace_of(rows)
    except OverflowError as error:
        raise TraceError(f"a row has a time or length beyond any that can be replayed: {error}") from error


def _replay_order(row: Row) -> tuple[int, int, str]:
    return row.received_ms, row.end_ms, row.request_id


def _unusable(path: str, what: str) -> TraceUnusableError:
    what = what.removeprefix(f"{path}: ")
    return TraceUnusableError(f"the trace {ascii(path)[1:-1]} cannot be replayed: {what}")
