"""What is in a directory of segments, without cutting anything."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress

from attrs import frozen

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._judge import judge_block
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._request import Place
from dgdr_retune.windows._row import Refusal, Row
from dgdr_retune.windows._scan import Damage, scan
from dgdr_retune.windows._segments import (
    OpenSegment,
    Segment,
    VanishedError,
    list_segments,
    open_recordings,
    open_segment,
)
from dgdr_retune.windows._window import Window


@frozen(kw_only=True)
class SegmentReport:
    """What is in one segment.

    Attributes:
        name: of the file; it may hold any character.
        rows: valid `request_end` rows.
        refused: other rows by reason, those of other events under `other_event`.
        first_arrival_ms: of the valid rows, unix milliseconds; None without one.
        last_arrival_ms: as `first_arrival_ms`.
        block_sizes: of the valid rows, in tokens, ascending.
        damage: members and bytes.
    """

    name: str
    rows: int
    refused: Mapping[str, int]
    first_arrival_ms: int | None
    last_arrival_ms: int | None
    block_sizes: tuple[int, ...]
    damage: Damage


@frozen
class PodReport:
    """What is in one frontend pod's directory; segments in order of their index."""

    pod: str
    segments: tuple[SegmentReport, ...]


@frozen
class Inspection:
    """What is in a directory of segments.

    Attributes:
        pods: sorted by name, those without a segment too.
        ignored: other names that were found, sorted; they may hold any character.
    """

    pods: tuple[PodReport, ...]
    ignored: tuple[str, ...]

    @property
    def segments(self) -> tuple[SegmentReport, ...]:
        """All segments, by pod and index."""
        return tuple(segment for pod in self.pods for segment in pod.segments)

    @property
    def rows(self) -> int:
        """Valid rows of all segments."""
        return sum(segment.rows for segment in self.segments)

    @property
    def damage(self) -> Damage:
        """Of all segments together."""
        total = Damage()
        for segment in self.segments:
            total.merge(segment.damage)
        return total


def inspect(segments: Place) -> Inspection:
    """Read every segment below a directory that has one directory for each frontend pod.

    Raises:
        CutError: `segments_unreadable`, `segments_changed`.
        UnsafePathError: the path must not be used, or leads over a link.
    """
    filesystem = Filesystem()
    with open_recordings(filesystem, segments) as directory:
        listing = list_segments(filesystem, directory)
        reports: dict[str, list[SegmentReport]] = {pod: [] for pod in listing.pods}
        for segment in listing.segments:
            try:
                reports[segment.pod].append(_report(filesystem, segment, directory))
            except VanishedError:
                continue
    return Inspection(tuple(PodReport(pod, tuple(found)) for pod, found in reports.items()), listing.ignored)


def newest_window(
    segments: Place, *, interval_s: int, grace_s: int, now_ms: int, mtime_margin_s: float = 600.0
) -> Window | None:
    """The newest epoch-aligned window that is due (its end plus grace has passed) and has a row; None without one.

    Segments are read from the one that was written last, until no older one can hold a row of a newer window.

    Raises:
        CutError: `segments_unreadable`, `segments_changed`.
        UnsafePathError: the path must not be used, or leads over a link.
    """
    filesystem = Filesystem()
    newest: Window | None = None
    with open_recordings(filesystem, segments) as directory:
        for written_s, segment in _by_last_write(filesystem, directory):
            if newest is not None and written_s < newest.end_ms / 1000 - mtime_margin_s:
                break
            latest_start_ms = 1000 * (written_s + mtime_margin_s)
            with suppress(VanishedError), open_segment(filesystem, segment, segments=directory) as opened:
                for row in _verdicts(opened, Damage()):
                    if not isinstance(row, Row) or (newest is not None and row.received_ms < newest.end_ms):
                        continue
                    window = Window.containing(row.received_ms, interval_s=interval_s, grace_s=grace_s)
                    if row.event_time_ms <= window.cutoff_ms <= now_ms and window.start_ms <= latest_start_ms:
                        newest = window
    return newest


def _report(filesystem: Filesystem, segment: Segment, segments: int) -> SegmentReport:
    refused: Counter[Refusal] = Counter()
    damage = Damage()
    rows = 0
    first_ms: int | None = None
    last_ms: int | None = None
    block_sizes: set[int] = set()
    with open_segment(filesystem, segment, segments=segments) as opened:
        for row in _verdicts(opened, damage):
            if not isinstance(row, Row):
                refused[row] += 1
                continue
            rows += 1
            block_sizes.add(row.block_size)
            first_ms = row.received_ms if first_ms is None else min(first_ms, row.received_ms)
            last_ms = row.received_ms if last_ms is None else max(last_ms, row.received_ms)
    return SegmentReport(
        name=segment.name,
        rows=rows,
        refused={refusal.value: count for refusal, count in sorted(refused.items())},
        first_arrival_ms=first_ms,
        last_arrival_ms=last_ms,
        block_sizes=tuple(sorted(block_sizes)),
        damage=damage,
    )


def _verdicts(opened: OpenSegment, damage: Damage) -> Iterator[Row | Refusal]:
    for _, _, block in scan(opened.source, backend=Backend.fastest(), limits=Limits(), damage=damage):
        yield from filter(None, judge_block(block)[1])


def _by_last_write(filesystem: Filesystem, segments: int) -> list[tuple[float, Segment]]:
    found = []
    for segment in list_segments(filesystem, segments).segments:
        with suppress(VanishedError), open_segment(filesystem, segment, segments=segments) as opened:
            found.append((opened.modified_s, segment))
    return sorted(found, reverse=True)
