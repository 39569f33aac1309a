import gzip
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_cases import Request, records, request

from dgdr_retune.replay import ReplayError, Trace, TraceError, attach, load_trace, share, trace_of
from dgdr_retune.windows import WindowCorruptError

REQUESTS = (
    request(1_000, [7, 8], 5, tokens=100),
    request(1_000, [2**64 - 1], 0, tokens=64),
    request(1_250, [7, 9, 10], 3, tokens=129),
)


def written(tmp_path: Path, requests: tuple[Request, ...]) -> Path:
    path = tmp_path / "window.jsonl.gz"
    path.write_bytes(gzip.compress(records(requests).encode()))
    return path


def columns(trace: Trace) -> dict[str, list[int]]:
    return {
        name: getattr(trace, name).tolist() for name in Trace.__slots__ if name not in ("block_size", "__weakref__")
    }


def test_a_windows_rows_become_columns_in_its_order(tmp_path: Path) -> None:
    trace = load_trace(written(tmp_path, REQUESTS))
    assert trace.block_size == 64
    assert columns(trace) == {
        "arrival_ms": [1_000, 1_000, 1_250],
        "input_length": [100, 64, 129],
        "output_length": [5, 0, 3],
        "hash_start": [0, 2, 3, 6],
        "hashes": [7, 8, 2**64 - 1, 7, 9, 10],
        "blocks": [0, 1, 2, 0, 3, 4],
    }
    assert len(trace) == 3


def test_columns_have_the_types_they_promise_and_cannot_be_changed(tmp_path: Path) -> None:
    trace = load_trace(written(tmp_path, REQUESTS))
    assert [trace.arrival_ms.dtype, trace.input_length.dtype, trace.output_length.dtype] == [
        np.int64,
        np.int32,
        np.int32,
    ]
    assert [trace.hash_start.dtype, trace.hashes.dtype, trace.blocks.dtype] == [np.int64, np.uint64, np.int32]
    for column in (trace.hashes, trace.blocks):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), min_size=1))
@settings(deadline=None)
def test_blocks_are_numbered_by_first_appearance(hashes: list[int]) -> None:
    seen = list(dict.fromkeys(hashes))
    assert trace_of((request(0, hashes, 1),)).blocks.tolist() == [seen.index(one) for one in hashes]


def test_a_window_of_another_make_is_sorted_into_replay_order(tmp_path: Path) -> None:
    late = (REQUESTS[2], *REQUESTS[:2])
    assert sorted(columns(load_trace(written(tmp_path, late)))["arrival_ms"]) == [1_000, 1_000, 1_250]
    assert columns(load_trace(written(tmp_path, late)))["arrival_ms"] == [1_000, 1_000, 1_250]


@pytest.mark.parametrize(
    ("requests", "named"),
    [
        ((), "no request"),
        ((request(1, [1], 1), request(2, [1], 1, block_size=32)), r"block sizes \[32, 64\]"),
        ((request(2, [1], 1), request(1, [1], 1)), "row 2"),
    ],
)
def test_rows_that_cannot_be_replayed_together_are_refused(requests: tuple[Request, ...], named: str) -> None:
    with pytest.raises(TraceError, match=named) as refused:
        trace_of(requests)
    assert refused.value.reason == "trace_not_replayable"
    assert isinstance(refused.value, ReplayError)


def test_a_time_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="beyond"):
        load_trace(written(tmp_path, (request(2**63, [1], 1),)))


def test_a_damaged_window_is_not_replayed(tmp_path: Path) -> None:
    path = written(tmp_path, REQUESTS)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(WindowCorruptError):
        load_trace(path)


ATTACH = """
import pickle, sys
from dgdr_retune.replay import attach
trace = attach(pickle.loads(sys.stdin.buffer.read()))
print(trace.block_size, trace.arrival_ms.tolist(), trace.input_length.tolist(), trace.output_length.tolist(),
      trace.hash_start.tolist(), trace.hashes.tolist(), trace.blocks.tolist(), trace.hashes.flags.writeable)
"""


def test_another_process_sees_a_shared_trace_without_a_copy_or_a_warning() -> None:
    trace = trace_of(REQUESTS)
    with share(trace) as handle:
        sent = pickle.dumps(handle)
        assert len(sent) < 300
        child = [sys.executable, "-W", "error", "-c", ATTACH]
        search = os.pathsep.join(sys.path)
        out = subprocess.run(
            child, input=sent, env={**os.environ, "PYTHONPATH": search}, capture_output=True, check=True
        )
    expected = columns(trace)
    names = ("arrival_ms", "input_length", "output_length", "hash_start", "hashes", "blocks")
    assert out.stdout.decode().strip() == " ".join(["64", *(str(expected[name]) for name in names), "False"])
    assert out.stderr == b""


def test_a_view_outlives_the_end_of_sharing() -> None:
    trace = trace_of(REQUESTS)
    with share(trace) as handle:
        view = attach(handle)
    assert columns(view) == columns(trace)


def test_attaching_after_the_end_of_sharing_is_refused() -> None:
    with share(trace_of(REQUESTS)) as handle:
        pass
    with pytest.raises(TraceError, match="gone"):
        attach(handle)


def test_sharing_leaves_no_descriptor_behind() -> None:
    before = set(Path("/proc/self/fd").iterdir())
    with share(trace_of(REQUESTS)) as handle:
        attach(handle)
    assert set(Path("/proc/self/fd").iterdir()) == before
