import gzip
import random
import struct
import time
import zlib
from pathlib import Path

import pytest
from window_cases import BACKENDS, member, members_of, row, source_of, stretches

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._row import MAXIMUM_ROW
from dgdr_retune.windows._scan import Damage
from dgdr_retune.windows._walk import Verdict, blocks, walk

GOOD = [member(*(row(f"{number}-{one}") for one in range(5))) for number in range(4)]
INTACT, CORRUPT, TAIL, ZEROS, TOO_LARGE = (
    Verdict.INTACT,
    Verdict.CORRUPT,
    Verdict.TRUNCATED_TAIL,
    Verdict.ZERO_FILL,
    Verdict.TOO_LARGE,
)


def verdicts(segment: bytes, backend: Backend | None = None, limits: Limits | None = None) -> list[Verdict]:
    found = stretches(segment, backend, limits)
    at = 0
    for stretch in found:
        assert stretch.start == at
        at += stretch.length
    assert at == len(segment)
    return [stretch.verdict for stretch in found]


def intact_contents(segment: bytes) -> list[bytes]:
    return [stretch.content or b"" for stretch in stretches(segment) if stretch.verdict is INTACT]


def damage(segment: bytes) -> Damage:
    total = Damage()
    for stretch in stretches(segment):
        total.add(stretch, segment_length=len(segment))
    return total


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes((content[at] ^ 0x10,)) + content[at + 1 :]


