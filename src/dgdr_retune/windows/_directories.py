"""Directories on storage that others write to: opened one component at a time, never over a link."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from dgdr_retune.windows._errors import UnsafePathError
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._names import components
from dgdr_retune.windows._request import Place

DIRECTORY_MODE: Final = 0o755
"""The kubelet, which may be nobody on the server, must be able to pass."""

_PASSABLE: Final = 0o555
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY


@contextmanager
def open_directory(filesystem: Filesystem, name: str, *, within: int) -> Iterator[int]:
    """A descriptor of the directory `name`.

    Raises:
        UnsafePathError: it is a link, or no directory.
        OSError: as the system says.
    """
    try:
        descriptor = filesystem.open(name, _DIRECTORY | os.O_NOFOLLOW, directory=within)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise UnsafePathError(f"{name!r} is a link or no directory: links below a claim are not followed") from None
        raise
    try:
        yield descriptor
    finally:
        filesystem.close(descriptor)


@contextmanager
def open_place(filesystem: Filesystem, place: Place, *, make: bool = False) -> Iterator[int]:
    """A descriptor of a place's directory; with `make`, what is missing of it is made, for everyone to pass.

    Raises:
        UnsafePathError: the path is not allowed, or leads over a link.
        OSError: as the system says.
    """
    names = components(place.below)
    with ExitStack() as stack:
        if make:
            _make(filesystem, place.root, within=None)
        at = filesystem.open(place.root, _DIRECTORY)
        stack.callback(filesystem.close, at)
        for name in names:
            if make:
                make_directory(filesystem, name, within=at)
            at = stack.enter_context(open_directory(filesystem, name, within=at))
        yield at


def make_directory(filesystem: Filesystem, name: str, *, within: int) -> None:
    """Make a directory that everyone may pass, whatever the umask, unless it exists."""
    if not _make(filesystem, name, within=within):
        return
    with open_directory(filesystem, name, within=within) as descriptor:
        let_pass(filesystem, descriptor)


def let_pass(filesystem: Filesystem, descriptor: int) -> None:
    """Let everyone pass a directory that may have been left closed when its maker died."""
    if filesystem.fstat(descriptor).st_mode & _PASSABLE != _PASSABLE:
        filesystem.change_mode(descriptor, DIRECTORY_MODE)


def _make(filesystem: Filesystem, name: str, *, within: int | None) -> bool:
    try:
        filesystem.make_directory(name, directory=within)
    except FileExistsError:
        return False
    return True
