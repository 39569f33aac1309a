"""python until_parent_ends.py PARENT COMMAND…: become COMMAND, which the kernel kills once process PARENT is gone."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h

if __name__ == "__main__":
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)  # it was gone before the kernel knew of our wish
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - to become another program is its purpose
