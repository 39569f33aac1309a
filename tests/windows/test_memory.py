"""A cut's memory does not depend on what the segments hold."""

import gzip
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from window_cases import START_MS, WINDOW, member, row

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._cut import _check_rows, _Cutter
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._request import CutRequest
from dgdr_retune.windows._segments import Segment
from dgdr_retune.windows._select import Selection
from dgdr_retune.windows._table import _FIELDS, PackedTable, ties

Write = Callable[..., Path]
Make = Callable[..., CutRequest]

CUT = """
import re, sys
from dgdr_retune.windows import CutError, CutRequest, Place, Window, cut
segments, windows, *times = sys.argv[1:]
window = Window(*map(int, times))
try:
    rows = cut(CutRequest(segments=Place(segments), windows=Place(windows), name="x", window=window)).counts.rows
except CutError as error:
    rows = error.reason
status = open("/proc/self/status").read()  # getrusage would count the process that this one was forked from
print(rows, 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]))
"""


def repeated(chunk: bytes, count: int) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(compressor.compress(chunk) for _ in range(count)) + compressor.flush()


def a_bomb() -> bytes:
    return repeated(bytes(1 << 20), 1000)


def an_endless_name() -> bytes:
    return b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * (64 << 20)


def a_member_of_200_mb() -> bytes:
    return repeated(b"".join(row("x" * 600 + f"{number}") + b"\n" for number in range(1000)), 110)


def a_row_of_many_values() -> bytes:
    return member(b'{"event":{"x":[' + b"[]," * 5_000_000 + b"1]}}", level=1)


def a_row_of_many_hashes() -> bytes:
    return member(row().replace(b"[92", b"[" + b"1," * 8_000_000 + b"92"), level=1)


def many_rows_of_equal_times() -> bytes:
    return b"".join(member(*(row(f"{start + at}") for at in range(1000)), level=1) for start in range(0, 100_000, 1000))


CASES = {
    a_bomb: "trace_corrupt",
    an_endless_name: "trace_corrupt",
    a_member_of_200_mb: "1001",
    a_row_of_many_values: "1",
    a_row_of_many_hashes: "1",
    many_rows_of_equal_times: "100001",
}


@pytest.mark.parametrize(("make", "outcome"), CASES.items(), ids=[case.__name__ for case in CASES])
def test_a_cut_needs_200_mb_and_100_bytes_a_row_whatever_it_reads(
    tmp_path: Path, write_segments: Write, make: Callable[[], bytes], outcome: str
) -> None:
    segments = write_segments({"f": [gzip.compress(row("good", received_ms=START_MS + 1)) + make()]})
    times = (str(time_ms) for time_ms in (WINDOW.start_ms, WINDOW.end_ms, WINDOW.cutoff_ms))
    order = [sys.executable, "-c", CUT, str(segments), str(tmp_path), *times]
    rows, peak = subprocess.run(order, check=True, capture_output=True, text=True).stdout.split()
    assert rows == outcome
    assert int(peak) < 200_000_000 + 100 * (int(rows) if rows.isdecimal() else 0)


def selected(rows: int, *, ids: int) -> Selection:
    selection = Selection(segments=[Segment("f", 0, "trace.000000.jsonl.gz")])
    packed = np.zeros(rows, _FIELDS)
    number = np.arange(rows, dtype=np.uint64)
    packed["start"] = START_MS + number * 7919 % 60_000
    packed["end"] = packed["start"] + number
    packed["id_low"] = packed["id_high"] = number % ids
    selection.table.extend(PackedTable(bytearray(packed.tobytes()), {64: 0}, b"", b"", b""), segments=0)
    selection.table.add_member(segment=0, start=0, crc=0)
    return selection


def peak_of_ordering(request: CutRequest, *, rows: int, ids: int) -> int:
    tracemalloc.start()
    try:
        selection = selected(rows, ids=ids)
        tracemalloc.reset_peak()
        _, order = _Cutter(request, Filesystem(), Backend.zlib(), Limits())._header(selection)
        _check_rows(selection, order)
        assert len(order) == min(rows, ids)
        assert ties(selection.table.rows(), order) == []
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("ids", "bytes_a_row"), [(10**6, 84), (40_000, 100)], ids=["no id repeats", "ids repeat"])
def test_a_row_costs_100_bytes_while_rows_are_put_in_order(request_for: Make, ids: int, bytes_a_row: int) -> None:
    few, many = (peak_of_ordering(request_for(), rows=rows, ids=ids) for rows in (50_000, 200_000))
    assert 45 < (many - few) / 150_000 < bytes_a_row
