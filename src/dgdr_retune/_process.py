"""The processes of this package: how many are of use, that a child finds our modules and dies with its parent."""

import ctypes
import os
import signal
import sys
from math import ceil
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # prctl(2)
_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of the container; of the whole machine there is none


def processors(quota: Path = _QUOTA) -> int:
    """How many processors this process can keep busy: those that it may use, as far as its container's limit goes.

    Args:
        quota: microseconds of processor time in each period, or `max`, and the period.
    """
    allowed = len(os.sched_getaffinity(0))
    try:
        limit, period = map(int, quota.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # no cgroup, or `max`
        return allowed
    return max(1, min(allowed, ceil(limit / period)))


def child_environment(**more: str) -> dict[str, str]:
    """This process's environment and `more`, for a child that is to find the modules that this one finds."""
    search = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return {**os.environ, "PYTHONPATH": search, **more}


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even in the middle of native code.

    Args:
        parent: the parent's process id, as the parent told it. If it is dead already, this process ends here.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)  # no cleanup: in a forked child it would be the parent's
