"""The rows of a window as 45 bytes each, and the order in which they are published."""

import hashlib
import struct
from array import array
from typing import Final

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.windows._row import Row

_PACKED: Final = struct.Struct("<QQ16sIIIB")
_FIELDS: Final = np.dtype(
    [
        ("start", "<u8"),
        ("end", "<u8"),
        ("id_low", "<u8"),
        ("id_high", "<u8"),
        ("member", "<u4"),
        ("offset", "<u4"),
        ("length", "<u4"),
        ("flags", "u1"),
    ]
)
_AGENT: Final = 1
_MOST_BLOCK_SIZES: Final = 127
"""So many can be told apart; a window may have one."""

_FURTHER: Final = _MOST_BLOCK_SIZES << 1
"""The mark of every block size after those."""

Rows = NDArray[np.void]
Order = NDArray[np.intp]
Flags = NDArray[np.uint8]


@frozen
class PackedTable:
    """A table as plain data."""

    rows: bytearray
    block_sizes: dict[int, int]
    member_segment: bytes
    member_start: bytes
    member_crc: bytes


class Table:
    """Rows as they were read: by pod, segment, member and line.

    `members` of the rows are numbered in that order too; of each it keeps where it stands and its CRC32, which it must
    still have when it is read again.
    """

    def __init__(self) -> None:
        self._rows = bytearray()
        self._block_sizes: dict[int, int] = {}
        self.member_segment = array("I")
        self.member_start = array("Q")
        self.member_crc = array("I")

    def __len__(self) -> int:
        return len(self._rows) // _PACKED.size

    def add_member(self, *, segment: int, start: int, crc: int) -> None:
        """Rows appended from now on stand in this member."""
        self.member_segment.append(segment)
        self.member_start.append(start)
        self.member_crc.append(crc)

    def append(self, row: Row, *, offset: int, length: int) -> None:
        """One row of the member that was added last."""
        self._rows += _PACKED.pack(
            row.received_ms,
            row.end_ms,
            hashlib.blake2b(row.request_id.encode(), digest_size=16).digest(),
            len(self.member_segment) - 1,
            offset,
            length,
            self._mark(row.block_size) | row.agent,
        )

    def mark(self) -> tuple[int, int]:
        """Where the table ends now, for `rewind`."""
        return len(self._rows), len(self.member_segment)

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget what was added since."""
        del self._rows[mark[0] :]
        for column in (self.member_segment, self.member_start, self.member_crc):
            del column[mark[1] :]

    def pack(self) -> "PackedTable":
        """All of it as plain data."""
        return PackedTable(
            self._rows,
            self._block_sizes,
            self.member_segment.tobytes(),
            self.member_start.tobytes(),
            self.member_crc.tobytes(),
        )

    def extend(self, packed: "PackedTable", *, segments: int) -> None:
        """Append another table; its segments are counted from `segments` on."""
        flags = np.arange(256, dtype=np.uint8)
        for block_size, mark in packed.block_sizes.items():
            flags[mark : mark + 2] = self._mark(block_size) + np.arange(2)
        before = len(self)
        self._rows += packed.rows
        rows = self.rows()[before:]
        rows["member"] += np.uint32(len(self.member_segment))
        rows["flags"] = flags[rows["flags"]]
        self.member_segment.extend(segments + segment for segment in array("I", packed.member_segment))
        self.member_start.frombytes(packed.member_start)
        self.member_crc.frombytes(packed.member_crc)

    def _mark(self, block_size: int) -> int:
        if block_size not in self._block_sizes and len(self._block_sizes) < _MOST_BLOCK_SIZES:
            self._block_sizes[block_size] = len(self._block_sizes) << 1
        return self._block_sizes.get(block_size, _FURTHER)

    def rows(self) -> Rows:
        """A view; nothing may be appended while it is used."""
        return np.frombuffer(self._rows, _FIELDS)

    def mixed_block_sizes(self, flags: Flags) -> str:
        """In words, the block sizes of the rows that have these flags, unless it is one: then "".

        Rows whose block size came after those that can be told apart are taken for mixed.
        """
        marks = np.unique(flags >> 1 << 1).tolist()
        if _FURTHER in marks:
            return f"more than {_MOST_BLOCK_SIZES} block sizes"
        sizes = [size for size, mark in self._block_sizes.items() if mark in marks]
        return f"block sizes {sizes}" if len(sizes) > 1 else ""


@frozen
class Publication:
    """Which rows are published.

    Attributes:
        order: their indices in the table, by start, end and, as far as that tells them apart, place.
        duplicates: rows that repeat the request id of a row before them.
    """

    order: Order
    duplicates: int


def publication(rows: Rows) -> Publication:
    """The first row of each request id in (start, end, place in the table), in that order."""
    order = np.lexsort((rows["end"], rows["start"]))
    repeats = _repeats(rows, order)
    return Publication(order[~repeats], int(repeats.sum()))


def ties(rows: Rows, order: Order) -> list[slice]:
    """The runs of `order` whose rows have the same start and end."""
    start, end = rows["start"][order], rows["end"][order]
    same = (start[1:] == start[:-1]) & (end[1:] == end[:-1])
    edges = np.flatnonzero(np.diff(same, prepend=False, append=False))
    return [slice(first, last + 1) for first, last in edges.reshape(-1, 2).tolist()]


def agents(flags: Flags) -> int:
    """How many of the rows that have these flags belong to an agent's session."""
    return int(np.count_nonzero(flags & _AGENT))


def _repeats(rows: Rows, order: Order) -> NDArray[np.bool_]:
    repeats = np.zeros(len(order), np.bool_)
    low = np.sort(rows["id_low"])
    if not (low[1:] == low[:-1]).any():
        return repeats
    del low
    by_id = np.lexsort((rows["id_high"][order], rows["id_low"][order]))
    low = rows["id_low"][order[by_id]]
    same = low[1:] == low[:-1]
    del low
    high = rows["id_high"][order[by_id]]
    repeats[by_id[1:][same & (high[1:] == high[:-1])]] = True
    return repeats
