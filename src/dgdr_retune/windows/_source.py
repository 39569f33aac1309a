"""A segment's bytes, by position, up to the length it had when it was opened."""

from collections.abc import Callable
from typing import Final

_READ_AHEAD: Final = 1 << 20


class Source:
    """Reads ahead, so that many small members cost few calls; holds one block.

    Args:
        read: up to `size` bytes at `offset`: `read(size, offset)`. Less than that only at the end of the file.
        length: bytes that may be read; a live segment grows beyond it.
    """

    def __init__(self, read: Callable[[int, int], bytes], length: int) -> None:
        self._read = read
        self.length = length
        self._start = 0
        self._block = b""

    def view(self, start: int, size: int) -> memoryview:
        """The bytes from `start`, `size` of them or up to the end; valid until the source is asked again.

        Raises:
            EOFError: the file has become shorter than it was when it was opened.
        """
        stop = min(start + size, self.length)
        self._fetch(start, stop)
        return memoryview(self._block)[start - self._start : stop - self._start]

    def find(self, needle: bytes, start: int, stop: int) -> int:
        """Where `needle` first stands in [start, stop); -1 if it does not."""
        while start + len(needle) <= stop:
            self._fetch(start, min(start + _READ_AHEAD, stop))
            until = min(self._start + len(self._block), stop)
            found = self._block.find(needle, start - self._start, until - self._start)
            if found >= 0:
                return self._start + found
            start = until - len(needle) + 1
        return -1

    def zeros(self, start: int, stop: int) -> int:
        """How many zero bytes follow each other from `start`, up to `stop`."""
        at = start
        while at < stop:
            block = self.view(at, min(_READ_AHEAD, stop - at)).tobytes()
            at += (run := len(block) - len(block.lstrip(b"\0")))
            if run < len(block):
                break
        return at - start

    def trailing_zeros(self) -> int:
        """How many zero bytes end the source."""
        at = self.length
        while at > 0:
            block = self.view(max(0, at - _READ_AHEAD), min(at, _READ_AHEAD)).tobytes()
            at -= (run := len(block) - len(block.rstrip(b"\0")))
            if run < len(block):
                break
        return self.length - at

    def _fetch(self, start: int, stop: int) -> None:
        if self._start <= start and stop <= self._start + len(self._block):
            return
        size = min(max(stop - start, _READ_AHEAD), self.length - start)
        parts = []
        got = 0
        while got < size:
            part = self._read(size - got, start + got)
            if not part:
                raise EOFError(f"the file ends at {start + got}, it had {self.length} bytes when it was opened")
            parts.append(part)
            got += len(part)
        self._start, self._block = start, parts[0] if len(parts) == 1 else b"".join(parts)
