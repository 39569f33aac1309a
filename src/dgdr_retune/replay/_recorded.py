"""What the rows of a window say of how their requests were served, as columns beside a trace."""

import os
from array import array
from collections.abc import Iterable
from math import nan

import msgspec
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.replay._load import replay_order
from dgdr_retune.windows import LoadedWindow, load_window

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

LONGEST_MS = 86_400_000.0
"""A day; what is longer was not measured."""

_ABSENT = -1
_ROUNDING_MS = 1e-6
_MOST_TOKENS = 2**31 - 1


class _Worker(msgspec.Struct):
    prefill_worker_id: int = _ABSENT
    prefill_dp_rank: int = 0
    decode_worker_id: int = _ABSENT
    decode_dp_rank: int = 0


class _Request(msgspec.Struct):
    cached_tokens: float = _ABSENT
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
        known: bool[n], whether a request has every value below, a prefill that took time and was over by the first
            token, and one worker for prefill and decode.
        wait_ms: float64[n], from arrival to the start of the prefill, transport included; as the other times NaN where
            it is not recorded, negative or over a day.
        prefill_ms: float64[n], from there to the first token.
        ttft_ms: float64[n], from arrival to the first token.
        total_ms: float64[n], from arrival to the end; both NaN where the first token is later.
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
    """The latencies of a window, in the order of `load_trace`.

    Raises:
        WindowCorruptError: it is not what it says.
        OSError: as the system says.
    """
    decoder = msgspec.json.Decoder(_Line)
    workers: dict[tuple[int, int], int] = {}
    cells = array("d")
    for line in _in_replay_order(load_window(path)):
        request = _served(decoder, line)
        worker = request.worker
        ran = worker.prefill_worker_id, worker.prefill_dp_rank
        alone = ran == (worker.decode_worker_id, worker.decode_dp_rank) and worker.prefill_worker_id != _ABSENT
        times = (request.prefill_wait_time_ms, request.prefill_time_ms, request.ttft_ms, request.total_time_ms)
        number = workers.setdefault(ran, len(workers)) if alone else _ABSENT
        cells.extend((*times, request.cached_tokens, number))
    table = np.frombuffer(cells, np.float64).reshape(-1, 6)
    times_ms = table[:, :4]
    times_ms[~((times_ms >= 0) & (times_ms <= LONGEST_MS))] = nan
    times_ms[times_ms[:, 2] > times_ms[:, 3], 2:] = nan
    cached_tokens = table[:, 4]
    cached_tokens[cached_tokens > _MOST_TOKENS] = _ABSENT
    prefilled = (times_ms[:, 1] > 0) & (times_ms[:, 1] <= times_ms[:, 2] + _ROUNDING_MS)
    return Recorded(
        known=np.isfinite(times_ms).all(axis=1) & prefilled & (cached_tokens >= 0) & (table[:, 5] >= 0),
        wait_ms=times_ms[:, 0],
        prefill_ms=times_ms[:, 1],
        ttft_ms=times_ms[:, 2],
        total_ms=times_ms[:, 3],
        cached_tokens=cached_tokens.astype(np.int64),
        worker=table[:, 5].astype(np.int64),
    )


def _in_replay_order(window: LoadedWindow) -> Iterable[bytes]:
    """As `load_trace`: a window that this project did not cut may have its rows in any order."""
    if window.header.sha256 is not None:
        return window.lines()
    placed = sorted(zip(map(replay_order, window.rows()), window.lines(), strict=True))
    return (line for _, line in placed)


def _served(decoder: msgspec.json.Decoder[_Line], line: bytes) -> _Request:
    """What a row says of how its request was served; nothing if a key stands there twice, or where none belongs."""
    try:
        row = decoder.decode(line)
    except msgspec.DecodeError:
        return _Request()
    return (row.event.request if row.event is not None else row.request) or _Request()
