"""Pass two of a cut: the rows themselves, in any order, from the segments."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

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
from dgdr_retune.windows._table import Order, ties
from dgdr_retune.windows._walk import blocks, intact_at

_Wanted: TypeAlias = tuple[int, int, int, int]
"""Of a row: its place among those that are asked for, its member, offset in there, and length."""


@frozen(kw_only=True)
class Gatherer:
    """Reads selected rows again.

    A member is inflated once for all of its rows that are asked for together, and checked again: it must still hold
    what it held in pass one.
    """

    filesystem: Filesystem
    segments: int
    selection: Selection
    backend: Backend
    limits: Limits

    def batches(self, order: Order) -> Iterator[list[bytes]]:
        """The lines of these rows, in this order, as many at a time as memory allows.

        Raises:
            CutError: `segments_changed`, `segments_unreadable`.
        """
        for part in self._parts(order):
            yield self._lines(part)

    def by_request_id(self, order: Order) -> Order:
        """`order` with rows of the same start and end put in the order of their request ids.

        Raises:
            CutError: as `batches`, and `window_too_large` if their ids do not fit in memory.
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
        for part in self._parts(indices):
            for index, line in zip(part.tolist(), self._lines(part), strict=True):
                ids[index] = request_id = _request_id(line)
                held += len(request_id)
            if held > self.limits.ids:
                message = f"requests that arrived and ended in the same milliseconds have {held} bytes of ids"
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

    def _lines(self, indices: Order) -> list[bytes]:
        table = self.selection.table
        rows = table.rows()[indices]
        by_place = np.lexsort((rows["offset"], rows["member"]))
        wanted: Iterator[_Wanted] = zip(
            by_place.tolist(),
            *(rows[name][by_place].tolist() for name in ("member", "offset", "length")),
            strict=True,
        )
        lines = [b""] * len(indices)
        for segment, in_segment in groupby(wanted, key=lambda row: table.member_segment[row[1]]):
            self._fill(lines, self.selection.segments[segment], in_segment)
        return lines

    def _fill(self, lines: list[bytes], segment: Segment, wanted: Iterator[_Wanted]) -> None:
        changed = CutError("segments_changed", f"{segment} changed while the window was cut: cut again")
        try:
            with open_segment(self.filesystem, segment, segments=self.segments) as opened:
                for member, in_member in groupby(wanted, key=itemgetter(1)):
                    if not self._fill_from_member(lines, opened.source, member, in_member):
                        raise changed
        except VanishedError:
            raise changed from None

    def _fill_from_member(self, lines: list[bytes], source: Source, number: int, wanted: Iterator[_Wanted]) -> bool:
        table = self.selection.table
        member = intact_at(source, table.member_start[number], backend=self.backend, limits=self.limits)
        if member is None or member.crc != table.member_crc[number]:
            return False
        if (content := member.content) is not None:
            for place, _, offset, length in wanted:
                lines[place] = content[offset : offset + length]
            return True
        held = blocks(source, member, backend=self.backend)
        start, block = next(held)
        for place, _, offset, length in wanted:
            while offset >= start + len(block):
                start, block = next(held)
            lines[place] = block[offset - start : offset - start + length]
        return True


def _request_id(line: bytes) -> bytes:
    row = judge(line)
    if isinstance(row, Row):
        return row.request_id.encode()
    raise AssertionError(f"a row that was selected is refused when it is read again: {row}")
