"""The calls that reach storage, in one place, so that a test can make each of them fail."""

import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache

_AT_RENAME_NOREPLACE = 1


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


class Filesystem:
    """The operating system's calls, by their names; every path is one name below an open directory.

    Nothing here decides anything. Errors are the calls' own `OSError`.
    """

    def open(self, name: str, flags: int, *, directory: int | None = None, mode: int = 0o644) -> int:
        """Open without leaking the descriptor to children."""
        return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=directory)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def fstat(self, descriptor: int) -> os.stat_result:
        """What an open file is."""
        return os.fstat(descriptor)

    def stat(self, name: str, *, directory: int) -> os.stat_result:
        """What a name stands for; a link is itself."""
        return os.stat(name, dir_fd=directory, follow_symlinks=False)

    def list(self, directory: int) -> list[str]:
        """Names in a directory, in no order."""
        return os.listdir(directory)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`."""
        return os.pread(descriptor, size, offset)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Append; may write less."""
        return os.write(descriptor, data)

    def write_at(self, descriptor: int, data: bytes, offset: int) -> int:
        """Overwrite; may write less."""
        return os.pwrite(descriptor, data, offset)

    def sync(self, descriptor: int) -> None:
        """Wait until a file or directory is on storage."""
        os.fsync(descriptor)

    def change_mode(self, descriptor: int, mode: int) -> None:
        """Set the permission bits, whatever the umask."""
        os.fchmod(descriptor, mode)

    def make_directory(self, name: str, *, directory: int | None) -> None:
        """Make a directory that everyone may enter, as far as the umask lets it."""
        os.mkdir(name, 0o755, dir_fd=directory)

    def link(self, source: str, target: str, *, directory: int) -> None:
        """Give a file a second name, unless that name exists."""
        os.link(source, target, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)

    def rename_unless_exists(self, source: str, target: str, *, directory: int) -> None:
        """Rename a file, unless the target exists (Linux 3.15 and a file system that can)."""
        renameat2 = _renameat2()
        if renameat2 is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), target)
        if renameat2(directory, os.fsencode(source), directory, os.fsencode(target), _AT_RENAME_NOREPLACE) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), target)

    def rename(self, source: str, target: str, *, directory: int) -> None:
        """Rename a file over whatever the target is."""
        os.rename(source, target, src_dir_fd=directory, dst_dir_fd=directory)

    def remove(self, name: str, *, directory: int) -> None:
        """Remove a file's name."""
        os.unlink(name, dir_fd=directory)
