"""What the rows of a window say of how their requests were served, as columns beside a trace."""

import os
from math import isfinite, nan

import msgspec
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.windows import load_window

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

_ABSENT = -1


class _Worker(msgspec.Struct):
    prefill_worker_id: int = _ABSENT
    prefill_dp_rank: int = 0
    decode_worker_id: int = _ABSENT
    decode_dp_rank: int = 0


class _Request(msgspec.Struct):
    cached_tokens: int = _ABSENT
    prefill_wait_time_ms: float = nan
    prefill_time_ms: float = nan
    ttft_ms: float = nan
    total_time_ms: float = nan
    worker: _Worker = msgspec.field(default_factory=_Worker)


class _Event(msgspec.Struct):
    request: _Request | None = None


class _Line(msgspec.Struct):
    """A row with its envelope, or without."""

    event: _Event | None = None
    request: _Request | None = None


@frozen(eq=False)
class Recorded:
    """How the requests of a window were served, in the order of its trace; n requests.

    Frontends of Dynamo 1.6.1 and later record all of this, older ones nothing.

    Attributes:
        known: bool[n], whether a request has every value below, and one worker for prefill and decode.
        wait_ms: float64[n], from arrival to the start of the prefill, transport included; NaN where it is not recorded.
        prefill_ms: float64[n], from there to the first token.
        ttft_ms: float64[n], from arrival to the first token.
        total_ms: float64[n], from arrival to the end.
        cached_tokens: int64[n], prompt tokens that the worker had in its cache; -1 where it is not recorded.
        worker: int64[n], workers numbered from 0 in order of appearance; -1 where it is not recorded.
    """

    known: NDArray[np.bool_]
    wait_ms: Floats
    prefill_ms: Floats
    ttft_ms: Floats
    total_ms: Floats
    cached_tokens: NDArray[np.int64]
    worker: NDArray[np.int64]


def by_worker(recorded: Recorded, rows: Rows) -> list[Rows]:
    """For each worker of these requests, where its own stand among them, in their order."""
    worker = recorded.worker[rows]
    order = np.argsort(worker, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(worker[order])) + 1)


def load_recorded(path: str | os.PathLike[str]) -> Recorded:
    """The latencies of a window that this project has cut, in the order of `load_trace`.

    Raises:
        WindowCorruptError: it is not what it says.
        OSError: as the system says.
    """
    decoder = msgspec.json.Decoder(_Line)
    workers: dict[tuple[int, int], int] = {}
    columns: list[tuple[float, float, float, float, int, int]] = []
    for line in load_window(path).lines():
        row = decoder.decode(line)
        request = (row.event.request if row.event is not None else row.request) or _Request()
        worker = request.worker
        ran = worker.prefill_worker_id, worker.prefill_dp_rank
        alone = ran == (worker.decode_worker_id, worker.decode_dp_rank) and worker.prefill_worker_id != _ABSENT
        times = (request.prefill_wait_time_ms, request.prefill_time_ms, request.ttft_ms, request.total_time_ms)
        number = workers.setdefault(ran, len(workers)) if alone else _ABSENT
        columns.append((*times, request.cached_tokens, number))
    table = np.array(columns, dtype=np.float64).reshape(-1, 6)
    finite = np.array([all(isfinite(each) and each >= 0 for each in row) for row in columns], dtype=bool)
    return Recorded(
        known=finite & (table[:, 3] >= table[:, 2]),
        wait_ms=table[:, 0],
        prefill_ms=table[:, 1],
        ttft_ms=table[:, 2],
        total_ms=table[:, 3],
        cached_tokens=table[:, 4].astype(np.int64),
        worker=table[:, 5].astype(np.int64),
    )
