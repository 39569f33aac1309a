"""Writing a window: one gzip member, its facts in the header's comment."""

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._gzip import TRAILER, header_with_comment

_PLACEHOLDER: Final = "0" * 64


def write_window(
    filesystem: Filesystem,
    descriptor: int,
    batches: Iterable[list[bytes]],
    *,
    comment: Callable[[str], str],
    backend: Backend,
) -> str:
    """Write rows to an empty file and return the hex SHA-256 of them.

    Args:
        filesystem: what to write with.
        descriptor: of the file.
        batches: the rows without line ends, in order.
        comment: the header's comment for a digest, of one length for all.
        backend: what deflates.
    """
    placeholder = header_with_comment(comment(_PLACEHOLDER))
    _write(filesystem, descriptor, placeholder)
    body = _Body(filesystem, descriptor, backend)
    # While one batch is read from the segments, the one before it is hashed, deflated and written.
    with ThreadPoolExecutor(1) as executor:
        pending: Future[None] | None = None
        for lines in batches:
            if pending is not None:
                pending.result()
            lines.append(b"")
            pending = executor.submit(body.write, b"\n".join(lines))
        if pending is not None:
            pending.result()
    digest = body.finish()
    header = header_with_comment(comment(digest))
    if len(header) != len(placeholder):
        raise ValueError("the comment's length depends on the digest")
    at = 0
    while at < len(header):
        at += filesystem.write_at(descriptor, header[at:], at)
    return digest


class _Body:
    def __init__(self, filesystem: Filesystem, descriptor: int, backend: Backend) -> None:
        self._filesystem = filesystem
        self._descriptor = descriptor
        self._crc32 = backend.crc32
        self._compressor = backend.compressor()
        self._digest = hashlib.sha256()
        self._crc = 0
        self._size = 0

    def write(self, rows: bytes) -> None:
        self._digest.update(rows)
        self._crc = self._crc32(rows, self._crc)
        self._size += len(rows)
        _write(self._filesystem, self._descriptor, self._compressor.compress(rows))

    def finish(self) -> str:
        trailer = TRAILER.pack(self._crc, self._size & 0xFFFFFFFF)
        _write(self._filesystem, self._descriptor, self._compressor.flush() + trailer)
        return self._digest.hexdigest()


def _write(filesystem: Filesystem, descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[filesystem.write(descriptor, rest) :]
