"""Running a command: signals stop it at once, errors become words and exit codes."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType

import typer
from rich.console import Console

from dgdr_retune.cli._view import text
from dgdr_retune.planner import PlannerError
from dgdr_retune.replay import ReplayError
from dgdr_retune.sweep import SweepError
from dgdr_retune.windows import WindowError

errors = Console(stderr=True, highlight=False, soft_wrap=True)


class Exit(IntEnum):
    """Exit codes of every command; one that a signal stops ends by that signal (130 or 143 in a shell)."""

    FAILED = 1  # the decision is `failed`, or a window could not be cut or gives no fit
    USAGE = 2  # arguments, configuration, or where results should go


@contextmanager
def errors_in_words(code: Exit) -> Iterator[None]:
    """Print an error of this package, line by line, and end the command with `code`; a planner's is one of usage."""
    try:
        yield
    except (PlannerError, ReplayError, SweepError, WindowError) as error:
        for line in str(error).splitlines():
            errors.print(text(f"error: {line}", "red"))
        raise typer.Exit(Exit.USAGE if isinstance(error, PlannerError) else code) from error


class _Stopped(KeyboardInterrupt):
    """A signal asked this process to end."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM interrupt the work wherever it is, awaiting or computing.

    Tasks are cancelled, end their children and clean up; then this process ends by the same signal, so that a shell
    sees why.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        raise _Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except _Stopped as stopped:
        number = signal.Signals(stopped.args[0])
        errors.print(text(f"stopped by {number.name}", "yellow"))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
