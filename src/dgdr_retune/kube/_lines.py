"""The lines of a byte stream, whole ones only."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from dgdr_retune.kube._errors import MaybeAppliedError

MAX_LINE_BYTES: Final = 64 * 2**20
"""Far above what etcd stores (1.5 MiB by default) or a request may hold (3 MiB), and not without a bound."""


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Each line without its end; what follows the last newline is the half of a line that broke off, and is dropped.

    The time is linear in the bytes, however they are cut into chunks.

    Raises:
        MaybeAppliedError: a line is longer than :data:`MAX_LINE_BYTES`, or the stream broke off.
    """
    begun: list[bytes] = []
    length = 0
    async for chunk in chunks:
        first, *rest = chunk.split(b"\n")
        begun.append(first)
        length += len(first)
        if length > MAX_LINE_BYTES:
            raise MaybeAppliedError(f"a line of more than {MAX_LINE_BYTES} bytes", reason="Malformed")
        if not rest:
            continue
        *whole, last = rest
        yield b"".join(begun)
        for line in whole:
            yield line
        begun, length = [last], len(last)
