"""Rows, members and segments to cut windows from."""

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dgdr_retune.windows import Cut, Window
from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._source import Source
from dgdr_retune.windows._walk import Stretch, walk

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
START_MS = 1_796_039_400_000
WINDOW = Window(start_ms=START_MS, end_ms=START_MS + 60_000, cutoff_ms=START_MS + 70_000)


def record(
    request_id: str = "a", *, received_ms: int = START_MS, took_ms: float | None = 25.5, input_length: int = 130
) -> dict[str, Any]:
    """A record as Dynamo 1.6 writes it, of a block size of 64."""
    request = {
        "request_id": request_id,
        "input_tokens": input_length,
        "output_tokens": 8,
        "cached_tokens": 64,
        "request_received_ms": received_ms,
        "prefill_wait_time_ms": 1.25,
        "prefill_time_ms": 6.5,
        "ttft_ms": 7.75,
        "total_time_ms": took_ms,
        "avg_itl_ms": 2.5,
        "kv_hit_rate": 0.5,
        "queue_depth": 0,
        "worker": {
            "prefill_worker_id": 9476753702461689193,
            "prefill_dp_rank": 0,
            "decode_worker_id": 9476753702461689193,
            "decode_dp_rank": 0,
        },
        "replay": {
            "trace_block_size": 64,
            "input_length": input_length,
            "input_sequence_hashes": [2**63 + 17 * block + 1 for block in range(-(-input_length // 64))],
        },
    }
    if took_ms is None:
        del request["total_time_ms"]
    return {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_end",
        "event_time_unix_ms": received_ms + round(took_ms or 0),
        "request": request,
    }


def line(event: Mapping[str, Any], *, bare: bool = False) -> bytes:
    """A row as it stands on disk, without its end."""
    parsed = event if bare else {"timestamp": 25751, "event": event}
    return json.dumps(parsed, separators=(",", ":")).encode()


def row(request_id: str = "a", **values: Any) -> bytes:
    """An enveloped row of `record`."""
    return line(record(request_id, **values))


def other(event_type: str, *, bare: bool = False, **values: Any) -> bytes:
    """A row that records something else than the end of a request."""
    event = {"schema": "dynamo.request.trace.v1", "event_type": event_type, "event_time_unix_ms": START_MS}
    return line(event | values, bare=bare)


def member(*rows: bytes, level: int = 6) -> bytes:
    """A gzip member of whole rows."""
    return gzip.compress(b"".join(one + b"\n" for one in rows), level, mtime=0)


def members_of(segment: bytes) -> list[bytes]:
    """The members of an undamaged segment."""
    found = []
    while segment:
        stream = zlib.decompressobj(31)
        stream.decompress(segment)
        length = len(segment) - len(stream.unused_data)
        found.append(segment[:length])
        segment = segment[length:]
    return found


def source_of(segment: bytes) -> Source:
    """A segment's bytes to read."""
    return Source(lambda size, offset: segment[offset : offset + size], len(segment))


def stretches(segment: bytes, backend: Backend | None = None, limits: Limits | None = None) -> list[Stretch]:
    """What a segment is made of."""
    return list(walk(source_of(segment), backend=backend or Backend.fastest(), limits=limits or Limits()))


BACKENDS = [
    pytest.param(Backend.zlib(), id="zlib"),
    pytest.param(Backend.fastest(), id="isal", marks=pytest.mark.fast),
]


class Unsynced(Filesystem):
    """Storage that does not wait for the disk, for tests that are not about crashes."""

    def sync(self, descriptor: int) -> None:
        """Nothing."""


def published_rows(cut: Cut) -> list[bytes]:
    """The rows of a published window, as the standard library reads them."""
    assert cut.path is not None
    return gzip.decompress(Path(cut.path).read_bytes()).splitlines(keepends=True)


def order_of(line: bytes) -> tuple[int, int, str]:
    """Where a row that Dynamo 1.6 wrote belongs in a window: (start, end, request id)."""
    parsed = json.loads(line)
    request = parsed.get("event", parsed)["request"]
    took_ms = request.get("total_time_ms")
    start_ms = request["request_received_ms"]
    end_ms = parsed["event"]["event_time_unix_ms"] if took_ms is None else start_ms + int(took_ms + 0.5)
    return start_ms, end_ms, request["request_id"]
