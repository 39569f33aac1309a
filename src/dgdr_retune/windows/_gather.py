"""Pass two of a cut: the rows themselves, in any order, from the segments."""

from collections.abc import Iterator
from itertools import groupby, pairwise

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
from dgdr_retune.windows._walk import Stretch, blocks, intact_at


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
        members = rows["member"][by_place]
        starts = rows["offset"][by_place].astype(np.int64)
        wanted = _Wanted(by_place.tolist(), starts.tolist(), (starts + rows["length"][by_place]).tolist())
        edges = [0, *(np.flatnonzero(np.diff(members)) + 1).tolist(), len(members)]
        runs = [(int(members[start]), slice(start, stop)) for start, stop in pairwise(edges)]
        lines = [b""] * len(indices)
        for segment, in_segment in groupby(runs, key=lambda run: table.member_segment[run[0]]):
            self._fill(lines, self.selection.segments[segment], in_segment, wanted)
        return lines

    def _fill(self, lines: list[bytes], segment: Segment, runs: Iterator[tuple[int, slice]], wanted: "_Wanted") -> None:
        changed = CutError("segments_changed", f"{segment} changed while the window was cut: cut again")
        table = self.selection.table
        try:
            with open_segment(self.filesystem, segment, segments=self.segments) as opened:
                for number, run in runs:
                    start = table.member_start[number]
                    member = intact_at(opened.source, start, backend=self.backend, limits=self.limits)
                    if member is None or member.crc != table.member_crc[number]:
                        raise changed
                    self._fill_from_member(lines, opened.source, member, wanted, run)
        except VanishedError:
            raise changed from None

    def _fill_from_member(
        self, lines: list[bytes], source: Source, member: Stretch, wanted: "_Wanted", run: slice
    ) -> None:
        spans = zip(wanted.places[run], wanted.starts[run], wanted.stops[run], strict=True)
        if (content := member.content) is not None:
            for place, start, stop in spans:
                lines[place] = content[start:stop]
            return
        held = blocks(source, member, backend=self.backend)
        at, block = next(held)
        for place, start, stop in spans:
            while start >= at + len(block):
                at, block = next(held)
            lines[place] = block[start - at : stop - at]


@frozen
class _Wanted:
    """Rows by member and offset: their places among those that are asked for, where they start and stop."""

    places: list[int]
    starts: list[int]
    stops: list[int]


def _request_id(line: bytes) -> bytes:
    row = judge(line)
    if isinstance(row, Row):
        return row.request_id.encode()
    raise AssertionError(f"a row that was selected is refused when it is read again: {row}")
