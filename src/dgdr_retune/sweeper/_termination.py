"""SIGTERM and SIGINT end this process at once, whatever it is doing."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

LAST_ACT_S: Final = 0.5
"""Seconds for what is still done; a file system may hang."""


def end_on_signals(last_act: Callable[[signal.Signals], None]) -> None:
    """From now on SIGTERM and SIGINT end the process with exit status 128 + signal, after `last_act` in a thread.

    A thread, not a handler: the interpreter runs handlers between two instructions of the main thread, which may be in
    native code for seconds. Children that are tied to this process die with it.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)  # first: a signal that comes before its handler meets the one that was there
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave_it_to_the_thread)
    threading.Thread(target=_wait, args=(reading, last_act), daemon=True).start()


def _leave_it_to_the_thread(_number: int, _frame: FrameType | None) -> None:
    """What makes the interpreter write the signal's number into the pipe."""


def _wait(reading: int, last_act: Callable[[signal.Signals], None]) -> None:
    number = signal.Signals(os.read(reading, 1)[0])
    act = threading.Thread(target=last_act, args=(number,), daemon=True)
    act.start()
    act.join(LAST_ACT_S)
    os._exit(128 + number)
