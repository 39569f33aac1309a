"""Gzip framing (RFC 1952): headers in, headers out."""

import struct
import zlib
from typing import Final

MAGIC: Final = b"\x1f\x8b\x08"
TRAILER: Final = struct.Struct("<II")
"""CRC32 and size (modulo 2^32) of what a member holds."""

MAXIMUM_HEADER: Final = 64 * 1024
MAXIMUM_COMMENT: Final = 511
"""Go's reader, which operators use, refuses a comment of 512 bytes."""

_FIXED: Final = 10
_PLAIN: Final = MAGIC + b"\x00"
_HEADER_CRC, _EXTRA, _NAME, _COMMENT, _RESERVED = 0x02, 0x04, 0x08, 0x10, 0xE0


class BrokenHeaderError(Exception):
    """What stands here is no member's header, or one that no member of ours has."""


class IncompleteHeaderError(Exception):
    """The data ends within the header."""


def header_length(data: bytes) -> int:
    """Length of the header that `data` starts with; `data` is `MAXIMUM_HEADER` long, or all there is.

    Raises:
        BrokenHeaderError: wrong magic or method, reserved flags, wrong header CRC, or longer than `MAXIMUM_HEADER`.
        IncompleteHeaderError: `data` ends before the header does.
    """
    if data.startswith(_PLAIN) and len(data) >= _FIXED:
        return _FIXED
    if not data.startswith(MAGIC[: len(data)]):
        raise BrokenHeaderError
    if len(data) <= len(MAGIC):
        raise IncompleteHeaderError
    flags = data[len(MAGIC)]
    if flags & _RESERVED:
        raise BrokenHeaderError
    checked = _optional_fields_end(data, flags)
    end = checked + 2 if flags & _HEADER_CRC else checked
    if end > len(data):
        raise IncompleteHeaderError if len(data) < MAXIMUM_HEADER else BrokenHeaderError
    if flags & _HEADER_CRC and int.from_bytes(data[checked:end], "little") != zlib.crc32(data[:checked]) & 0xFFFF:
        raise BrokenHeaderError
    return end


def _optional_fields_end(data: bytes, flags: int) -> int:
    end = _FIXED
    if flags & _EXTRA:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            end = data.find(0, end) + 1 or MAXIMUM_HEADER + 1
    return end


def header_with_comment(comment: str) -> bytes:
    """A member's header with a comment, no name and no time.

    Raises:
        ValueError: the comment is not ASCII, holds a NUL, or is longer than `MAXIMUM_COMMENT`.
    """
    text = comment.encode("ascii")
    if b"\0" in text or len(text) > MAXIMUM_COMMENT:
        raise ValueError(f"a gzip comment is ASCII without NUL of at most {MAXIMUM_COMMENT} bytes: {comment!r}")
    return MAGIC + bytes((_COMMENT, 0, 0, 0, 0, 0, 255)) + text + b"\0"


def comment_of(data: bytes) -> bytes | None:
    """The comment in the header that `data` starts with; None if it has none or is no header."""
    try:
        end = header_length(data[:MAXIMUM_HEADER])
    except (BrokenHeaderError, IncompleteHeaderError):
        return None
    flags = data[len(MAGIC)]
    if not flags & _COMMENT:
        return None
    start = _optional_fields_end(data, flags & ~_COMMENT)
    return data[start : data.index(0, start, end)]
