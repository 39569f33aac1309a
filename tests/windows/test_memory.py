"""A cut's memory does not depend on what the segments hold."""

import gzip
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from window_cases import START_MS, WINDOW, member, row

Write = Callable[..., Path]

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
def test_a_cut_needs_200_mb_and_45_bytes_a_row_whatever_it_reads(
    tmp_path: Path, write_segments: Write, make: Callable[[], bytes], outcome: str
) -> None:
    segments = write_segments({"f": [gzip.compress(row("good", received_ms=START_MS + 1)) + make()]})
    times = (str(time_ms) for time_ms in (WINDOW.start_ms, WINDOW.end_ms, WINDOW.cutoff_ms))
    order = [sys.executable, "-c", CUT, str(segments), str(tmp_path), *times]
    rows, peak = subprocess.run(order, check=True, capture_output=True, text=True).stdout.split()
    assert rows == outcome
    assert int(peak) < 200_000_000 + 45 * (int(rows) if rows.isdecimal() else 0)
