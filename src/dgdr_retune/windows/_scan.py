"""The rows of a segment's intact members, and what else it is made of."""

from collections.abc import Iterator
from typing import Final, Self

from attrs import define, fields

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._source import Source
from dgdr_retune.windows._walk import Stretch, Verdict, blocks, walk

MOSTLY: Final = 0.5
"""More than this share of damaged bytes or members: what is left says too little about the traffic."""


@define
class Damage:
    """What segments are made of, in bytes and members.

    Attributes:
        bytes: read.
        members: intact and corrupt ones.
        corrupt_members: damaged, or larger than the cap.
        corrupt_bytes: of those, holes of zeros excluded.
        truncated_tails: segments that end within a member.
        tail_bytes: of those members.
        zero_fill_bytes: in runs of zeros.
        zero_end_bytes: those of them that end a segment.
    """

    bytes: int = 0
    members: int = 0
    corrupt_members: int = 0
    corrupt_bytes: int = 0
    truncated_tails: int = 0
    tail_bytes: int = 0
    zero_fill_bytes: int = 0
    zero_end_bytes: int = 0

    def add(self, stretch: Stretch, *, segment_length: int) -> None:
        """Count one stretch of a segment."""
        self.bytes += stretch.length
        match stretch.verdict:
            case Verdict.INTACT:
                self.members += 1
            case Verdict.CORRUPT | Verdict.TOO_LARGE:
                self.members += 1
                self.corrupt_members += 1
                self.corrupt_bytes += stretch.length - stretch.hole_bytes
                self.zero_fill_bytes += stretch.hole_bytes
            case Verdict.TRUNCATED_TAIL:
                self.truncated_tails += 1
                self.tail_bytes += stretch.length
            case Verdict.ZERO_FILL:
                self.zero_fill_bytes += stretch.length
                if stretch.start + stretch.length == segment_length:
                    self.zero_end_bytes += stretch.length

    def merge(self, other: Self) -> None:
        """Add another's counts."""
        for attribute in fields(Damage):
            setattr(self, attribute.name, getattr(self, attribute.name) + getattr(other, attribute.name))

    def mostly_corrupt(self) -> bool:
        """Whether too much is damaged. What a crash leaves at the end of a segment is no damage."""
        judged = self.bytes - self.tail_bytes - self.zero_end_bytes
        damaged = self.corrupt_bytes + self.zero_fill_bytes - self.zero_end_bytes
        return damaged > MOSTLY * judged or self.corrupt_members > MOSTLY * self.members


def scan(source: Source, *, backend: Backend, limits: Limits, damage: Damage) -> Iterator[tuple[Stretch, int, bytes]]:
    """A segment's blocks of whole lines: (intact member, offset within it, bytes). Adds to `damage` as it goes."""
    for stretch in walk(source, backend=backend, limits=limits):
        damage.add(stretch, segment_length=source.length)
        if stretch.verdict is Verdict.INTACT:
            for start, block in blocks(source, stretch, backend=backend):
                yield stretch, start, block
