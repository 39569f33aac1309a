"""What a published window says about itself, and what it takes to be believed."""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from window_cases import RECORDED, START_MS, WINDOW, Unsynced, line, member, other, record, row

from dgdr_retune.windows import (
    Completeness,
    Counts,
    CutRequest,
    WindowCorruptError,
    WindowHeader,
    cut,
    decode_rows,
    load_window,
    read_header,
)
from dgdr_retune.windows._completeness import digest, fingerprint
from dgdr_retune.windows._gzip import MAXIMUM_COMMENT, TRAILER, comment_of, header_with_comment
from dgdr_retune.windows._header import decode_comment, encode_comment
from dgdr_retune.windows._member import Limits

Make = Callable[..., CutRequest]
Write = Callable[..., Path]


def header(frontends: int = 2, *, size: int = 0, uid: str = "") -> WindowHeader:
    names = [f"chat-frontend-{number}" for number in range(frontends)]
    return WindowHeader(
        window=WINDOW,
        deployment_uid=uid,
        sha256="a1" * 32,
        counts=Counts(
            rows=size,
            censored=size,
            duplicates=size,
            malformed=size,
            segments=size,
            members=size,
            corrupt_members=size,
            corrupt_bytes=size * 1000,
            truncated_tails=size,
            zero_fill_bytes=size * 1000,
            bytes=size * 1000,
        ),
        completeness=Completeness(
            rows=size,
            frontends=frontends,
            fingerprints=tuple(sorted(map(fingerprint, names))),
            gap_count=size,
            gap_ms=size * 1000,
            digest=digest(names),
        ),
    )


@given(frontends=st.integers(0, 60), size=st.integers(0, 10**8), uid=st.sampled_from(["", "0" * 36]))
def test_a_comment_is_read_back_as_it_was_written(frontends: int, size: int, uid: str) -> None:
    written = header(frontends, size=size, uid=uid)
    comment = encode_comment(written)
    assert len(comment) <= MAXIMUM_COMMENT
    assert comment.isascii()
    assert "\0" not in comment
    back = decode_comment(comment.encode())
    assert back is not None
    wrote, read = written.completeness, back.completeness
    rest = len(comment)
    if read.digest is not None:
        rest -= len(',"digest":""') + len(read.digest)
        assert (read.fingerprints, read.digest) == (None, wrote.digest)
    if read.fingerprints is None:
        assert rest + frontends * 4 + len(',"seen":""') > MAXIMUM_COMMENT
        assert read.digest or rest + len(',"digest":""') + 16 > MAXIMUM_COMMENT
    assert evolve(back, completeness=evolve(read, fingerprints=wrote.fingerprints, digest=wrote.digest)) == written


def test_the_comment_of_a_large_deployment_has_room_for_fifteen_frontends_and_a_digest_of_more() -> None:
    counts = Counts(
        rows=999_999,
        censored=9_999,
        duplicates=99,
        malformed=99,
        segments=999,
        members=99_999,
        corrupt_members=9,
        corrupt_bytes=99_999,
        truncated_tails=9,
        zero_fill_bytes=4_096,
        bytes=9_999_999_999,
    )
    large = evolve(header(15, uid="0" * 36), counts=counts)
    back = decode_comment(encode_comment(large).encode())
    assert back is not None
    assert back.completeness.fingerprints == large.completeness.fingerprints
    larger = evolve(header(200, uid="0" * 36), counts=counts)
    back = decode_comment(encode_comment(larger).encode())
    assert back is not None
    assert back.completeness.shortfalls(expected=[f"chat-frontend-{number}" for number in range(200)]) == ()
    assert back.completeness.shortfalls(expected=[f"chat-frontend-{number}" for number in range(201)])


@pytest.mark.parametrize(
    "comment",
    [
        b"",
        b"hello",
        b"[]",
        b"\xff\xfe",
        encode_comment(header()).replace('"v":1', '"v":2').encode(),
        encode_comment(header()).replace('"rows":0', '"rows":-1').encode(),
        encode_comment(header()).replace('"rows":0', '"rows":"0"').encode(),
        encode_comment(header()).replace('"rows":0,', "").encode(),
        encode_comment(header()).replace("a1", "A1").encode(),
        encode_comment(header()).replace('"gaps":[0,0]', '"gaps":[0]').encode(),
    ],
)
def test_what_another_wrote_is_no_comment_of_ours(comment: bytes) -> None:
    assert decode_comment(comment) is None


@pytest.fixture
def window(write_segments: Write, request_for: Make) -> Path:
    rows = [row(f"{number}", received_ms=START_MS + number * 100) for number in range(100)]
    write_segments({"frontend-0": [member(*rows[:60])], "frontend-1": [member(*rows[60:])]})
    return Path(str(cut(request_for(deployment_uid="0-1-2"), filesystem=Unsynced()).path))


