"""The snapshot's file, in a directory that the sweeper owns: it may hold anything under that name."""

import os
import stat
from pathlib import Path
from typing import Final

from dgdr_retune.api import SNAPSHOT_FILE
from dgdr_retune.publisher._errors import SnapshotError

MAX_BYTES: Final = 8 << 20
"""A hundred candidates with manifests and sixteen replications each are about 1 MiB."""

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""No link, which would lead to this container's own files, and no waiting for the writer of a pipe."""


def read_file(directory: Path) -> bytes | None:
    """The snapshot's bytes, or None while there is no file.

    Errors: `SnapshotError` for what is no readable regular file of at most `MAX_BYTES`.
    """
    try:
        descriptor = os.open(directory / SNAPSHOT_FILE, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refusal(f"it cannot be opened as a regular file ({error.strerror}); write it with mode 0644") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _refusal("it is no regular file; write one and rename it into place")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _refusal(f"it cannot be read ({error.strerror})") from error
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise _refusal(f"it is larger than {MAX_BYTES} bytes; write fewer candidates, or smaller metrics")
    return content


def _refusal(cause: str) -> SnapshotError:
    return SnapshotError("InvalidSnapshot", f"{SNAPSHOT_FILE}: {cause}")
