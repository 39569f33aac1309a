import gzip
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.windows._gzip import (
    MAXIMUM_COMMENT,
    MAXIMUM_HEADER,
    BrokenHeaderError,
    IncompleteHeaderError,
    comment_of,
    header_length,
    header_with_comment,
)

PLAIN = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def header(*, flags: int = 0, rest: bytes = b"", method: int = 8) -> bytes:
    return bytes((0x1F, 0x8B, method, flags, 0, 0, 0, 0, 0, 255)) + rest


@given(
    extra=st.none() | st.binary(max_size=300),
    name=st.none() | st.binary(max_size=40).map(lambda text: text.replace(b"\0", b"x")),
    comment=st.none() | st.binary(max_size=40).map(lambda text: text.replace(b"\0", b"x")),
    checked=st.booleans(),
    behind=st.binary(max_size=20),
)
@settings(deadline=None)
def test_a_header_ends_behind_its_optional_fields_and_no_earlier(
    *, extra: bytes | None, name: bytes | None, comment: bytes | None, checked: bool, behind: bytes
) -> None:
    flags = 0x10 * (comment is not None) | 0x08 * (name is not None) | 0x04 * (extra is not None) | 0x02 * checked
    whole = header(flags=flags)
    if extra is not None:
        whole += struct.pack("<H", len(extra)) + extra
    for text in (name, comment):
        if text is not None:
            whole += text + b"\0"
    if checked:
        whole += struct.pack("<H", zlib.crc32(whole) & 0xFFFF)
    assert header_length(whole + behind) == len(whole)
    assert comment_of(whole + behind) == comment
    for length in range(1, len(whole)):
        with pytest.raises(IncompleteHeaderError):
            header_length(whole[:length])


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(header(method=9), id="another method"),
        pytest.param(header(flags=0x20), id="a reserved flag"),
        pytest.param(header(flags=0xE0), id="all reserved flags"),
        pytest.param(header(flags=0x02, rest=b"\0\0"), id="a wrong header CRC"),
        pytest.param(b"garbage!!", id="garbage"),
        pytest.param(b"\x1f\x8c", id="the second byte"),
        pytest.param(header(flags=0x08, rest=b"n" * MAXIMUM_HEADER), id="an endless name"),
        pytest.param(header(flags=0x10, rest=b"c" * MAXIMUM_HEADER + b"\0"), id="a comment beyond the cap"),
        pytest.param(header(flags=0x04, rest=b"\xff\xff" + b"e" * 65_535), id="an extra field beyond the cap"),
    ],
)
def test_what_no_writer_of_ours_writes_is_refused(broken: bytes) -> None:
    with pytest.raises(BrokenHeaderError):
        header_length(broken[:MAXIMUM_HEADER])


def test_a_header_may_be_as_long_as_the_cap() -> None:
    name = b"n" * (MAXIMUM_HEADER - len(PLAIN) - 1) + b"\0"
    assert header_length(header(flags=0x08, rest=name)) == MAXIMUM_HEADER


@pytest.mark.parametrize("length", [0, 100, MAXIMUM_COMMENT])
def test_a_written_comment_is_read_back_by_us_and_by_the_standard_library(length: int) -> None:
    comment = "c" * length
    whole = header_with_comment(comment)
    assert comment_of(whole) == comment.encode()
    body = zlib.compress(b"rows", wbits=-15)
    assert gzip.decompress(whole + body + struct.pack("<II", zlib.crc32(b"rows"), 4)) == b"rows"


@pytest.mark.parametrize("comment", ["c" * (MAXIMUM_COMMENT + 1), "c" * 4000, "nul\0", "münchen", "日本"])
def test_a_comment_that_other_readers_refuse_is_not_written(comment: str) -> None:
    with pytest.raises(ValueError, match=r"comment|ascii"):
        header_with_comment(comment)
