"""Through a segment, member by member, over whatever damage it has.

The stretches that a walk yields cover the segment without gap or overlap.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from attrs import frozen

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._gzip import MAGIC
from dgdr_retune.windows._member import Finding, Limits, Look, inflate, look
from dgdr_retune.windows._row import MAXIMUM_ROW
from dgdr_retune.windows._source import Source

_HOLE: Final = 16
"""Zero bytes in a row that no compressed data has: a hole that a crash left."""

_PIECE: Final = 1 << 20
"""Split into lines at once; a block of nothing but line ends would be millions of objects."""

_KNOWN_FLAGS: Final = 0x1F
_COST_OF_A_TRIAL: Final = 32 << 10
_WORK_PER_BYTE: Final = 64
_WORK_PER_SEGMENT: Final = 8


class Verdict(StrEnum):
    """What a stretch of a segment is."""

    INTACT = "intact"
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    TRUNCATED_TAIL = "truncated_tail"
    ZERO_FILL = "zero_fill"


@frozen
class Stretch:
    """A member, what is left of one, or a run of zeros.

    Attributes:
        verdict: what it is.
        start: its offset in the segment.
        length: bytes of the segment.
        size: bytes that an intact member holds.
        crc: their CRC32.
        content: the bytes themselves; None if they are too many to keep (see `lines`), or not intact.
        hole_bytes: bytes of a corrupt stretch that stand in holes of zeros.
    """

    verdict: Verdict
    start: int
    length: int
    size: int = 0
    crc: int = 0
    content: bytes | None = None
    hole_bytes: int = 0


def walk(source: Source, *, backend: Backend, limits: Limits) -> Iterator[Stretch]:
    """The stretches of a segment, from its start to its end.

    After damage the next member is found by scanning for a member's first bytes and trying what stands there, so a
    member is lost only if it is damaged itself. Where trials fail again and again (only an attacker's segment does
    that) the rest of the segment is given up as one corrupt stretch: the work is linear in the segment's length.
    """
    return _Walk(source, backend, limits).stretches()


def intact_at(source: Source, start: int, *, backend: Backend, limits: Limits) -> Stretch | None:
    """The intact member that stands at `start`, if one does; `backend` judges."""
    found = look(source, start, source.length, backend=backend, limits=limits)
    return _intact(start, found) if found.finding is Finding.INTACT else None


def blocks(source: Source, member: Stretch, *, backend: Backend) -> Iterator[tuple[int, bytes]]:
    """What an intact member holds, in blocks of whole lines: (offset within the member, bytes).

    A block has about a mebibyte, or one line. Of a line longer than `MAXIMUM_ROW` only so much is yielded that it can
    be told to be too long. A member's last line may lack its end.
    """
    if member.content is not None:
        yield from _pieces(0, member.content)
        return
    start = 0
    held: list[bytes] = []
    size = dropped = 0
    for part in inflate(source, member.start, source.length, backend=backend):
        rest = part
        if cut := part.rfind(b"\n") + 1:
            if dropped:
                yield start, b"".join(held)
                first = part.find(b"\n") + 1
                start += size + dropped + first
                held = [part[first:cut]]
            else:
                held.append(part[:cut])
            block = b"".join(held)
            yield from _pieces(start, block)
            start += len(block)
            rest = part[cut:]
            held, size, dropped = [], 0, 0
        if size <= MAXIMUM_ROW:
            held.append(rest)
            size += len(rest)
        else:
            dropped += len(rest)
    if size:
        yield start, b"".join(held)


def _pieces(start: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(block):
        stop = len(block) if len(block) - at <= _PIECE else block.find(b"\n", at + _PIECE) + 1 or len(block)
        yield start + at, block[at:stop]
        at = stop


class _Walk:
    def __init__(self, source: Source, backend: Backend, limits: Limits) -> None:
        self._source = source
        self._backend = backend.judging()
        self._limits = limits
        self._end = source.length
        self._work_left = _WORK_PER_SEGMENT * limits.member + _WORK_PER_BYTE * source.length
        self._data_end: int | None = None

    def stretches(self) -> Iterator[Stretch]:
        at = 0
        ahead = 0
        while at < self._end:
            if self._source.view(at, 1)[0] == 0:
                run = self._source.zeros(at, self._end)
                yield Stretch(Verdict.ZERO_FILL, at, run)
                at += run
                continue
            found = self._look(at)
            if found.finding is Finding.INTACT:
                yield _intact(at, found)
                at += found.length
                continue
            data_end = self._where_data_ends()
            if found.finding is Finding.INCOMPLETE and ahead <= at:
                ahead = self._next_intact(at + 1)
                if ahead < 0 < self._work_left:
                    yield Stretch(Verdict.TRUNCATED_TAIL, at, data_end - at)
                    at = data_end
                    continue
            stop = self._next_candidate(at + 1, data_end) if self._work_left > 0 else data_end
            verdict = Verdict.TOO_LARGE if found.finding is Finding.TOO_LARGE else Verdict.CORRUPT
            yield Stretch(verdict, at, stop - at, hole_bytes=self._hole_bytes(at, stop))
            at = stop

    def _look(self, at: int) -> Look:
        found = look(self._source, at, self._end, backend=self._backend, limits=self._limits)
        if found.finding is Finding.INTACT:
            return found
        self._charge(found)
        stop = self._where_data_ends()
        if stop == self._end:
            return found
        # What stands before a zero fill at the end of the segment may be a member cut short.
        found = look(self._source, at, stop, backend=self._backend, limits=self._limits)
        self._charge(found)
        return found

    def _next_intact(self, start: int) -> int:
        at = self._next_candidate(start, self._end)
        while at < self._end and self._work_left > 0:
            found = look(self._source, at, self._end, backend=self._backend, limits=self._limits)
            if found.finding is Finding.INTACT:
                return at
            self._charge(found)
            at = self._next_candidate(at + 1, self._end)
        return -1

    def _next_candidate(self, start: int, stop: int) -> int:
        at = start
        while (at := self._source.find(MAGIC, at, stop)) >= 0:
            flags = self._source.view(at + len(MAGIC), 1)
            if len(flags) == 0 or flags[0] <= _KNOWN_FLAGS:
                return at
            at += 1
        return stop

    def _where_data_ends(self) -> int:
        if self._data_end is None:
            zeros = self._source.trailing_zeros()
            self._data_end = self._end - zeros if zeros >= _HOLE else self._end
        return self._data_end

    def _hole_bytes(self, start: int, stop: int) -> int:
        total = 0
        at = start
        while (at := self._source.find(bytes(_HOLE), at, stop)) >= 0:
            run = self._source.zeros(at, stop)
            total += run
            at += run
        return total

    def _charge(self, found: Look) -> None:
        self._work_left -= _COST_OF_A_TRIAL + found.consumed + found.size


def _intact(start: int, found: Look) -> Stretch:
    return Stretch(Verdict.INTACT, start, found.length, found.size, found.crc, found.content)
