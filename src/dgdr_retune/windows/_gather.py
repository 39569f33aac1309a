"""Pass two of a cut: the rows themselves, in any order, from the segments."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from tempfile import SpooledTemporaryFile
from typing import Final, TypeAlias

import numpy as np
from attrs import frozen

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._errors import CutError
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._judge import judge
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._row import Row
from dgdr_retune.windows._segments import Segment, VanishedError, open_segment
from dgdr_retune.windows._select import Selection
from dgdr_retune.windows._source import Source
from dgdr_retune.windows._table import Order, Rows, ties
from dgdr_retune.windows._walk import blocks, intact_at

_NOT_WANTED: Final = -2
_NOT_READ: Final = -1

_AT_ONCE: Final = 1 << 14
"""Spans that are Python objects at a time; those of all of a member's rows would take more memory than its bytes."""

_Span: TypeAlias = tuple[int, int, int, int]
"""Where a row stands: its index in the table, its member, its offset and length there."""


@frozen(kw_only=True)
class Gatherer:
    """Reads selected rows again.

    A member is read again once for their request ids and once for their lines, however its rows are spread over the
    order that is asked for, and checked each time: it must still hold what it held in pass one.
    """

    filesystem: Filesystem
    segments: int
    selection: Selection
    backend: Backend
    limits: Limits

    def batches(self, order: Order) -> Iterator[list[bytes]]:
        """The lines of these rows, in this order, as many at a time as memory allows.

        Raises:
            CutError: `segments_changed`, `segments_unreadable`, `storage_failed`.
        """
        try:
            with SpooledTemporaryFile(max_size=self.limits.batch) as file:
                spool = _Spool(file, self.selection.table.rows(), order)
                for part in self._parts(order):
                    yield self._lines(part, spool)
        except OSError as error:
            message = f"holding rows until it is their turn: {error.strerror}"
            raise CutError(
                "storage_failed", f"{message}: give the cutter a temporary directory (TMPDIR) with room for the rows"
            ) from error

    def by_request_id(self, order: Order) -> Order:
        """`order` with rows of the same start and end put in the order of their request ids.

        Raises:
            CutError: `segments_changed`, `segments_unreadable`, and `window_too_large` if their ids do not fit in
                memory.
        """
        tied = ties(self.selection.table.rows(), order)
        if not tied:
            return order
        ids = self._request_ids(np.concatenate([order[run] for run in tied]))
        ordered = order.copy()
        for run in tied:
            ordered[run] = sorted(order[run].tolist(), key=ids.__getitem__)
        return ordered

    def _request_ids(self, indices: Order) -> dict[int, bytes]:
        ids = {}
        held = 0
        for index, line in self._read(np.sort(indices)):
            ids[index] = request_id = _request_id(line)
            held += len(request_id)
            if held > self.limits.ids:
                message = f"requests that arrived and ended in the same milliseconds have at least {held} bytes of ids"
                raise CutError("window_too_large", f"{message}: shorten the interval")
        return ids

    def _parts(self, order: Order) -> Iterator[Order]:
        ends = np.cumsum(self.selection.table.rows()["length"][order], dtype=np.int64)
        at = 0
        while at < len(order):
            before = int(ends[at - 1]) if at else 0
            stop = max(at + 1, int(np.searchsorted(ends, before + self.limits.batch, side="right")))
            yield order[at:stop]
            at = stop

    def _lines(self, part: Order, spool: "_Spool") -> list[bytes]:
        lines = dict.fromkeys(part.tolist(), b"")
        lines.update(spool.held(part))
        for index, line in self._read(spool.not_read(part)):
            if index in lines:
                lines[index] = line
            else:
                spool.hold(index, line)
        return list(lines.values())

    def _read(self, indices: Order) -> Iterator[tuple[int, bytes]]:
        """The rows of ascending `indices`, each with its index."""
        member_segment = self.selection.table.member_segment
        for number, in_segment in groupby(self._spans(indices), key=lambda span: member_segment[span[1]]):
            segment = self.selection.segments[number]
            try:
                with open_segment(self.filesystem, segment, segments=self.segments) as opened:
                    for member, in_member in groupby(in_segment, key=itemgetter(1)):
                        yield from self._read_member(opened.source, segment, member, in_member)
                    del opened.source  # it refers to `opened` and would keep its block until cycles are collected
            except VanishedError:
                raise _changed(segment) from None

    def _spans(self, indices: Order) -> Iterator[_Span]:
        table = self.selection.table.rows()
        for at in range(0, len(indices), _AT_ONCE):
            some = indices[at : at + _AT_ONCE]
            rows = table[some]
            columns = (rows[name].tolist() for name in ("member", "offset", "length"))
            yield from zip(some.tolist(), *columns, strict=True)

    def _read_member(
        self, source: Source, segment: Segment, number: int, spans: Iterator[_Span]
    ) -> Iterator[tuple[int, bytes]]:
        table = self.selection.table
        member = intact_at(source, table.member_start[number], backend=self.backend, limits=self.limits)
        if member is None or member.crc != table.member_crc[number]:
            raise _changed(segment)
        read = blocks(source, member, backend=self.backend)
        at, block = next(read)
        for index, _, start, length in spans:
            while start >= at + len(block):
                at, block = next(read)
            yield index, block[start - at : start - at + length]


class _Spool:
    """Which rows of an order were read before their turn, and their lines, one after the other in `file`.

    A member's rows stand next to each other in the table, so one look at it finds all that are wanted later.
    """

    def __init__(self, file: SpooledTemporaryFile[bytes], rows: Rows, order: Order) -> None:
        self._file = file
        self._rows = rows
        self._at = np.full(len(rows), _NOT_WANTED, np.int64)
        self._at[order] = _NOT_READ
        self._first = np.searchsorted(rows["member"], np.arange(int(rows["member"][-1]) + 2, dtype=np.uint32))
        self._end = 0

    def not_read(self, part: Order) -> Order:
        """Ascending: the wanted rows of each member that has one in `part` that was not read yet."""
        members = np.unique(self._rows["member"][part[self._at[part] == _NOT_READ]])
        ranges = zip(self._first[members].tolist(), self._first[members + 1].tolist(), strict=True)
        indices: Order = np.concatenate([part[:0], *(np.arange(first, stop) for first, stop in ranges)])
        wanted: Order = indices[self._at[indices] == _NOT_READ]
        return wanted

    def held(self, part: Order) -> Iterator[tuple[int, bytes]]:
        """The lines of `part` that were read before."""
        indices = part[self._at[part] >= 0]
        indices = indices[np.argsort(self._at[indices])]
        columns = (self._at[indices].tolist(), self._rows["length"][indices].tolist())
        for index, at, length in zip(indices.tolist(), *columns, strict=True):
            self._file.seek(at)
            yield index, self._file.read(length)
        self._file.seek(self._end)

    def hold(self, index: int, line: bytes) -> None:
        """Keep a line until its turn."""
        self._file.write(line)
        self._at[index] = self._end
        self._end += len(line)


def _changed(segment: Segment) -> CutError:
    return CutError("segments_changed", f"{segment} changed while the window was cut: cut again")


def _request_id(line: bytes) -> bytes:
    row = judge(line)
    if isinstance(row, Row):
        return row.request_id.encode()
    raise AssertionError(f"a row that was selected is refused when it is read again: {row}")
