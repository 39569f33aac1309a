"""Which segments a directory of recordings has, and how one is read.

The directories are shared with writers that are not trusted: links are not followed, and only regular files under a
segment's name are read.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from dgdr_retune.windows._directories import open_directory, open_place
from dgdr_retune.windows._errors import CutError, UnsafePathError
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._names import is_subdomain, segment_index
from dgdr_retune.windows._request import Place
from dgdr_retune.windows._source import Source

VANISHED: Final = frozenset({errno.ENOENT, errno.ESTALE})
"""A file that another host has removed or replaced is stale where one of ours would be absent."""

# A FIFO in a segment's place must not make the open wait for its writer.
_READ_SEGMENT: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NO_REGULAR_FILE: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR})


@frozen(order=True)
class Segment:
    """A segment's place; segments are ordered by pod, index and name."""

    pod: str
    index: int
    name: str

    def __str__(self) -> str:
        return ascii(f"{self.pod}/{self.name}")[1:-1]


@frozen
class Listing:
    """What a directory of recordings holds.

    Attributes:
        segments: in order.
        pods: directories that may be a frontend's, sorted, also those without a segment.
        ignored: other names in the directory and in those of the pods, sorted; they may hold any character.
    """

    segments: tuple[Segment, ...]
    pods: tuple[str, ...]
    ignored: tuple[str, ...]


class VanishedError(Exception):
    """The segment was there and is gone: whoever removes segments had it."""


def list_segments(filesystem: Filesystem, segments: int) -> Listing:
    """The segments below an open directory; what vanishes meanwhile is left out."""
    found: list[Segment] = []
    pods: list[str] = []
    ignored: list[str] = []
    for pod in sorted(filesystem.list(segments)):
        names = _names(filesystem, pod, within=segments) if is_subdomain(pod) else None
        if names is None:
            ignored.append(pod)
            continue
        pods.append(pod)
        for name in names:
            index = segment_index(name)
            if index is None:
                ignored.append(f"{pod}/{name}")
            else:
                found.append(Segment(pod, index, name))
    return Listing(tuple(sorted(found)), tuple(pods), tuple(sorted(ignored)))


@contextmanager
def open_recordings(filesystem: Filesystem, place: Place) -> Iterator[int]:
    """A descriptor of the directory that has one directory for each frontend pod.

    Raises:
        CutError: `segments_unreadable`; also for what is read below it.
        UnsafePathError: the path must not be used, or leads over a link.
    """
    try:
        with open_place(filesystem, place) as recordings:
            yield recordings
    except OSError as error:
        path = ascii(str(Path(place.root, place.below)))[1:-1]
        message = f"{path}: {error.strerror}: give the directory that has one directory for each frontend pod"
        raise CutError("segments_unreadable", message) from error


class OpenSegment:
    """A segment as it was when it was opened: what it grows by later is not read.

    Attributes:
        source: its bytes.
        modified_s: when it was last written, by the storage's clock, in unix seconds.
    """

    def __init__(self, filesystem: Filesystem, segment: Segment, *, segments: int) -> None:
        self._filesystem = filesystem
        self._segment = segment
        self._segments = segments
        self._reopened = False
        self._descriptor, status = self._open()
        self._identity = status.st_dev, status.st_ino
        self.modified_s = status.st_mtime
        self.source = Source(self._read, status.st_size)

    def close(self) -> None:
        """Let go of the file."""
        self._filesystem.close(self._descriptor)

    def _open(self) -> tuple[int, os.stat_result]:
        with _told_apart(self._segment):
            with open_directory(self._filesystem, self._segment.pod, within=self._segments) as pod:
                descriptor = self._filesystem.open(self._segment.name, _READ_SEGMENT, directory=pod)
            with ExitStack() as stack:
                stack.callback(self._filesystem.close, descriptor)
                status = self._filesystem.fstat(descriptor)
                if stat.S_ISREG(status.st_mode):
                    stack.pop_all()
                    return descriptor, status
            raise VanishedError

    def _read(self, size: int, offset: int) -> bytes:
        try:
            return self._filesystem.read(self._descriptor, size, offset)
        except OSError as error:
            if error.errno != errno.ESTALE or self._reopened:
                with _told_apart(self._segment):
                    raise
        self._reopened = True
        descriptor, status = self._open()
        self._filesystem.close(self._descriptor)
        self._descriptor = descriptor
        if (status.st_dev, status.st_ino) != self._identity:
            raise CutError("segments_changed", f"{self._segment} was replaced while it was read: cut again")
        return self._read(size, offset)


@contextmanager
def open_segment(filesystem: Filesystem, segment: Segment, *, segments: int) -> Iterator[OpenSegment]:
    """A segment to read.

    Raises:
        VanishedError: it is gone, or no regular file.
        CutError: `segments_unreadable`, `segments_changed`; also while it is read.
    """
    opened = OpenSegment(filesystem, segment, segments=segments)
    try:
        yield opened
    except EOFError as error:
        raise CutError("segments_changed", f"{segment}: {error}: cut again") from None
    finally:
        opened.close()


def _names(filesystem: Filesystem, pod: str, *, within: int) -> list[str] | None:
    for _ in range(2):
        try:
            with open_directory(filesystem, pod, within=within) as descriptor:
                return filesystem.list(descriptor)
        except UnsafePathError:
            return None
        except OSError as error:
            if error.errno not in VANISHED:
                raise
    return None


@contextmanager
def _told_apart(segment: Segment) -> Iterator[None]:
    try:
        yield
    except UnsafePathError:
        raise VanishedError from None
    except OSError as error:
        if error.errno in VANISHED or error.errno in _NO_REGULAR_FILE:
            raise VanishedError from None
        raise CutError(
            "segments_unreadable",
            f"{segment}: {error.strerror}: the cutter must be able to read every segment",
        ) from error