def test_a_window_of_many_frontends_may_be_applied_when_it_is_reused(write_segments: Write, request_for: Make) -> None:
    names = [f"chat-frontend-{number}" for number in range(60)]
    write_segments({name: [member(row(name))] for name in names})
    for outcome in ("published", "reused"):
        done = cut(request_for(), filesystem=Unsynced())
        assert done.outcome == outcome
        assert done.completeness.shortfalls(expected=names, minimum_rows=60) == ()
        assert done.completeness.shortfalls(expected=[*names, "chat-frontend-60"])


def test_a_published_window_has_the_documented_form(window: Path) -> None:
    content = window.read_bytes()
    assert content[:10] == bytes.fromhex("1f8b08100000000000ff")
    facts = json.loads(comment_of(content) or b"")
    rows = gzip.decompress(content)
    assert facts["v"] == 1
    assert (facts["start"], facts["end"], facts["cutoff"]) == (WINDOW.start_ms, WINDOW.end_ms, WINDOW.cutoff_ms)
    assert (facts["uid"], facts["rows"], facts["frontends"]) == ("0-1-2", 100, 2)
    assert facts["sha256"] == hashlib.sha256(rows).hexdigest()
    stream = zlib.decompressobj(31)
    assert stream.decompress(content) == rows
    assert (stream.eof, stream.unused_data) == (True, b"")


def test_a_header_is_read_without_what_follows_it(window: Path, tmp_path: Path) -> None:
    (tmp_path / "head").write_bytes(window.read_bytes()[:600])
    assert read_header(tmp_path / "head") == read_header(window)


def test_a_loaded_window_has_its_rows_as_recorded_and_as_values(window: Path) -> None:
    loaded = load_window(window)
    lines = list(loaded.lines())
    assert b"".join(one + b"\n" for one in lines) == gzip.decompress(window.read_bytes())
    rows = list(loaded.rows())
    assert rows == list(decode_rows(lines))
    assert [one.request_id for one in rows] == [str(number) for number in range(100)]
    assert rows[7].received_ms == START_MS + 700
    assert rows[7].hashes == [2**63 + 1, 2**63 + 18, 2**63 + 35]


def rewritten(window: Path, rows: bytes, comment: bytes | None = None) -> None:
    head = header_with_comment((comment or comment_of(window.read_bytes()) or b"").decode())
    body = zlib.compress(rows, wbits=-15)
    trailer = zlib.crc32(rows).to_bytes(4, "little") + (len(rows) & 0xFFFFFFFF).to_bytes(4, "little")
    window.write_bytes(head + body + trailer)


