"""What a cut counted."""

from attrs import frozen


@frozen(kw_only=True)
class Counts:
    """The counts of one cut.

    `rows` and `duplicates` are a function of the segments' content and the window alone; the others describe the cut
    that was made (a later one sees more of a growing segment).

    Attributes:
        rows: rows published.
        censored: rows of the window whose request ended after the cutoff.
        duplicates: rows of the window that repeat a request id.
        malformed: rows that were refused, wherever they belong; by reason in `Cut.malformed`.
        segments: segments read.
        members: gzip members read, intact or not, truncated tails excluded.
        corrupt_members: members that are damaged, or larger than the cap; none of their rows is used.
        corrupt_bytes: bytes of segments that belong to no intact member, no zero fill and no truncated tail.
        truncated_tails: segments that end within a member.
        zero_fill_bytes: bytes of zero runs outside of members.
        bytes: bytes of segments read.
    """

    rows: int = 0
    censored: int = 0
    duplicates: int = 0
    malformed: int = 0
    segments: int = 0
    members: int = 0
    corrupt_members: int = 0
    corrupt_bytes: int = 0
    truncated_tails: int = 0
    zero_fill_bytes: int = 0
    bytes: int = 0
