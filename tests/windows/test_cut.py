"""Which rows a window has, in which order, what is counted, and when there is no window."""

import gzip
import json
import os
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_cut import plain_cut
from window_cases import (
    BACKENDS,
    RECORDED,
    START_MS,
    WINDOW,
    Unsynced,
    line,
    member,
    published_rows,
    record,
    row,
)

from dgdr_retune.windows import CutError, CutRequest, Place, UnsafePathError, Window, cut
from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._row import Row
from dgdr_retune.windows._table import Table

END_MS = WINDOW.end_ms
Make = Callable[..., CutRequest]
Write = Callable[..., Path]


def cut_rows(request: CutRequest, **options: Any) -> list[bytes]:
    return published_rows(cut(request, filesystem=Unsynced(), **options))


def ids(rows: list[bytes]) -> list[str]:
    return [json.loads(one)["event"]["request"]["request_id"] for one in rows]


def recorded_request(target: Path, **values: Any) -> CutRequest:
    window = Window(start_ms=1_796_039_400_000, end_ms=1_796_039_600_000, cutoff_ms=1_796_039_600_300)
    request = CutRequest(
        segments=Place(str(RECORDED)),
        windows=Place(str(target)),
        name="chat",
        window=window,
        mtime_margin_s=1e9,
    )
    return evolve(request, **values)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_recorded_window_is_what_a_plain_reader_makes_of_it(tmp_path: Path, backend: Backend) -> None:
    request = recorded_request(tmp_path)
    done = cut(request, backend=backend)
    rows, counts = plain_cut(RECORDED, request.window)
    assert published_rows(done) == rows
    assert counts["censored"] > 10
    totals = {"segments": 7, "members": 407, "bytes": sum(path.stat().st_size for path in RECORDED.glob("*/*"))}
    assert {name: count for name, count in asdict(done.counts).items() if count} == counts | totals


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_any_undamaged_window_is_what_a_plain_reader_makes_of_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    chance = data.draw(st.randoms(use_true_random=False))
    directory = tmp_path_factory.mktemp("cut")
    edges = [START_MS - 1, START_MS, START_MS + 1, START_MS + 2, END_MS - 1, END_MS, END_MS + 9_990]
    valid = 0
    for pod in ("a", "b", "c.d"):
        (directory / "segments" / pod).mkdir(parents=True)
        for index in chance.sample([0, 9, 10, 1_000_000], 2):
            rows = []
            for _ in range(chance.randrange(12)):
                event = record(
                    chance.choice(["x", "y", "ä", "é", "ab", "a", "b", "\U0001f600", "\uffff"]),
                    received_ms=chance.choice(edges),
                    took_ms=chance.choice([None, 0.5, 1.0, 1.5, 10_000.0, 10_001.5]),
                )
                if chance.random() < 0.1:
                    event["event_type"] = "tool_end"
                if chance.random() < 0.1:
                    event["request"]["replay"]["input_length"] += 64
                elif event["event_type"] == "request_end":
                    valid += 1
                rows.append(chance.choice([line(event), line(event, bare=True), line(event) + b" \r"]))
            content = b"".join(member(*rows[at : at + 3]) for at in range(0, len(rows), 3))
            (directory / "segments" / pod / f"t.{index:06}.jsonl.gz").write_bytes(content)
    request = CutRequest(
        segments=Place(str(directory / "segments")),
        windows=Place(str(directory)),
        name="chat",
        window=WINDOW,
        mtime_margin_s=1e9,
    )
    limits = Limits(batch=chance.choice([1, 2000, 1 << 20]), kept=chance.choice([100, 1 << 20]))
    rows, counts = plain_cut(directory / "segments", WINDOW)
    if not rows and counts["malformed"] > valid:
        with pytest.raises(CutError, match="malformed"):
            cut(request, filesystem=Unsynced(), limits=limits)
        return
    done = cut(request, filesystem=Unsynced(), limits=limits)
    made = asdict(done.counts) | {"other_events": done.other_events}
    assert {name: made[name] for name in counts} == counts
    if not rows:
        assert (done.outcome, done.path) == ("no_traffic", None)
    else:
        assert published_rows(done) == rows


