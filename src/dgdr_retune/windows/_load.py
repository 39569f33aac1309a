"""Reading a published window, or rows that somebody else wrote: the header alone, or all of it, checked.

Of a file that this project did not cut, the events that every loader skips are skipped: such a file is as it was
recorded, and Dynamo's frontend records tools too. In a window that was cut they are damage.
"""

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._completeness import Completeness
from dgdr_retune.windows._counts import Counts
from dgdr_retune.windows._errors import WindowCorruptError
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._gzip import MAXIMUM_HEADER, comment_of
from dgdr_retune.windows._header import WindowHeader, decode_comment
from dgdr_retune.windows._judge import judge_block
from dgdr_retune.windows._judge_in_full import kind_of
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._row import Refusal, Row
from dgdr_retune.windows._source import Source
from dgdr_retune.windows._walk import blocks, intact_at

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NAME_SHOWN: Final = 50


@frozen
class LoadedWindow:
    """A published window that was checked as a whole.

    Attributes:
        path: of its file; the rows are read from there, and checked again, each time they are asked for.
        header: what it says about itself.
    """

    path: Path
    header: WindowHeader

    def lines(self) -> Iterator[bytes]:
        """The rows as they were recorded, without line ends, in the order (start, end, request id).

        Of a file that says nothing, in its own order; its other events are left out.

        Raises:
            WindowCorruptError: at the end, if the file has changed since it was loaded.
        """
        for block in self._blocks():
            if self.header.sha256 is None:
                yield from (line for line, _ in _rows(block))
            else:
                yield from filter(bytes.strip, block.split(b"\n"))

    def rows(self) -> Iterator[Row]:
        """What the rows say, in the order of `lines`.

        Raises:
            WindowCorruptError: as `lines`, and for a row that is not valid.
        """
        is_cut = self.header.sha256 is not None
        for block in self._blocks():
            yield from (row for _, row in _rows(block, is_cut=is_cut))

    def _blocks(self) -> Iterator[bytes]:
        digest = hashlib.sha256()
        with open_window(self.path) as source:
            for block in _content(self.path, source, is_cut=self.header.sha256 is not None):
                digest.update(block)
                yield block
        if self.header.sha256 not in (None, digest.hexdigest()):
            raise _corrupt(self.path, "it has changed since it was loaded", is_cut=True)


def decode_rows(lines: Iterable[bytes]) -> Iterator[Row]:
    """What rows say, without those of other events that every loader skips.

    Raises:
        WindowCorruptError: at a row that is not valid.
    """
    for line in lines:
        yield from (row for _, row in _rows(line))


def read_header(path: str | os.PathLike[str]) -> WindowHeader:
    """What a published window says about itself, from its first bytes; a file that says nothing is read and counted.

    Raises:
        WindowCorruptError: it is no regular file, or says nothing and is not whole.
        OSError: as the system says.
    """
    path = Path(path)
    with open_window(path) as source:
        return header_of(source, path=path)


def load_window(path: str | os.PathLike[str]) -> LoadedWindow:
    """A published window, whole and checked: CRC, row count and digest; of a file that says nothing, every row.

    Raises:
        WindowCorruptError: it does not hold what it says, or a row that no replay would take.
        OSError: as the system says.
    """
    path = Path(path)
    with open_window(path) as source:
        header = decode_comment(_comment(source))
        if header is None:
            return LoadedWindow(path, _count(path, source))
        digest = hashlib.sha256()
        rows = 0
        for block in _content(path, source, is_cut=True):
            digest.update(block)
            rows += block.count(b"\n")
        if digest.hexdigest() != header.sha256:
            raise _corrupt(path, "its rows are not those that its header names", is_cut=True)
        if rows != header.counts.rows:
            raise _corrupt(path, f"it has {rows} rows, its header says {header.counts.rows}", is_cut=True)
        return LoadedWindow(path, header)


def header_of(source: Source, *, path: Path) -> WindowHeader:
    """As `read_header`, of an open file."""
    return decode_comment(_comment(source)) or _count(path, source)


@contextmanager
def open_window(
    path: Path, *, filesystem: Filesystem | None = None, name: str | None = None, directory: int | None = None
) -> Iterator[Source]:
    """A window file's bytes; `name` and an open directory stand for a path that must not be followed.

    Raises:
        WindowCorruptError: it is a link, or no regular file.
        OSError: as the system says.
    """
    filesystem = filesystem or Filesystem()
    with ExitStack() as stack:
        try:
            descriptor = filesystem.open(name or str(path), _READ, directory=directory)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _corrupt(path, "it is a link", is_cut=False) from None
            raise
        stack.callback(filesystem.close, descriptor)
        status = filesystem.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _corrupt(path, "it is no regular file", is_cut=False)
        yield Source(lambda size, offset: filesystem.read(descriptor, size, offset), status.st_size)


def _comment(source: Source) -> bytes:
    return comment_of(source.view(0, MAXIMUM_HEADER).tobytes()) or b""


def _content(path: Path, source: Source, *, is_cut: bool) -> Iterator[bytes]:
    backend = Backend.fastest().judging()
    # The rows of a window stand in one member however many they are. It is read in blocks, so it needs no cap.
    limits = Limits(member=sys.maxsize)
    at = 0
    try:
        while at < source.length:
            member = intact_at(source, at, backend=backend, limits=limits)
            if member is None:
                raise _corrupt(path, f"no intact gzip member stands at byte {at}", is_cut=is_cut)
            for _, block in blocks(source, member, backend=backend):
                yield block
            at += member.length
    except EOFError:
        raise _corrupt(path, "it has become shorter while it was read", is_cut=is_cut) from None


def _count(path: Path, source: Source) -> WindowHeader:
    rows = 0
    ids: set[bytes] = set()
    block_sizes: set[int] = set()
    for block in _content(path, source, is_cut=False):
        for _, row in _rows(block):
            rows += 1
            ids.add(hashlib.blake2b(row.request_id.encode(), digest_size=16).digest())
            block_sizes.add(row.block_size)
            if row.agent:
                raise _corrupt(path, f"request {rows} belongs to an agent's session", is_cut=False)
    if rows == 0 or len(ids) != rows or len(block_sizes) != 1:
        what = f"{rows} rows with {len(ids)} request ids and {len(block_sizes)} block sizes"
        raise _corrupt(path, what, is_cut=False)
    return WindowHeader(
        window=None,
        deployment_uid="",
        sha256=None,
        counts=Counts(rows=rows),
        completeness=Completeness(rows=rows, frontends=0, fingerprints=None, gap_count=0, gap_ms=0),
    )


def _rows(block: bytes, *, is_cut: bool = False) -> Iterator[tuple[bytes, Row]]:
    """The lines of requests, and what they say."""
    for line, row in zip(*judge_block(block), strict=True):
        if isinstance(row, Row):
            yield line, row
            continue
        is_other = row is Refusal.OTHER_EVENT
        if row is None or (is_other and not is_cut and kind_of(line).is_skipped):
            continue
        what = f"{row} {ascii(kind_of(line).event_type)[:_NAME_SHOWN]}" if is_other else row
        advice = _advice(is_cut=is_cut)
        raise WindowCorruptError(f"a row is not one that a replay takes ({what}): {advice}")


def _corrupt(path: Path, what: str, *, is_cut: bool) -> WindowCorruptError:
    return WindowCorruptError(f"{ascii(str(path))[1:-1]}: {what}: {_advice(is_cut=is_cut)}")


def _advice(*, is_cut: bool) -> str:
    return "remove the file, so that it is cut again" if is_cut else "mend the file, or take another"
