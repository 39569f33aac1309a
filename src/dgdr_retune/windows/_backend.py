"""Deflate: by `isal` where it is installed, by `zlib` otherwise. Both give the same bytes.

`isal` takes all that `zlib` takes, and also streams that `zlib` and thus gzip refuse, such as one with an incomplete
code. So whatever is read for the first time is inflated by `zlib`.
"""

import zlib
from collections.abc import Callable
from typing import Protocol, Self, TypeAlias, cast

from attrs import evolve, frozen

Bytes: TypeAlias = bytes | memoryview

LEVEL = 1
"""Windows are read a few times and kept for an hour: at this level `isal` writes five times as fast as `zlib` at its
default of 6, for a tenth more space."""

_RAW_DEFLATE = -15


class Decompressor(Protocol):
    """The part of `zlib.decompressobj` that reading needs."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: Bytes, max_length: int = ..., /) -> bytes: ...


class Compressor(Protocol):
    """The part of `zlib.compressobj` that writing needs."""

    def compress(self, data: Bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


@frozen
class Backend:
    """One implementation of deflate."""

    name: str
    decompressor: Callable[[], Decompressor]
    compressor: Callable[[], Compressor]
    crc32: Callable[[Bytes, int], int]
    error: type[Exception]

    @classmethod
    def zlib(cls) -> Self:
        """The standard library's: always there, and the judge of what is damaged."""
        return cls(
            name="zlib",
            decompressor=lambda: zlib.decompressobj(_RAW_DEFLATE),
            compressor=lambda: zlib.compressobj(LEVEL, zlib.DEFLATED, _RAW_DEFLATE),
            crc32=zlib.crc32,
            error=zlib.error,
        )

    def judging(self) -> Self:
        """This one with the decompressor of the standard library, for what is not known to be whole."""
        judge = Backend.zlib()
        return evolve(self, name=judge.name, decompressor=judge.decompressor, error=judge.error)

    @classmethod
    def fastest(cls) -> Self:
        """`isal` if it is installed (extra `fast`), else `zlib`."""
        try:
            from isal import isal_zlib  # noqa: PLC0415  # an extra
        except ImportError:
            return cls.zlib()
        return cls(
            name="isal",
            decompressor=lambda: isal_zlib.decompressobj(_RAW_DEFLATE),
            compressor=lambda: isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, _RAW_DEFLATE),
            crc32=isal_zlib.crc32,
            error=cast("type[Exception]", isal_zlib.error),
        )
