"""A cut in a process of its own, which can be stopped at any instruction."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Final

import msgspec
from attrs import frozen

from dgdr_retune._process import child_environment
from dgdr_retune.windows._cut import Cut
from dgdr_retune.windows._errors import CutError, Failure
from dgdr_retune.windows._request import CutRequest

MODULE: Final = "dgdr_retune.windows._child_main"
MAX_READ: Final = 1 << 16


@frozen
class Order:
    """What the child reads, as JSON."""

    parent: int
    request: CutRequest


@frozen
class Answer:
    """What the child writes, as JSON: one of the two."""

    cut: Cut | None = None
    failure: Failure | None = None


async def cut_in_child(request: CutRequest, *, deadline_s: float) -> Cut:
    """As `cut`, in a spawned, niced child in a session of its own.

    At the deadline or on cancellation the child is killed with its process group; if this process dies, so does it.
    Whenever that happens, a window is there as a whole or not at all, and the next cut sweeps what else is left.

    Raises:
        CutError: as `cut`, and `cut_deadline`, `cut_died`.
        WindowCorruptError: as `cut`.
        UnsafePathError: as `cut`.
    """
    # Not asyncio's own subprocesses: one whose start is cancelled may wait for ever.
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        child = subprocess.Popen(  # noqa: S603, ASYNC220 -- this interpreter; starting it takes asyncio as long
            [sys.executable, "-P", "-m", MODULE],  # -P: nothing from the working directory
            env=child_environment(OPENBLAS_NUM_THREADS="1"),  # a process with threads must not fork
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            start_new_session=True,
        )
        theirs.close()
        try:
            async with asyncio.timeout(deadline_s):
                output = await _asked(ours, msgspec.json.encode(Order(os.getpid(), request)))
        except TimeoutError:
            message = f"the window was not cut within {deadline_s:g} s: allow more, or shorten the interval"
            raise CutError("cut_deadline", message) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the group is still its own
            returncode = child.wait()
    return _cut(output, returncode)


async def _asked(child: socket.socket, order: bytes) -> bytes:
    """All that the child answers, which is nothing if it died."""
    loop = asyncio.get_running_loop()
    answer = bytearray()
    with suppress(ConnectionError):
        await loop.sock_sendall(child, order)
        child.shutdown(socket.SHUT_WR)
        while part := await loop.sock_recv(child, MAX_READ):
            answer += part
    return bytes(answer)


def _cut(output: bytes, returncode: int) -> Cut:
    try:
        answer = msgspec.json.decode(output, type=Answer)
    except msgspec.DecodeError:
        message = f"the cutting process ended with {returncode}: see its output; -9 may be a lack of memory"
        raise CutError("cut_died", message) from None
    if answer.failure is not None:
        raise answer.failure.to_error()
    if answer.cut is None:
        raise CutError("cut_died", "the cutting process gave no answer: see its output")
    return answer.cut
