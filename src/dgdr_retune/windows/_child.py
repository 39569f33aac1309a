"""A cut in a process of its own, which can be stopped at any instruction."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import Final

import msgspec
from attrs import frozen

from dgdr_retune.windows._cut import Cut
from dgdr_retune.windows._errors import CutError, Failure
from dgdr_retune.windows._request import CutRequest

MODULE: Final = "dgdr_retune.windows._child_main"


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
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", MODULE),  # -P: nothing from the working directory
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process with threads must not fork
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(deadline_s):
            output, _ = await child.communicate(msgspec.json.encode(Order(os.getpid(), request)))
    except TimeoutError:
        message = f"the window was not cut within {deadline_s:g} s: allow more, or shorten the interval"
        raise CutError("cut_deadline", message) from None
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
    return _cut(output, child.returncode)


def _cut(output: bytes, returncode: int | None) -> Cut:
    if returncode != 0:
        message = f"the cutting process ended with {returncode}: see its output; -9 may be a lack of memory"
        raise CutError("cut_died", message)
    answer = msgspec.json.decode(output, type=Answer)
    if answer.failure is not None:
        raise answer.failure.to_error()
    if answer.cut is None:
        raise CutError("cut_died", "the cutting process gave no answer: see its output")
    return answer.cut
