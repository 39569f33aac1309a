"""Making a window visible: whole or not at all, and never in the place of another.

The file is written under a temporary name in the same directory and gets its own by the first of these that the file
system can do: a hard link; a rename that does not replace (renameat2); a rename under a claim file, which only one
cutter can hold. A window that is there already wins, whoever published it.

The last of these has a gap that no call of such a storage closes. A cutter that looks at an abandoned claim and stands
still before it removes it may remove another's, taken since; if that other one stands still too, between its last look
at its claim and its rename, a third may publish meanwhile and be replaced.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from attrs import frozen

from dgdr_retune.windows._claim import Claim, claim_name, is_claim
from dgdr_retune.windows._errors import CutError
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._segments import VANISHED
from dgdr_retune.windows._storage import DIRECTORY_NOT_SYNCED, UNSUPPORTED, storing
from dgdr_retune.windows._temporary import ABANDONED_AFTER_S, is_orphan, is_temporary, temporary_name

FILE_MODE: Final = 0o644
"""Whoever replays the window runs as another user."""

_READABLE: Final = 0o444
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

_Identity = tuple[int, int]


@frozen
class Published:
    """How a publication ended.

    Attributes:
        won: whether the file that has the window's name is the one that was written.
        directory_synced: False where the file system cannot sync a directory.
    """

    won: bool
    directory_synced: bool


def publish(filesystem: Filesystem, name: str, *, directory: int, write: Callable[[int], None]) -> Published:
    """Publish what `write` writes to the descriptor it is given, as `name` in an open directory.

    Raises:
        CutError: `storage_failed`, `publish_unsupported`, `publish_contended`, and what `write` raises.
    """
    return _Publication(filesystem, name, directory).run(write)


def sweep(filesystem: Filesystem, *, directory: int, now_s: float | None = None) -> None:
    """Remove temporary files whose owner is dead; with the storage's time, also those and claims that are too old.

    What cannot be swept now is swept by a later cut.
    """
    names: list[str] = []
    with suppress(OSError):
        names = filesystem.list(directory)
    for name in names:
        with suppress(OSError):
            _sweep_one(filesystem, name, directory, now_s)


def _sweep_one(filesystem: Filesystem, name: str, directory: int, now_s: float | None) -> None:
    if is_temporary(name):
        orphan = is_orphan(name)
        if not orphan and now_s is not None:
            orphan = now_s - filesystem.stat(name, directory=directory).st_mtime > ABANDONED_AFTER_S
        if orphan:
            filesystem.remove(name, directory=directory)
    elif is_claim(name) and now_s is not None:
        Claim(filesystem, name, directory).remove_abandoned(now_s=now_s)


class _Publication:
    def __init__(self, filesystem: Filesystem, name: str, directory: int) -> None:
        self._filesystem = filesystem
        self._name = name
        self._directory = directory
        self._temporary = temporary_name(name)
        self._identity: _Identity = (0, 0)
        self._written_s = 0.0

    def run(self, write: Callable[[int], None]) -> Published:
        with storing(f"publishing {self._name}"):
            descriptor = self._filesystem.open(self._temporary, _NEW, directory=self._directory, mode=FILE_MODE)
            try:
                self._fill(descriptor, write)
                sweep(self._filesystem, directory=self._directory, now_s=self._written_s)
                won = self._make_visible()
            finally:
                with suppress(OSError):
                    self._filesystem.remove(self._temporary, directory=self._directory)
            return Published(won=won, directory_synced=self._sync_directory())

    def _fill(self, descriptor: int, write: Callable[[int], None]) -> None:
        try:
            write(descriptor)
            self._make_readable(descriptor)
            self._filesystem.sync(descriptor)
            status = self._filesystem.fstat(descriptor)
        except BaseException:
            with suppress(OSError):
                self._filesystem.close(descriptor)
            raise
        self._filesystem.close(descriptor)  # before it gets its name: some file systems do not rename an open file
        self._identity = status.st_dev, status.st_ino
        self._written_s = status.st_mtime

    def _make_readable(self, descriptor: int) -> None:
        try:
            self._filesystem.change_mode(descriptor, FILE_MODE)
        except OSError:
            # Where the mount decides on modes, they need only suffice.
            if self._filesystem.fstat(descriptor).st_mode & _READABLE != _READABLE:
                raise

    def _make_visible(self) -> bool:
        for attempt in (self._by_link, self._by_rename, self._by_claim):
            won = attempt()
            if won is not None:
                return won
        raise CutError(
            "publish_unsupported",
            f"{self._name}: the file system can neither link nor rename a file without replacing another: "
            "put the windows on one that can",
        )

    def _by_link(self) -> bool | None:
        try:
            self._filesystem.link(self._temporary, self._name, directory=self._directory)
        except FileExistsError:
            return self._is_ours_now()
        except OSError as error:
            return self._after(error)
        return True

    def _by_rename(self) -> bool | None:
        try:
            self._filesystem.rename_unless_exists(self._temporary, self._name, directory=self._directory)
        except FileExistsError:
            return self._is_ours_now()
        except OSError as error:
            return self._after(error)
        return True

    def _by_claim(self) -> bool | None:
        claim = Claim(self._filesystem, claim_name(self._name), self._directory)
        if not claim.take(self._temporary):
            raise self._contended()
        try:
            if self._identity_of(self._name) is not None:
                return self._is_ours_now()
            if not claim.is_held_for(self._temporary):
                raise self._contended()
            self._filesystem.rename(self._temporary, self._name, directory=self._directory)
            return self._is_ours_now()
        except OSError as error:
            if error.errno in VANISHED and self._identity_of(self._name) != self._identity:
                raise self._contended() from None  # whoever held this claim for abandoned removed the file
            return self._after(error)
        finally:
            with suppress(OSError):
                claim.give_up(self._temporary)

    def _after(self, error: OSError) -> bool | None:
        # The call may have been done all the same, and only its reply be lost.
        if self._identity_of(self._name) == self._identity:
            return True
        if error.errno in UNSUPPORTED:
            return None
        raise error

    def _is_ours_now(self) -> bool:
        identity = self._identity_of(self._name)
        if identity is None:
            # Another host's file may stay invisible for a while; reading the directory makes it appear.
            self._filesystem.list(self._directory)
            identity = self._identity_of(self._name)
        if identity is None:
            raise self._contended()
        return identity == self._identity

    def _identity_of(self, name: str) -> _Identity | None:
        try:
            status = self._filesystem.stat(name, directory=self._directory)
        except OSError as error:
            if error.errno in VANISHED:
                return None
            raise
        return status.st_dev, status.st_ino

    def _contended(self) -> CutError:
        return CutError(
            "publish_contended", f"another cutter is publishing {self._name} right now: cut again to use it"
        )

    def _sync_directory(self) -> bool:
        try:
            self._filesystem.sync(self._directory)
        except OSError as error:
            if error.errno not in DIRECTORY_NOT_SYNCED:
                raise
            return False
        return True
