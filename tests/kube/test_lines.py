"""Lines of a stream."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.kube import MaybeAppliedError
from dgdr_retune.kube._lines import lines


async def _stream(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _read(chunks: Iterable[bytes]) -> list[bytes]:
    async def read() -> list[bytes]:
        return [line async for line in lines(_stream(chunks))]

    return asyncio.run(read())


@settings(deadline=None, max_examples=200)
@given(st.lists(st.binary(max_size=12)), st.data())
def test_lines_do_not_depend_on_where_the_stream_is_cut(texts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(text.replace(b"\n", b"") + b"\n" for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    chunks = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert _read(chunks) == [text.replace(b"\n", b"") for text in texts]


def test_the_half_of_a_line_is_never_a_line() -> None:
    assert _read([b'{"a": 1}\n{"b"', b": 2}"]) == [b'{"a": 1}']


def test_other_characters_that_some_take_for_line_ends_are_none() -> None:
    assert _read(["a\u2028b\x0b\x85c\r\n".encode()]) == ["a\u2028b\x0b\x85c\r".encode()]


def test_a_line_may_be_longer_than_anything_etcd_stores() -> None:
    line = b"x" * (8 * 2**20)
    began = time.process_time()
    assert _read([line[start : start + 1024] for start in range(0, len(line), 1024)] + [b"\n"]) == [line]
    assert time.process_time() - began < 2, "the time is not linear"


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    with patch("dgdr_retune.kube._lines.MAX_LINE_BYTES", 100), pytest.raises(MaybeAppliedError) as raised:
        _read([b"x" * 60, b"x" * 60])
    assert raised.value.reason == "Malformed"
