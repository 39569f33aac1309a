"""How errors of storage are understood."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dgdr_retune.windows._errors import CutError

UNSUPPORTED: Final = frozenset(
    {
        errno.EPERM,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.ENOSYS,
        errno.EINVAL,
        errno.EXDEV,
        errno.EMLINK,
        errno.EBUSY,
        errno.EIO,
        errno.ETIMEDOUT,
    }
)
"""What file systems answer to a link or rename that they cannot do (CIFS says EIO, FUSE ENOSYS, SMB EPERM, object
stores EBUSY), or whose reply got lost."""

DIRECTORY_NOT_SYNCED: Final = frozenset(
    {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EISDIR}
)
"""What file systems answer that cannot sync a directory (CIFS, FUSE): they order it by themselves."""

_ADVICE: Final = {
    errno.ENOSPC: "free space on the claim",
    errno.EDQUOT: "raise the quota of the claim",
    errno.EROFS: "mount the claim read-write",
    errno.EACCES: "let the cutter write to the windows directory",
    errno.EPERM: "let the cutter write to the windows directory",
    errno.ENOENT: "the windows directory was removed meanwhile: cut again",
    errno.ESTALE: "the windows directory was removed meanwhile: cut again",
}


@contextmanager
def storing(doing: str) -> Iterator[None]:
    """Turn an error of storage into one clear failure of the cut."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "check the storage behind the claim")
        name = errno.errorcode.get(error.errno or 0, "unknown error")
        raise CutError("storage_failed", f"{doing}: {error.strerror} ({name}): {advice}") from error
