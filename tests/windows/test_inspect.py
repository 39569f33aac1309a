"""What is in a directory of segments, and which window is due."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from window_cases import RECORDED, START_MS, line, member, members_of, record, row

from dgdr_retune.windows import CutError, Place, Window, inspect, newest_window

Write = Callable[..., Path]

SEGMENTS = sorted(path.relative_to(RECORDED) for path in RECORDED.glob("*/*.gz"))


def test_the_recorded_segments_are_whole() -> None:
    found = inspect(Place(str(RECORDED)))
    assert (found.rows, len(found.segments), found.damage.members) == (8862, 7, 407)
    members = {pod.pod: [segment.damage.members for segment in pod.segments] for pod in found.pods}
    assert members == {"frontend-0": [70, 77, 64], "frontend-1": [68, 73, 28, 27]}
    damage = found.damage
    assert (damage.corrupt_members, damage.corrupt_bytes, damage.truncated_tails, damage.zero_fill_bytes) == (
        0,
        0,
        0,
        0,
    )
    assert damage.bytes == sum((RECORDED / path).stat().st_size for path in SEGMENTS)
    assert {segment.block_sizes for segment in found.segments} == {(64,)}
    assert min(segment.first_arrival_ms or 0 for segment in found.segments) == 1_796_039_378_740
    assert max(segment.last_arrival_ms or 0 for segment in found.segments) == 1_796_039_611_850
    assert not any(segment.refused for segment in found.segments)
    assert found.ignored == ()


@pytest.mark.parametrize("path", SEGMENTS, ids=str)
def test_a_segment_that_lost_its_last_100_bytes_keeps_all_rows_of_its_intact_members(
    tmp_path: Path, path: Path
) -> None:
    shutil.copytree(RECORDED, tmp_path / "segments")
    segment = tmp_path / "segments" / path
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-100])
    members = members_of(whole)
    lost = len(members[-1])
    assert lost > 100
    found = inspect(Place(str(tmp_path), "segments"))
    damage = found.damage
    assert (damage.truncated_tails, damage.tail_bytes, damage.corrupt_members, damage.members) == (
        1,
        lost - 100,
        0,
        406,
    )
    before = inspect(Place(str(RECORDED)))
    for was, now, at in zip(before.segments, found.segments, SEGMENTS, strict=True):
        if at == path:
            assert now.rows == was.rows - gzip.decompress(members[-1]).count(b"\n")
        else:
            assert now == was


def test_rows_are_told_apart_by_kind_and_reason(write_segments: Write) -> None:
    root = write_segments(
        {
            "f": [member(row("a"), b"x", b'{"event_type":"tool_end"}', row("b", received_ms=START_MS + 9))],
            "empty": [],
        }
    )
    (root / "README").touch()
    (root / "f" / "trace.000000.jsonl.lock").touch()
    found = inspect(Place(str(root)))
    assert [pod.pod for pod in found.pods] == ["empty", "f"]
    (segment,) = found.segments
    assert (segment.rows, segment.refused) == (2, {"json": 1, "other_event": 1})
    assert (segment.first_arrival_ms, segment.last_arrival_ms) == (START_MS, START_MS + 9)
    assert found.ignored == ("README", "f/trace.000000.jsonl.lock")


def test_a_directory_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(CutError, match="one directory for each frontend") as raised:
        inspect(Place(str(tmp_path), "nowhere"))
    assert raised.value.reason == "segments_unreadable"


def newest(root: Path, now_ms: int, *, interval_s: int = 60) -> Window | None:
    return newest_window(Place(str(root)), interval_s=interval_s, grace_s=10, now_ms=now_ms, mtime_margin_s=600)


def test_the_newest_window_is_the_last_one_with_a_row_that_is_due(write_segments: Write) -> None:
    root = write_segments({"f": [member(row("a"), row("b", received_ms=START_MS + 60_000))]})
    first = Window(START_MS, START_MS + 60_000, START_MS + 70_000)
    second = Window(START_MS + 60_000, START_MS + 120_000, START_MS + 130_000)
    assert newest(root, START_MS + 69_999) is None
    assert newest(root, START_MS + 70_000) == first
    assert newest(root, START_MS + 129_999) == first
    assert newest(root, START_MS + 130_000) == second
    assert newest(root, START_MS + 10**9) == second
    assert newest(root, START_MS + 10**9, interval_s=3600) == Window.containing(START_MS, interval_s=3600, grace_s=10)


def test_rows_that_a_cut_would_not_publish_make_no_window(write_segments: Write) -> None:
    late = row("late", received_ms=START_MS + 60_000, took_ms=70_001.0)
    invalid = line(record("x", received_ms=START_MS + 60_000) | {"schema": "other"})
    root = write_segments({"f": [member(row("a"), late, invalid)]})
    assert newest(root, START_MS + 10**9) == Window(START_MS, START_MS + 60_000, START_MS + 70_000)


def test_a_segment_that_is_too_old_for_its_rows_is_not_believed(write_segments: Write) -> None:
    root = write_segments({"f": [member(row("a"))]}, written_ms=START_MS - 600_001)
    assert newest(root, START_MS + 10**9) is None


def test_an_old_segment_is_not_read_once_a_newer_window_is_found(write_segments: Write) -> None:
    root = write_segments({"f": [b"", member(row("new"))]})
    old = root / "f" / "trace.000000.jsonl.gz"
    old.write_bytes(member(row("a", received_ms=START_MS + 6_000_000)))
    os.utime(old, ((START_MS - 600_000) / 1000,) * 2)
    assert newest(root, START_MS + 10**9) == Window(START_MS, START_MS + 60_000, START_MS + 70_000)


def test_no_segment_no_window(tmp_path: Path) -> None:
    assert newest(tmp_path, START_MS) is None