def test_a_window_is_half_open_and_takes_arrivals(write_segments: Write, request_for: Make) -> None:
    times = {"before": START_MS - 1, "first": START_MS, "last": END_MS - 1, "after": END_MS}
    write_segments({"f": [member(*(row(name, received_ms=at) for name, at in times.items()))]})
    assert ids(cut_rows(request_for())) == ["first", "last"]


def test_a_row_that_ended_after_the_cutoff_is_censored_however_late_the_cut(
    write_segments: Write, request_for: Make
) -> None:
    write_segments({"f": [member(row("in", took_ms=70_000.0), row("late", took_ms=70_001.0))]})
    done = cut(request_for())
    assert ids(published_rows(done)) == ["in"]
    assert done.counts.censored == 1


def test_censoring_goes_by_the_time_of_the_event_and_not_by_the_total(write_segments: Write, request_for: Make) -> None:
    late = line(record("late", took_ms=1.0) | {"event_time_unix_ms": WINDOW.cutoff_ms + 1})
    early = line(record("early", took_ms=99_000.0) | {"event_time_unix_ms": WINDOW.cutoff_ms})
    write_segments({"f": [member(late, early)]})
    done = cut(request_for())
    assert ids(published_rows(done)) == ["early"]
    assert done.counts.censored == 1


def test_the_earliest_of_a_repeated_id_stays_by_end_then_pod_then_place(
    write_segments: Write, request_for: Make
) -> None:
    write_segments(
        {
            "b": [member(row("x", input_length=1), row("y", took_ms=1.0, input_length=2))],
            "a": [member(row("y", input_length=3), row("x", input_length=4)), member(row("x", input_length=5))],
        }
    )
    done = cut(request_for())
    assert published_rows(done) == [row("y", took_ms=1.0, input_length=2) + b"\n", row("x", input_length=4) + b"\n"]
    assert done.counts.duplicates == 3


def test_a_duplicate_that_is_censored_or_outside_takes_no_place(write_segments: Write, request_for: Make) -> None:
    rows = [row("x", received_ms=START_MS - 5), row("x", took_ms=80_000.0), row("x", received_ms=START_MS + 7)]
    write_segments({"f": [member(*rows)]})
    done = cut(request_for())
    assert published_rows(done) == [rows[2] + b"\n"]
    assert (done.counts.duplicates, done.counts.censored) == (0, 1)


def test_rows_of_equal_times_are_in_the_order_of_their_ids_as_bytes(write_segments: Write, request_for: Make) -> None:
    names = ["b", "a", "ab", "B", "é", "\uffff", "\U0001f600", "10", "9"]
    write_segments({"f": [member(*map(row, names[:5])), member(*map(row, names[5:]))]})
    for batch in (1, 1000, 1 << 20):
        windows = Place(str(request_for().windows.root), f"windows-{batch}")
        rows = cut_rows(request_for(windows=windows), limits=Limits(batch=batch))
        assert ids(rows) == sorted(names, key=str.encode)


def test_rows_are_published_as_they_were_recorded(write_segments: Write, request_for: Make) -> None:
    odd = b' {"event" : ' + line(record("odd"), bare=True) + b', "timestamp": [1, {"a":"\xc3\xa9"}]}\r'
    write_segments({"f": [member(odd, row("plain", received_ms=START_MS + 1))]})
    assert cut_rows(request_for()) == [odd + b"\n", row("plain", received_ms=START_MS + 1) + b"\n"]