def test_a_window_that_is_not_what_its_header_says_is_corrupt(window: Path) -> None:
    content = window.read_bytes()
    rows = gzip.decompress(content)
    comment = comment_of(content) or b""

    def is_corrupt() -> bool:
        with pytest.raises(WindowCorruptError) as raised:
            load_window(window)
        return raised.value.reason == "window_corrupt"

    for at in (-1, -5, len(content) // 2, 700):
        broken = bytearray(content)
        broken[at] ^= 0x10
        window.write_bytes(bytes(broken))
        assert is_corrupt()
    for cut_at in (1, 100, len(content) - 600):
        window.write_bytes(content[:-cut_at])
        assert is_corrupt()
    for more in (b"\0", b"garbage", member(row("more"))):
        window.write_bytes(content + more)
        assert is_corrupt()
    rewritten(window, rows[: rows.rindex(b"\n", 0, -1) + 1])
    assert is_corrupt()
    rewritten(window, rows.replace(b'"output_tokens":8', b'"output_tokens":9', 1))
    assert is_corrupt()
    rewritten(window, rows, comment.replace(b'"rows":100', b'"rows":101'))
    assert is_corrupt()
    rewritten(window, rows, comment)
    assert load_window(window).header.counts.rows == 100


def test_rows_that_no_replay_takes_are_found_though_the_digest_is_right(window: Path) -> None:
    rows = gzip.decompress(window.read_bytes()).replace(b'"output_tokens":8', b'"output_tokens":-8')
    comment = json.loads(comment_of(window.read_bytes()) or b"") | {"sha256": hashlib.sha256(rows).hexdigest()}
    rewritten(window, rows, json.dumps(comment, separators=(",", ":")).encode())
    with pytest.raises(WindowCorruptError, match="field"):
        list(load_window(window).rows())


def test_a_window_of_more_rows_than_a_member_of_a_segment_may_hold_is_loaded(window: Path) -> None:
    rows = b"".join(row(f"{number:04}") + b"\n" for number in range(1500))
    times = Limits().member // len(rows) + 1
    compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
    chunk = compressor.compress(rows) + compressor.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compress(b"", wbits=-15)
    digest = hashlib.sha256()
    crc = 0
    for _ in range(times):
        digest.update(rows)
        crc = zlib.crc32(rows, crc)
    facts = {"sha256": digest.hexdigest(), "rows": 1500 * times}
    comment = json.loads(comment_of(window.read_bytes()) or b"") | facts
    head = header_with_comment(json.dumps(comment, separators=(",", ":")))
    window.write_bytes(head + chunk * times + last + TRAILER.pack(crc, len(rows) * times))
    loaded = load_window(window)
    assert loaded.header.counts.rows == 1500 * times
    assert next(loaded.lines()) == row("0000")


def test_a_window_that_changes_after_it_was_loaded_is_noticed(window: Path) -> None:
    loaded = load_window(window)
    rewritten(window, gzip.decompress(window.read_bytes()) + row("more") + b"\n")
    with pytest.raises(WindowCorruptError, match="changed"):
        list(loaded.lines())


@pytest.mark.parametrize("level", [1, 9])
def test_a_file_that_says_nothing_is_counted_and_taken_if_its_rows_are_valid(tmp_path: Path, level: int) -> None:
    path = tmp_path / "foreign.jsonl.gz"
    path.write_bytes(member(row("a"), level=level) + member(line(record("b"), bare=True), b"", level=level))
    loaded = load_window(path)
    assert loaded.header == read_header(path)
    assert (loaded.header.window, loaded.header.sha256, loaded.header.counts) == (None, None, Counts(rows=2))
    assert [one.request_id for one in loaded.rows()] == ["a", "b"]
    (missing,) = loaded.header.completeness.shortfalls(expected=["frontend-0"])
    assert missing.reason == "frontends_unknown"


UNUSABLE = {
    "a malformed row": member(row("a"), b"nonsense"),
    "an event that no loader knows": member(row("a"), other("router_selection")),
    "an event of another schema": member(row("a"), other("tool_end", schema="dynamo.request.trace.v2")),
    "an event without a schema": member(row("a"), b'{"event_type":"tool_end"}'),
    "a repeated id": member(row("a"), row("a")),
    "two block sizes": member(row("a"), row("b", input_length=64).replace(b'size":64', b'size":65')),
    "an agent": member(line(record("a") | {"agent_context": {"session_id": "s"}})),
    "no row": member(b""),
    "nothing": b"",
    "no gzip": b"plain text\n",
    "a truncated member": member(row("a"))[:-4],
    "zeros": member(row("a")) + bytes(4),
}


@pytest.mark.parametrize("content", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_file_that_says_nothing_and_is_not_whole_and_valid_is_corrupt(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.jsonl.gz"
    path.write_bytes(content)
    for read in (read_header, load_window):
        with pytest.raises(WindowCorruptError):
            read(path)


def test_of_a_file_that_nobody_cut_the_events_that_every_loader_skips_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "foreign.jsonl.gz"
    tools = [other(name, tool={"tool_class": "x"}) for name in ("tool_start", "tool_end", "tool_error")]
    lines = [tools[0], row("a"), other("request_payload", bare=True, payload={"x": [{}]}), row("b"), *tools[1:]]
    path.write_bytes(member(*lines))
    loaded = load_window(path)
    assert loaded.header.counts == read_header(path).counts == Counts(rows=2)
    assert list(loaded.lines()) == [row("a"), row("b")]
    assert list(loaded.rows()) == list(decode_rows(lines))
    assert [one.request_id for one in loaded.rows()] == ["a", "b"]


def test_an_event_that_no_loader_knows_is_named_and_nobody_is_told_to_cut_a_file_that_nobody_cut(
    tmp_path: Path,
) -> None:
    path = tmp_path / "foreign.jsonl.gz"
    for content in UNUSABLE.values():
        path.write_bytes(content)
        with pytest.raises(WindowCorruptError, match=r"mend the file, or take another$"):
            load_window(path)
    with pytest.raises(WindowCorruptError, match=r"\(other_event 'router_selection\\n'\): mend"):
        list(decode_rows([other("router_selection\n")]))


def test_in_a_window_that_was_cut_another_event_is_damage(window: Path) -> None:
    rows = gzip.decompress(window.read_bytes()).replace(row("0"), other("tool_end"))
    comment = json.loads(comment_of(window.read_bytes()) or b"") | {"sha256": hashlib.sha256(rows).hexdigest()}
    rewritten(window, rows, json.dumps(comment, separators=(",", ":")).encode())
    with pytest.raises(WindowCorruptError, match=r"remove the file, so that it is cut again$"):
        list(load_window(window).rows())


def test_a_published_file_that_says_nothing_is_reused_and_not_replaced(window: Path, request_for: Make) -> None:
    content = member(row("theirs"))
    window.write_bytes(content)
    done = cut(request_for())
    assert (done.outcome, done.counts, done.sha256) == ("reused", Counts(rows=1), None)
    assert window.read_bytes() == content


def test_only_a_regular_file_is_a_window(window: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(window)
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "directory", "fifo"):
        with pytest.raises(WindowCorruptError):
            load_window(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load_window(tmp_path / "nothing")


def test_a_name_that_is_hostile_does_not_reach_a_message_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31m\n\u202e<script>.jsonl.gz"
    path.write_bytes(b"x")
    with pytest.raises(WindowCorruptError) as raised:
        load_window(path)
    assert str(raised.value).isascii()
    assert str(raised.value).isprintable()


def test_a_segment_of_one_frontend_can_stand_for_a_window() -> None:
    path = RECORDED / "frontend-0" / "trace.000000.jsonl.gz"
    assert load_window(path).header.counts == Counts(rows=1500)
