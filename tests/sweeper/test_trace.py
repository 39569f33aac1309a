"""Whatever is no whole trace is refused with its cause, before anything is replayed."""

import gzip
import os
import shutil
import socket
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dgdr_retune.replay import load_trace
from dgdr_retune.sweeper._errors import TraceUnusableError
from dgdr_retune.sweeper._trace import check_trace, read_trace, trace_paths


def test_every_trace_that_an_input_names_is_checked_whatever_else_is_wrong() -> None:
    source = {"type": "trace", "format": "mooncake", "paths": ["/a", "/b", 3]}
    assert trace_paths({"traffic": {"source": source}, "engine": 7}) == ["/a", "/b"]
    for traffic in ({}, {"source": {"type": "synthetic", "paths": ["/a"]}}, {"source": {"type": "trace", "paths": 3}}):
        assert trace_paths({"traffic": traffic}) == []


def test_a_regular_file_that_is_not_empty_passes(window: Path) -> None:
    check_trace(str(window))


def test_a_missing_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceUnusableError, match=r"trace\.jsonl\.gz cannot be replayed: No such file.*subPath$"):
        check_trace(str(tmp_path / "trace.jsonl.gz"))


def test_a_directory_is_refused_as_what_a_missing_file_is_mounted_as(tmp_path: Path) -> None:
    with pytest.raises(TraceUnusableError, match="it is a directory, which is what a missing file is mounted as"):
        check_trace(str(tmp_path))


def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl.gz").touch()
    with pytest.raises(TraceUnusableError, match="it is empty"):
        check_trace(str(tmp_path / "trace.jsonl.gz"))


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    for name, content in (("trace.jsonl.gz", gzip.compress(b"")), ("trace.jsonl", b"\n")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TraceUnusableError, match=r"0 rows|no request"):
            read_trace(str(tmp_path / name))


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for name in ("pipe", "socket", "loop"):
        (tmp_path / "loop").unlink(missing_ok=True)
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(TraceUnusableError, match="subPath"):
            check_trace(str(tmp_path / name))


def test_a_trace_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_arguments: object) -> int:  # by mode 0 for anyone but root
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(TraceUnusableError, match="mode 0644"):
        check_trace(str(tmp_path / "trace"))


def test_a_path_that_no_file_has_is_refused() -> None:
    for path in ("/trace\0", "/" + "x" * 5000):
        with pytest.raises(TraceUnusableError, match="cannot be replayed"):
            check_trace(path)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut_at=st.floats(0, 1, exclude_max=True))
def test_a_trace_that_ends_early_is_refused(cut_at: float, window: Path, tmp_path: Path) -> None:
    content = window.read_bytes()
    damaged = tmp_path / "trace.jsonl.gz"
    damaged.write_bytes(content[: int(cut_at * len(content))])
    with pytest.raises(TraceUnusableError):
        read_trace(str(damaged))


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.floats(0.1, 0.99), bit=st.integers(0, 7))
def test_a_trace_with_a_flipped_bit_is_refused(at: float, bit: int, window: Path, tmp_path: Path) -> None:
    content = bytearray(window.read_bytes())
    content[int(at * len(content))] ^= 1 << bit
    damaged = tmp_path / "trace.jsonl.gz"
    damaged.write_bytes(content)
    with pytest.raises(TraceUnusableError):
        read_trace(str(damaged))


def test_rows_that_nobody_compressed_are_the_same_trace_in_any_order(window: Path, tmp_path: Path) -> None:
    lines = gzip.decompress(window.read_bytes()).splitlines(keepends=True)
    plain = tmp_path / "trace.jsonl"
    plain.write_bytes(b"".join(reversed(lines)))
    found, expected = read_trace(str(plain)), load_trace(window)
    assert np.array_equal(found.arrival_ms, expected.arrival_ms)
    assert np.array_equal(found.hashes, expected.hashes)


TOOL = b'{"event":{"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":1}}\n'


@pytest.mark.parametrize("name", ["trace.jsonl.gz", "trace.jsonl"])
def test_rows_of_tools_and_payloads_are_no_requests_and_do_no_harm(name: str, window: Path, tmp_path: Path) -> None:
    requests = gzip.decompress(window.read_bytes())
    recorded, expected = tmp_path / name, load_trace(window)
    for event in (b"tool_end", b"request_payload"):
        content = TOOL.replace(b"tool_end", event) + requests + TOOL
        recorded.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        found = read_trace(str(recorded))
        assert np.array_equal(found.arrival_ms, expected.arrival_ms)
        assert np.array_equal(found.hashes, expected.hashes)
    content = requests + TOOL.replace(b"tool_end", b"router_selection")
    recorded.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(TraceUnusableError, match=r"other_event 'router_selection'\): mend the file, or take another$"):
        read_trace(str(recorded))


def test_plain_rows_that_are_damaged_or_stand_twice_are_refused(window: Path, tmp_path: Path) -> None:
    content = gzip.decompress(window.read_bytes())
    plain = tmp_path / "trace.jsonl"
    for damaged, message in ((content[:-20], "not one that a replay takes"), (content * 2, "1892 rows have 946")):
        plain.write_bytes(damaged)
        with pytest.raises(TraceUnusableError, match=message):
            read_trace(str(plain))


def test_a_line_without_an_end_is_refused_and_not_held_in_memory(tmp_path: Path) -> None:
    plain = tmp_path / "trace.jsonl"
    plain.touch()
    os.truncate(plain, 400 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(TraceUnusableError, match="not one that a replay takes"):
            read_trace(str(plain))
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_the_name_says_how_a_trace_is_read(window: Path, tmp_path: Path) -> None:
    shutil.copy(window, tmp_path / "trace.jsonl")
    with pytest.raises(TraceUnusableError):
        read_trace(str(tmp_path / "trace.jsonl"))