def test_the_rows_are_the_same_for_any_order_of_listing_backend_time_and_number_of_processes(
    tmp_path: Path, write_segments: Write, request_for: Make
) -> None:
    chance = random.Random(5)  # noqa: S311  # not for secrets
    by_pod: dict[str, list[bytes]] = {}
    for pod in ("p1", "p2", "p3"):
        rows = [
            row(
                f"{chance.randrange(60)}",
                received_ms=START_MS + chance.randrange(40) * 1500,
                took_ms=chance.choice([1.0, 9000.0, 30_000.0]),
            )
            for _ in range(60)
        ]
        by_pod[pod] = [b"".join(member(*rows[at : at + 5]) for at in range(0, 30, 5)), member(*rows[30:])]

    class Shuffled(Unsynced):
        def list(self, directory: int) -> list[str]:
            names = super().list(directory)
            chance.shuffle(names)
            return names

    write_segments(by_pod)
    first = cut_rows(request_for())
    assert len(first) > 30
    for number in range(6):
        request = request_for(windows=Place(str(tmp_path), f"windows-{number}"))
        backend = [Backend.zlib(), Backend.fastest()][number % 2]
        assert published_rows(cut(request, filesystem=Shuffled(), backend=backend)) == first
    # A later leader sees what was written since: requests that ended after the cutoff.
    later = [row(f"{number}", received_ms=START_MS + number * 900, took_ms=90_000.0) for number in range(60)]
    write_segments({pod: [*segments, member(*later)] for pod, segments in by_pod.items()})
    done = cut(request_for(windows=Place(str(tmp_path), "windows-late")))
    assert published_rows(done) == first
    assert done.counts.censored >= 180


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers for little work, and in spite of idle threads in this process."""
    monkeypatch.setattr("dgdr_retune.windows._helpers.WORTH_A_PROCESS", 1000)
    monkeypatch.setattr("dgdr_retune.windows._helpers._threads", lambda: 1)


@pytest.mark.usefixtures("forking")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_several_processes_make_the_same_window_and_counts(tmp_path: Path, write_segments: Write) -> None:
    segments = {pod.name: [path.read_bytes() for path in sorted(pod.iterdir())] for pod in sorted(RECORDED.iterdir())}
    damaged = segments["frontend-1"][2]
    segments["frontend-1"][2] = damaged[:9000] + b"?" + damaged[9001:-50]
    segments["frontend-2"] = [member(row("other", received_ms=1_796_039_500_000).replace(b'"event"', b'"event" '))]
    root = write_segments(segments)
    done = [
        cut(recorded_request(tmp_path / f"{processes}", segments=Place(str(root))), processes=processes)
        for processes in (1, 2, 3, 8)
    ]
    assert done[0].counts.truncated_tails == done[0].counts.corrupt_members == 1
    assert len(gzip.decompress(Path(str(done[0].path)).read_bytes()).splitlines()) > 5000
    assert all(evolve(one, path=None) == evolve(done[0], path=None) for one in done)


@pytest.mark.usefixtures("forking")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("malformed", [300, 301])
def test_what_helpers_read_tells_silence_from_refused_rows(
    write_segments: Write, request_for: Make, malformed: int
) -> None:
    outside = member(*(row(os.urandom(9).hex(), received_ms=END_MS) for _ in range(300)))
    write_segments({"a": [member(*(os.urandom(20).hex().encode() for _ in range(malformed)))], "b": [outside]})
    if malformed == 300:
        assert cut(request_for(), processes=2).outcome == "no_traffic"
        return
    with pytest.raises(CutError, match="301 of the 601 rows") as raised:
        cut(request_for(), processes=2)
    assert raised.value.reason == "rows_refused"


def test_a_process_with_threads_does_not_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgdr_retune.windows._helpers.WORTH_A_PROCESS", 1000)
    monkeypatch.setattr("dgdr_retune.windows._helpers._threads", lambda: 2)
    monkeypatch.setattr("os.fork", lambda: pytest.fail("it forked"))
    assert cut(recorded_request(tmp_path), processes=2).outcome == "published"


@pytest.mark.usefixtures("forking")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_helper_that_dies_fails_the_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("dgdr_retune.windows._helpers._result", die)
    with pytest.raises(CutError, match="helper") as raised:
        cut(recorded_request(tmp_path), processes=2)
    assert raised.value.reason == "cut_died"


@pytest.mark.usefixtures("forking")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("processes", [1, 3])
def test_a_helper_fails_with_the_reason_of_the_cut(tmp_path: Path, processes: int) -> None:
    for maximum in (100, 6000):
        with pytest.raises(CutError) as raised:
            cut(recorded_request(tmp_path, maximum_rows=maximum), processes=processes)
        assert raised.value.reason == "window_too_large"
    assert not list(tmp_path.iterdir())


def test_a_window_of_as_many_rows_as_allowed_is_published(write_segments: Write, request_for: Make) -> None:
    write_segments({"f": [member(*(row(str(number)) for number in range(5)))]})
    with pytest.raises(CutError, match="more than 4") as raised:
        cut(request_for(maximum_rows=4))
    assert raised.value.reason == "window_too_large"
    assert cut(request_for(maximum_rows=5)).counts.rows == 5


def changed(event: dict[str, Any], block_size: int) -> dict[str, Any]:
    event["request"]["replay"]["trace_block_size"] = block_size
    event["request"]["replay"]["input_sequence_hashes"] = list(range(1, 1 - (-130 // block_size)))
    return event


FAILURES = {
    "mixed_block_size": [row("a"), line(changed(record("b"), 32))],
    "mixed_agent_context": [row("a"), line(record("b") | {"agent_context": {"session_id": "s"}})],
    "agent_traffic": [line(record(name) | {"agent_context": {"session_id": "s"}}) for name in "ab"],
}


@pytest.mark.parametrize(("reason", "rows"), FAILURES.items())
def test_a_window_that_no_replay_takes_fails_with_its_reason(
    write_segments: Write, request_for: Make, reason: str, rows: list[bytes]
) -> None:
    write_segments({"f": [member(*rows)]})
    with pytest.raises(CutError) as raised:
        cut(request_for())
    assert raised.value.reason == reason
    assert not Path(request_for().windows.root, "windows").exists()


def test_what_is_not_published_does_not_fail_a_window(write_segments: Write, request_for: Make) -> None:
    outside = line(changed(record("b", received_ms=END_MS), 32))
    late = line(changed(record("c", took_ms=99_000.0), 16))
    repeated = line(changed(record("a", took_ms=99.0), 128))
    write_segments({"f": [member(row("a"), outside, late, repeated)]})
    assert ids(cut_rows(request_for())) == ["a"]


def test_a_block_size_of_another_kind_is_replayed_as_well(write_segments: Write, request_for: Make) -> None:
    sizes = [*range(1, 300)]
    rows = [line(changed(record(f"{size}", received_ms=END_MS), size)) for size in sizes]
    write_segments({"f": [member(*rows, line(changed(record("a"), 16)))]})
    assert ids(cut_rows(request_for())) == ["a"]


@pytest.mark.parametrize("repeats", [126, 127, 300])
def test_block_sizes_of_duplicates_do_not_hide_a_mixture(
    write_segments: Write, request_for: Make, repeats: int
) -> None:
    repeated = [line(changed(record("x", received_ms=START_MS + 1), 1000 + at)) for at in range(repeats)]
    published = [line(changed(record(name), size)) for name, size in (("x", 64), ("y", 32))]
    write_segments({"a": [member(*repeated)], "z": [member(*published)]})
    with pytest.raises(CutError, match="block sizes") as raised:
        cut(request_for())
    assert raised.value.reason == "mixed_block_size"


def test_a_helper_that_reads_many_block_sizes_hides_no_mixture() -> None:
    def read(*sizes: int) -> Table:
        table = Table()
        table.add_member(segment=0, start=0, crc=0)
        for size in sizes:
            table.append(Row(START_MS, START_MS, START_MS, f"{size}", size, size, 1, [1], False), offset=0, length=1)
        return table

    for known in (500, 501):
        table = read(known)
        table.extend(read(*range(1, 128), 500, 501).pack(), segments=1)
        flags = table.rows()["flags"]
        assert table.mixed_block_sizes(flags[[1, 1]]) == ""
        assert table.mixed_block_sizes(flags[[0, 1]]) == f"block sizes [{known}, 1]"
        assert table.mixed_block_sizes(flags[-2:])


LONG_TAIL = gzip.compress(random.Random(1).randbytes(5000))[:-9]  # noqa: S311


@pytest.mark.parametrize(
    ("segment", "corrupt"),
    [
        pytest.param(member(row("a")) + 3 * (member(row("b"))[:-3] + b"???"), True, id="members"),
        pytest.param(member(row("a")) + b"x" * 5000, True, id="bytes"),
        pytest.param(member(row("a")) + bytes(5000) + member(row("b")), True, id="a hole"),
        pytest.param(b"x" * 5000, True, id="nothing else"),
        pytest.param(member(row("a")) + b"x" * 400 + LONG_TAIL, True, id="bytes before a long tail"),
        pytest.param(member(row("a")) + b"x" * 400 + bytes(5000), True, id="bytes before many zeros"),
        pytest.param(member(row("a")) + bytes(5000), False, id="zeros at the end"),
        pytest.param(
            member(row("a")) + member(*(row(os.urandom(9).hex()) for _ in range(99)))[:-9], False, id="a tail"
        ),
        pytest.param(member(row("a")) + member(row("b"))[:-3] + b"???", False, id="half of the members"),
    ],
)
def test_a_window_of_mostly_corrupt_segments_fails(
    write_segments: Write, request_for: Make, segment: bytes, *, corrupt: bool
) -> None:
    write_segments({"f": [segment]})
    if not corrupt:
        assert ids(cut_rows(request_for())) == ["a"]
        return
    with pytest.raises(CutError, match="damaged") as raised:
        cut(request_for())
    assert raised.value.reason == "trace_corrupt"


def test_no_row_of_a_member_with_a_wrong_trailer_is_published(write_segments: Write, request_for: Make) -> None:
    good, bad, last = (member(row(name, received_ms=START_MS + at)) for at, name in enumerate("abc"))
    for wrong in (-1, -5):
        broken = bytearray(bad)
        broken[wrong] ^= 1
        write_segments({"f": [good + bytes(broken) + last]})
        windows = Place(str(request_for().windows.root), f"windows{wrong}")
        done = cut(request_for(windows=windows))
        assert ids(published_rows(done)) == ["a", "c"]
        assert (done.counts.members, done.counts.corrupt_members) == (3, 1)
        assert done.counts.corrupt_bytes == len(bad)


def test_a_window_without_rows_is_no_traffic_and_no_file(write_segments: Write, request_for: Make) -> None:
    write_segments({"f": [member(row("x", received_ms=END_MS))]})
    done = cut(request_for())
    assert (done.outcome, done.path, done.counts.rows, done.counts.members) == ("no_traffic", None, 0, 1)
    assert not Path(request_for().windows.root, "windows").exists()


def test_a_window_without_rows_is_not_silence_where_most_rows_are_malformed(
    write_segments: Write, request_for: Make
) -> None:
    newer, outside = row("n").replace(b"v1", b"v2"), row("x", received_ms=END_MS)
    other_event = b'{"event_type":"tool_end"}'
    write_segments({"f": [member(newer, newer, outside, other_event, other_event)]})
    with pytest.raises(CutError, match=r"2 of the 3 rows .* \(schema: 2\)") as raised:
        cut(request_for())
    assert raised.value.reason == "rows_refused"
    for rows in ([newer, outside], [newer, row("late", took_ms=99_000.0)], [other_event], []):
        write_segments({"f": [member(*rows)]})
        assert cut(request_for()).outcome == "no_traffic"
    write_segments({"f": [member(newer, newer, row("a"))]})
    assert ids(cut_rows(request_for())) == ["a"]


def test_refused_rows_are_counted_by_reason(write_segments: Write, request_for: Make) -> None:
    bad = [b"nonsense", b"{", row("x").replace(b"v1", b"v9"), b'{"event_type":"tool_end"}']
    write_segments({"f": [member(row("a"), *bad)]})
    done = cut(request_for())
    assert (done.counts.malformed, done.other_events) == (3, 1)
    assert done.malformed == {"json": 2, "schema": 1}


def test_only_segments_of_the_documented_name_and_kind_are_read(
    tmp_path: Path, write_segments: Write, request_for: Make
) -> None:
    pod = write_segments({"f": [member(row("good"))]}) / "f"
    other = member(row("other"))
    outside = tmp_path / "outside.jsonl.gz"
    outside.write_bytes(other)
    for name in (
        *("trace", "trace.000001", "trace.jsonl.gz", "trace.00001.jsonl.gz", "trace.000001.jsonl", "trace.000001.gz"),
        *(
            "trace.000001.jsonl.gz.tmp",
            "trace.000001.jsonl.lock",
            "trace.00000x.jsonl.gz",
            "trace.\u0660\u0660\u0660\u0660\u0660\u0661.jsonl.gz",
        ),
    ):
        (pod / name).write_bytes(other)
    (pod / "link.000001.jsonl.gz").symlink_to(outside)
    (pod / "directory.000001.jsonl.gz").mkdir()
    os.mkfifo(pod / "fifo.000001.jsonl.gz")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(pod / "socket.000001.jsonl.gz"))
        for number, name in enumerate(("trace.9999999.jsonl.gz", "a\nb.000123.jsonl.gz", ".000007.jsonl.gz")):
            (pod / name).write_bytes(member(row(f"seven {number}")))
        (pod.parent / "linked").symlink_to(pod)
        (pod.parent / "Not-A-Pod").mkdir()
        (pod.parent / "file").write_bytes(other)
        done = cut(request_for(mtime_margin_s=1e9))
    assert ids(published_rows(done)) == ["good", "seven 0", "seven 1", "seven 2"]
    assert done.counts.segments == 4


def test_a_segment_last_written_long_before_the_window_is_not_read(write_segments: Write, request_for: Make) -> None:
    write_segments({"old": [member(row("old"))]}, written_ms=START_MS - 600_001)
    write_segments({"new": [member(row("new"))]}, written_ms=START_MS - 599_999)
    done = cut(request_for())
    assert ids(published_rows(done)) == ["new"]
    assert done.counts.segments == 1


def test_a_segment_that_grows_is_read_up_to_its_length_at_the_start(write_segments: Write, request_for: Make) -> None:
    path = write_segments({"f": [member(row("a")), member(row("b"))]}) / "f" / "trace.000000.jsonl.gz"

    class Growing(Unsynced):
        def read(self, descriptor: int, size: int, offset: int) -> bytes:
            with path.open("ab") as segment:
                segment.write(member(row("c")))
            os.utime(path, (END_MS / 1000, END_MS / 1000))
            return super().read(descriptor, size, offset)

    done = cut(request_for(), filesystem=Growing())
    assert ids(published_rows(done)) == ["a", "b"]


def test_rows_of_a_member_that_is_too_large_to_keep_are_published_alike(
    tmp_path: Path, write_segments: Write, request_for: Make
) -> None:
    rows = [row(f"{number:05}", received_ms=START_MS + number * 7919 % 60_000) for number in range(4000)]
    write_segments({"f": [member(*rows)]})
    kept = cut_rows(request_for())
    limits = Limits(kept=1 << 16, batch=1 << 20)
    assert cut_rows(request_for(windows=Place(str(tmp_path), "again")), limits=limits) == kept
    assert len(kept) == 4000


def test_ids_that_memory_is_not_for_fail_the_window(write_segments: Write, request_for: Make) -> None:
    write_segments({"f": [member(*(row(f"{number:010}") for number in range(20)))]})
    with pytest.raises(CutError, match="200 bytes of ids") as raised:
        cut(request_for(), limits=Limits(ids=199))
    assert raised.value.reason == "window_too_large"
    assert cut(request_for(), limits=Limits(ids=200)).counts.rows == 20


@pytest.mark.parametrize("how", ["other rows", "gone", "shorter", "damaged"])
def test_a_segment_that_changes_between_the_passes_fails_the_cut(
    write_segments: Write, request_for: Make, how: str
) -> None:
    content = member(row("a"))
    path = write_segments({"f": [content]}) / "f" / "trace.000000.jsonl.gz"

    def replace() -> None:
        if how == "gone":
            path.unlink(missing_ok=True)
        else:
            path.write_bytes({"other rows": member(row("b")), "shorter": b"", "damaged": content[:-1] + b"?"}[how])

    class Replacing(Unsynced):
        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            replace()
            return super().write(descriptor, data)

    with pytest.raises(CutError, match=r"changed while the window was cut|cut again") as raised:
        cut(request_for(), filesystem=Replacing())
    assert raised.value.reason == "segments_changed"
    assert not list(Path(request_for().windows.root, "windows", "chat").iterdir())


@pytest.mark.parametrize(
    "name", ["", "Chat", "chat_1", "-chat", "chat-", "..", "a/b", "a..b", "chat\n", "x" * 254, "ä"]
)
def test_a_name_that_is_no_subdomain_is_refused(request_for: Make, name: str) -> None:
    with pytest.raises(UnsafePathError):
        request_for(name=name)


@pytest.mark.parametrize("below", ["/etc", "a//b", "a/", "./a", "a/../b", "..", "a\0b", "x/" * 600 + "x"])
def test_a_path_that_leaves_its_root_is_refused(below: str) -> None:
    with pytest.raises(UnsafePathError):
        Place("/", below)


@pytest.mark.parametrize("uid", ["x" * 37, 'a"b', "ä", "a\n"])
def test_a_uid_that_is_none_is_refused(request_for: Make, uid: str) -> None:
    with pytest.raises(UnsafePathError):
        request_for(deployment_uid=uid)


def test_no_link_below_a_root_is_followed(tmp_path: Path, write_segments: Write, request_for: Make) -> None:
    real = write_segments({"f": [member(row("a"))]})
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UnsafePathError, match="link"):
        cut(request_for(segments=Place(str(tmp_path), "link")))
    assert cut(request_for(segments=Place(str(tmp_path / "link")))).counts.rows == 1, "a root may be one"
    for target in ("windows-link", "windows-2/chat"):
        (tmp_path / target).parent.mkdir(exist_ok=True)
        (tmp_path / target).symlink_to(tmp_path / "elsewhere")
    for windows in ("windows-link", "windows-2"):
        with pytest.raises(UnsafePathError, match="link"):
            cut(request_for(windows=Place(str(tmp_path), windows)))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_directory_of_recordings_that_is_missing_is_said(tmp_path: Path, request_for: Make) -> None:
    with pytest.raises(CutError, match="No such file") as raised:
        cut(request_for(segments=Place(str(tmp_path), "nowhere")))
    assert raised.value.reason == "segments_unreadable"


def test_completeness_names_frontends_and_gaps_of_ten_seconds(write_segments: Write, request_for: Make) -> None:
    arrivals = {"a": [0, 9_999, 19_999, 50_000], "b": [12_000, 30_000], "silent": []}
    write_segments(
        {
            pod: [member(*(row(f"{pod}{at}", received_ms=START_MS + at) for at in times), row("z", received_ms=END_MS))]
            for pod, times in arrivals.items()
        }
    )
    completeness = cut(request_for()).completeness
    assert completeness.names == ("a", "b")
    assert completeness.gaps is not None
    gaps = [(gap.frontend, gap.start_ms - START_MS, gap.end_ms - START_MS) for gap in completeness.gaps]
    assert gaps == [
        ("a", 9_999, 19_999),
        ("a", 19_999, 50_000),
        ("a", 50_000, 60_000),
        ("b", 0, 12_000),
        ("b", 12_000, 30_000),
        ("b", 30_000, 60_000),
    ]
    assert completeness.gap_count == 6
    assert completeness.gap_ms == 10_000 + 30_001 + 10_000 + 12_000 + 18_000 + 30_000
