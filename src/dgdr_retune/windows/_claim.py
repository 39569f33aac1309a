"""Claim files: who may rename a file to a window's name, on storage that cannot refuse to replace one.

A claim holds the name of its holder's temporary file. Whoever removes an abandoned claim removes that file first, so
that a holder who wakes up later has nothing left to rename.
"""

import os
from contextlib import suppress
from typing import Final

from attrs import frozen

from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._segments import VANISHED
from dgdr_retune.windows._temporary import is_temporary

CLAIM_ABANDONED_AFTER_S: Final = 300.0
"""A claim is held for one rename; one that is older has lost its holder."""

_SUFFIX: Final = ".claim"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_HELD: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_MODE: Final = 0o644
_LONGEST_NAME: Final = 255


def claim_name(target: str) -> str:
    """The claim on a window's name, in the same directory."""
    return f".{target}{_SUFFIX}"


def is_claim(name: str) -> bool:
    """Whether a name is one that `claim_name` gives."""
    return name.startswith(".") and name.endswith(_SUFFIX)


@frozen
class Claim:
    """A claim file of an open directory. Errors are the storage's own `OSError`."""

    filesystem: Filesystem
    name: str
    directory: int

    def take(self, temporary: str) -> bool:
        """Take it for the holder of a temporary file; False if it is taken."""
        try:
            descriptor = self.filesystem.open(self.name, _NEW, directory=self.directory, mode=_MODE)
        except FileExistsError:
            return False
        try:
            rest = os.fsencode(temporary)
            while rest:
                rest = rest[self.filesystem.write(descriptor, rest) :]
        except BaseException:
            with suppress(OSError):
                self.filesystem.remove(self.name, directory=self.directory)
            raise
        finally:
            self.filesystem.close(descriptor)
        return True

    def is_held_for(self, temporary: str) -> bool:
        """Whether it is still the one that was taken for this file."""
        try:
            return self._read()[0] == temporary
        except OSError as error:
            if error.errno in VANISHED:
                return False
            raise

    def give_up(self, temporary: str) -> None:
        """Remove it, unless it is another's by now."""
        if self.is_held_for(temporary):
            self.filesystem.remove(self.name, directory=self.directory)

    def remove_abandoned(self, *, now_s: float) -> None:
        """Remove it and its holder's temporary file, if it is too old to have a living holder."""
        temporary, taken_s = self._read()
        if now_s - taken_s <= CLAIM_ABANDONED_AFTER_S:
            return
        if is_temporary(temporary):
            try:
                self.filesystem.remove(temporary, directory=self.directory)
            except OSError as error:
                if error.errno not in VANISHED:
                    raise
        self.give_up(temporary)

    def _read(self) -> tuple[str, float]:
        descriptor = self.filesystem.open(self.name, _HELD, directory=self.directory)
        try:
            text = self.filesystem.read(descriptor, _LONGEST_NAME, 0)
            return os.fsdecode(text), self.filesystem.fstat(descriptor).st_mtime
        finally:
            self.filesystem.close(descriptor)
