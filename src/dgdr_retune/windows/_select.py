"""Pass one of a cut: which rows belong to the window."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
from attrs import Factory, define
from numpy.typing import NDArray

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._errors import CutError
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._judge import judge_block
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._request import CutRequest
from dgdr_retune.windows._row import Refusal, Row
from dgdr_retune.windows._scan import Damage, scan
from dgdr_retune.windows._segments import OpenSegment, Segment, VanishedError, open_segment
from dgdr_retune.windows._table import Table


@define
class Selection:
    """What pass one found.

    Attributes:
        segments: those that were read, in order; the table's members name them by their place here.
        table: rows that arrived in the window and ended by its cutoff.
        censored: rows that arrived in the window and ended later.
        valid: valid rows that were read, of the window or not.
        refusals: rows that are not used, by reason.
        damage: what the segments are made of.
    """

    segments: list[Segment] = Factory(list)
    table: Table = Factory(Table)
    censored: int = 0
    valid: int = 0
    refusals: Counter[Refusal] = Factory(Counter)
    damage: Damage = Factory(Damage)

    @property
    def malformed(self) -> dict[str, int]:
        """Rows that are not valid, by reason, those of other events excluded."""
        refused = sorted(self.refusals.items())
        return {refusal.value: count for refusal, count in refused if refusal is not Refusal.OTHER_EVENT}

    def arrivals(self) -> dict[str, NDArray[np.uint64]]:
        """When the selected rows arrived, unix milliseconds, by frontend."""
        rows = self.table.rows()
        pods = sorted({segment.pod for segment in self.segments})
        pod_of_segment = np.array([pods.index(segment.pod) for segment in self.segments], np.int64)
        pod_of_member = pod_of_segment[np.array(self.table.member_segment, np.int64)]
        pod_of_row = pod_of_member[rows["member"]]
        return {pod: rows["start"][pod_of_row == number] for number, pod in enumerate(pods)}


def check_size(table: Table, request: CutRequest) -> None:
    """Fail before memory does."""
    if len(table) > request.maximum_rows:
        raise CutError(
            "window_too_large",
            f"more than {request.maximum_rows} requests arrived in the window: "
            "shorten the interval, or raise the limit if the memory is there (100 bytes a row)",
        )


def recent(
    filesystem: Filesystem, listed: Iterable[Segment], *, segments: int, since_s: float
) -> list[tuple[Segment, int]]:
    """The segments that were written at or after `since_s`, by the storage's clock, with their lengths.

    Rows are written after they arrive, so an older segment cannot hold a row of the window.
    """
    found = []
    for segment in listed:
        with suppress(VanishedError), open_segment(filesystem, segment, segments=segments) as opened:
            if opened.modified_s >= since_s:
                found.append((segment, opened.source.length))
    return found


def select(
    filesystem: Filesystem,
    listed: Iterable[Segment],
    *,
    segments: int,
    request: CutRequest,
    backend: Backend,
    limits: Limits,
) -> Selection:
    """Read `listed` below the open directory `segments`; one that vanishes leaves no trace.

    Raises:
        CutError: `window_too_large`, `segments_unreadable`, `segments_changed`.
    """
    selection = Selection()
    for segment in listed:
        mark = selection.table.mark()
        try:
            with open_segment(filesystem, segment, segments=segments) as opened:
                _select_from(opened, segment, selection, request=request, backend=backend, limits=limits)
        except VanishedError:
            selection.table.rewind(mark)
    return selection


def _select_from(
    opened: OpenSegment,
    segment: Segment,
    selection: Selection,
    *,
    request: CutRequest,
    backend: Backend,
    limits: Limits,
) -> None:
    start_ms, end_ms, cutoff_ms = request.window.start_ms, request.window.end_ms, request.window.cutoff_ms
    table = selection.table
    refusals: Counter[Refusal] = Counter()
    damage = Damage()
    censored = valid = 0
    current = None
    for member, start, block in scan(opened.source, backend=backend, limits=limits, damage=damage):
        lines, verdicts = judge_block(block)
        offset = start
        for line, row in zip(lines, verdicts, strict=True):
            length = len(line)
            if isinstance(row, Row):
                valid += 1
                if not start_ms <= row.received_ms < end_ms:
                    pass
                elif row.event_time_ms > cutoff_ms:
                    censored += 1
                else:
                    if member is not current:
                        table.add_member(segment=len(selection.segments), start=member.start, crc=member.crc)
                        current = member
                    table.append(row, offset=offset, length=length)
            elif row is not None:
                refusals[row] += 1
            offset += length + 1
        check_size(table, request)
    selection.segments.append(segment)
    selection.refusals.update(refusals)
    selection.damage.merge(damage)
    selection.censored += censored
    selection.valid += valid
