"""What every child process of this package does first: a child dies with its parent."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even in the middle of native code.

    Args:
        parent: the parent's process id, as the parent told it. If it is dead already, this process ends here.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)  # no cleanup: in a forked child it would be the parent's