def still_whole(content: bytes) -> bool:
    """Some bits say nothing: time and system in the header, those behind the last deflate block."""
    try:
        return gzip.decompress(content) == gzip.decompress(GOOD[1])
    except (OSError, EOFError, zlib.error):
        return False


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_recorded_member_is_intact(recorded: Path, backend: Backend) -> None:
    for path in sorted(recorded.glob("*/*.gz")):
        segment = path.read_bytes()
        found = stretches(segment, backend)
        assert {stretch.verdict for stretch in found} == {INTACT}
        assert [stretch.content for stretch in found] == [gzip.decompress(one) for one in members_of(segment)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("left", range(1, len(GOOD[3])))
def test_a_tail_cut_anywhere_loses_its_own_rows_only_and_is_no_damage(backend: Backend, left: int) -> None:
    segment = b"".join(GOOD[:3]) + GOOD[3][:left]
    assert verdicts(segment, backend) == [INTACT, INTACT, INTACT, TAIL]
    total = damage(segment)
    assert (total.truncated_tails, total.tail_bytes, total.corrupt_members, total.corrupt_bytes) == (1, left, 0, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("from_end", range(1, 9))
def test_a_wrong_trailer_makes_a_member_corrupt(backend: Backend, from_end: int) -> None:
    wrong = flipped(GOOD[1], len(GOOD[1]) - from_end)
    assert verdicts(GOOD[0] + wrong + GOOD[2], backend) == [INTACT, CORRUPT, INTACT]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_flip_anywhere_costs_one_member_and_no_other(backend: Backend) -> None:
    for at in range(len(GOOD[1])):
        hit = flipped(GOOD[1], at)
        expected = [INTACT, INTACT if still_whole(hit) else CORRUPT, INTACT, INTACT]
        assert verdicts(GOOD[0] + hit + GOOD[2] + GOOD[3], backend) == expected, at


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_member_that_gzip_refuses_is_corrupt_though_a_backend_takes_it(backend: Backend) -> None:
    # The line "{}" with the right CRC32 and size, in a code of 257 words of 9 bits, which leaves 255 unused.
    incomplete = bytes.fromhex(
        "1f8b08000000000000ff05600208d0b66ddbb66ddbb66ddbb66ddbb66ddbb6e2cd17540006b0a1dd03000000"
    )
    with pytest.raises(zlib.error, match="lengths"):
        gzip.decompress(incomplete)
    assert backend.name == "zlib" or backend.decompressor().decompress(incomplete[10:]) == b"{}\n"
    assert verdicts(GOOD[0] + incomplete + GOOD[1], backend) == [INTACT, CORRUPT, INTACT]


def test_members_that_are_corrupt_one_after_the_other_are_counted_each() -> None:
    segment = GOOD[0] + flipped(GOOD[1], 30) + flipped(GOOD[2], 30) + GOOD[3]
    assert verdicts(segment) == [INTACT, CORRUPT, CORRUPT, INTACT]


@pytest.mark.parametrize("count", [1, 7, 8, 512, 1 << 20])
def test_zeros_after_the_last_member_are_counted_and_no_damage(count: int) -> None:
    segment = GOOD[0] + bytes(count)
    assert verdicts(segment) == [INTACT, ZEROS]
    total = damage(segment)
    assert total.zero_fill_bytes == total.zero_end_bytes == count
    assert not total.mostly_corrupt()


@pytest.mark.parametrize("count", [1, 7, 8, 512, 1 << 20])
def test_zeros_between_members_are_skipped_and_charged(count: int) -> None:
    segment = GOOD[0] + bytes(count) + GOOD[1]
    assert verdicts(segment) == [INTACT, ZEROS, INTACT]
    total = damage(segment)
    assert (total.zero_fill_bytes, total.zero_end_bytes) == (count, 0)
    assert total.mostly_corrupt() is (count > len(GOOD[0]) + len(GOOD[1]))


@pytest.mark.parametrize("size", [40, 4096, 1 << 20])
@pytest.mark.parametrize("across", [False, True], ids=["inside a member", "across a boundary"])
def test_a_hole_of_zeros_is_counted_and_what_follows_is_recovered(size: int, *, across: bool) -> None:
    first, second = (gzip.compress(random.Random(seed).randbytes(2 * size + 200)) for seed in (1, 2))  # noqa: S311
    start = len(first) - size // 2 if across else 100
    damaged = first + second
    damaged = damaged[:start] + bytes(size) + damaged[start + size :]
    segment = GOOD[0] + damaged + GOOD[2] + GOOD[3]
    assert intact_contents(segment)[-2:] == [gzip.decompress(GOOD[2]), gzip.decompress(GOOD[3])]
    total = damage(segment)
    assert size <= total.zero_fill_bytes <= size + 2
    assert total.zero_end_bytes == 0
    assert total.corrupt_members == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_member_that_a_crash_left_as_zeros_to_the_end_is_a_truncated_tail(backend: Backend) -> None:
    for left in range(11, len(GOOD[1]) - 3):
        segment = GOOD[0] + GOOD[1][:left] + bytes(4096)
        assert verdicts(segment, backend) == [INTACT, TAIL, ZEROS], left
        assert damage(segment).corrupt_bytes == 0


def test_garbage_at_the_end_is_corrupt_and_costs_nothing_else() -> None:
    segment = GOOD[0] + b"garbage!!"
    assert verdicts(segment) == [INTACT, CORRUPT]
    assert damage(segment).corrupt_bytes == len(b"garbage!!")


def test_a_member_that_was_cut_in_the_middle_of_a_segment_does_not_swallow_the_next() -> None:
    segment = GOOD[0] + GOOD[1][:-20] + GOOD[2] + GOOD[3]
    assert verdicts(segment) == [INTACT, CORRUPT, INTACT, INTACT]


def test_a_header_that_claims_the_following_members_as_its_field_does_not_hide_them() -> None:
    claim = b"\x1f\x8b\x08\x04" + bytes(6) + b"\xff\xff"
    assert verdicts(claim + GOOD[0] + GOOD[1]) == [CORRUPT, INTACT, INTACT]
    endless_name = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 70_000
    assert verdicts(endless_name + GOOD[0]) == [CORRUPT, INTACT]


def test_a_member_larger_than_the_cap_is_not_used_and_not_kept() -> None:
    limits = Limits(member=8 << 20, kept=1 << 16)
    bomb = gzip.compress(bytes(64 << 20), 9)
    assert verdicts(GOOD[0] + bomb + GOOD[1], limits=limits) == [INTACT, TOO_LARGE, INTACT]
    assert verdicts(gzip.compress(bytes(8 << 20), 9), limits=limits) == [INTACT]


def test_an_attackers_segment_costs_no_more_than_its_length_allows() -> None:
    # Stored blocks whose content is headers of members that go on to the end: each trial reads all that follows.
    nested = (b"\x1f\x8b\x08\x00" + bytes(6) + b"\x00" + struct.pack("<HH", 0xFFFF, 0) + b"x" * 20) * 30_000
    limits = Limits(member=1 << 20)
    started = time.process_time()
    found = stretches(nested, Backend.zlib(), limits)
    assert time.process_time() - started < 20
    assert all(one.verdict is CORRUPT for one in found)
    assert len(found) < 30_000, "it was given up"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "tiny", [pytest.param(gzip.compress(b""), id="empty"), pytest.param(member(row("a")), id="one row")]
)
def test_work_is_linear_in_the_number_of_tiny_members(backend: Backend, tiny: bytes) -> None:
    def cpu_time(count: int) -> float:
        segment = tiny * count
        started = time.process_time()
        assert len(stretches(segment, backend)) == count
        return time.process_time() - started

    cpu_time(1_000)
    assert cpu_time(100_000 if len(tiny) < 50 else 30_000) < 20 * max(cpu_time(10_000), 0.05)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_member_of_256_mb_is_read_in_time_and_in_flat_memory(backend: Backend) -> None:
    rows = b"".join(row(f"{number:08}") + b"\n" for number in range(1000))
    compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
    repeats = 256_000_000 // len(rows)
    segment = b"".join(compressor.compress(rows) for _ in range(repeats)) + compressor.flush()
    started = time.process_time()
    (found,) = stretches(segment, backend)
    assert (found.verdict, found.size, found.content) == (INTACT, repeats * len(rows), None)
    count = largest = at = 0
    for start, block in blocks(source_of(segment), found, backend=backend):
        assert start == at
        assert block.endswith(b"\n")
        at += len(block)
        count += block.count(b"\n")
        largest = max(largest, len(block))
    assert (at, count) == (found.size, repeats * 1000)
    assert largest < 8 << 20
    assert time.process_time() - started < 30


@pytest.mark.parametrize("kept", [16 << 20, 1 << 10], ids=["kept", "inflated again"])
def test_lines_end_at_0x0a_only_and_keep_their_offsets(kept: int) -> None:
    sizes = (0, 1, 5000, 3_000_000, 0, 20_000)
    lines = [random.Random(size).randbytes(size).replace(b"\n", b"\r") for size in sizes]  # noqa: S311
    content = b"\n".join(lines)
    segment = gzip.compress(content, 1)
    (found,) = stretches(segment, limits=Limits(kept=kept))
    pieces = list(blocks(source_of(segment), found, backend=Backend.zlib()))
    assert b"".join(block for _, block in pieces) == content
    assert all(content[start : start + len(block)] == block for start, block in pieces)
    assert all(block.endswith(b"\n") for _, block in pieces[:-1])


def test_a_line_beyond_the_cap_does_not_take_its_length_in_memory() -> None:
    segment = gzip.compress(b"first\n" + bytes(5 * MAXIMUM_ROW) + b"\nlast\nend", 1)
    (found,) = stretches(segment, limits=Limits(kept=1 << 20))
    pieces = list(blocks(source_of(segment), found, backend=Backend.zlib()))
    assert pieces[0] == (0, b"first\n")
    assert pieces[-1] == (6 + 5 * MAXIMUM_ROW + 6, b"end")
    assert pieces[-2] == (6 + 5 * MAXIMUM_ROW + 1, b"last\n")
    assert MAXIMUM_ROW < len(pieces[1][1]) < MAXIMUM_ROW + (8 << 20)


def test_a_segment_that_becomes_shorter_is_noticed() -> None:
    segment = b"".join(GOOD)
    source = source_of(segment)
    source.length += 1
    with pytest.raises(EOFError):
        list(walk(source, backend=Backend.zlib(), limits=Limits()))
