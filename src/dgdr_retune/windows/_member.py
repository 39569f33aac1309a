"""One gzip member: is it whole, and what does it hold?"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from attrs import frozen

from dgdr_retune.windows._backend import Backend, Decompressor
from dgdr_retune.windows._gzip import (
    MAXIMUM_HEADER,
    TRAILER,
    BrokenHeaderError,
    IncompleteHeaderError,
    header_length,
)
from dgdr_retune.windows._source import Source

_FIRST_FEED: Final = 16 * 1024
_LARGEST_FEED: Final = 1 << 20
_LARGEST_STEP: Final = 4 << 20
_PROBE: Final = 512


@frozen(kw_only=True)
class Limits:
    """What bounds memory and work.

    Attributes:
        member: bytes that a member may hold; a larger one is not used.
        kept: bytes of a member that are kept while it is checked; a larger one is inflated again to read its rows.
        batch: bytes of rows that are held to put them in order.
        ids: bytes of request ids that are held to put rows of equal times in order.
    """

    member: int = 512 << 20
    kept: int = 16 << 20
    batch: int = 16 << 20
    ids: int = 64 << 20


class Finding(StrEnum):
    """What a look at one place of a segment finds."""

    INTACT = "intact"
    BROKEN = "broken"
    INCOMPLETE = "incomplete"
    TOO_LARGE = "too_large"


@frozen
class Look:
    """What stands at one place of a segment.

    Attributes:
        finding: the verdict; only an intact member has a length, a CRC and perhaps its content.
        length: bytes of the member in the segment.
        size: bytes that it holds, or that came out before the verdict.
        crc: CRC32 of what it holds.
        content: what it holds; None if that was too much to keep.
        consumed: bytes that were read for the verdict.
    """

    finding: Finding
    size: int
    consumed: int
    length: int = 0
    crc: int = 0
    content: bytes | None = None


def look(source: Source, start: int, stop: int, *, backend: Backend, limits: Limits) -> Look:
    """Judge the member at `start`, which has to end by `stop`: framing, deflate stream, CRC32, ISIZE."""
    held: list[bytes] = []
    size = crc = 0
    stream = _Stream(source, start, stop, backend)
    try:
        for part in stream:
            size += len(part)
            crc = backend.crc32(part, crc)
            if size > limits.member:
                return Look(Finding.TOO_LARGE, size, stream.at - start)
            if size <= limits.kept:
                held.append(part)
            else:
                held.clear()
    except IncompleteHeaderError:
        return Look(Finding.INCOMPLETE, 0, stop - start)
    except (BrokenHeaderError, backend.error):
        return Look(Finding.BROKEN, size, stream.at - start)
    consumed = stream.at + TRAILER.size - start
    if not stream.ended or start + consumed > stop:
        return Look(Finding.INCOMPLETE, size, stop - start)
    intact = TRAILER.unpack(source.view(stream.at, TRAILER.size)) == (crc, size & 0xFFFFFFFF)
    if not intact:
        return Look(Finding.BROKEN, size, consumed)
    content = None if size > limits.kept else b"".join(held)
    return Look(Finding.INTACT, size, consumed, consumed, crc, content)


def inflate(source: Source, start: int, stop: int, *, backend: Backend) -> Iterator[bytes]:
    """What the intact member at `start` holds, in parts, for one that is too large to keep."""
    return iter(_Stream(source, start, stop, backend))


def _header_length(source: Source, start: int, stop: int) -> int:
    # Nearly every header has ten bytes; only one that does not end within a few hundred is worth a longer look.
    size = min(_PROBE, stop - start)
    try:
        return header_length(source.view(start, size).tobytes())
    except IncompleteHeaderError:
        return header_length(source.view(start, min(MAXIMUM_HEADER, stop - start)).tobytes())


class _Stream:
    """A member's content in parts; `at` is how far it was read, and the stream's end once it has `ended`.

    It is fed little at first and more as it goes on: what is fed beyond its end is copied, so a large feed would make
    many small members cost the square of their number, and a small one would make a large member slow.
    """

    def __init__(self, source: Source, start: int, stop: int, backend: Backend) -> None:
        self.at = start
        self.ended = False
        self._source = source
        self._stop = stop
        self._decompressor: Decompressor = backend.decompressor()

    def __iter__(self) -> Iterator[bytes]:
        self.at += _header_length(self._source, self.at, self._stop)
        decompressor = self._decompressor
        feed = _FIRST_FEED
        while self.at < self._stop:
            data = self._source.view(self.at, min(feed, self._stop - self.at))
            self.at += len(data)
            part = decompressor.decompress(data, _LARGEST_STEP)
            while part:
                yield part
                tail = decompressor.unconsumed_tail
                part = decompressor.decompress(tail, _LARGEST_STEP) if tail and not decompressor.eof else b""
            if decompressor.eof:
                self.at -= len(decompressor.unused_data)
                self.ended = True
                return
            feed = min(2 * feed, _LARGEST_FEED)
