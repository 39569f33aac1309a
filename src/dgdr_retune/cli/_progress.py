"""Progress in the terminal: a bar while there is one to draw on, a line for each phase otherwise."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dgdr_retune.cli._view import text
from dgdr_retune.sweep import Progress as SweepProgress
from dgdr_retune.windows import Cut, Window


class TerminalObserver:
    """Shows on `console` how far a retune is; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("replays"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[contenders]} contenders"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("replays", total=None, visible=False, contenders="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def cutting(self, window: Window) -> None:
        """Say which window."""
        self._console.print(text(f"cutting the window that ends at {window.end_ms}"))

    def cut(self, cut: Cut) -> None:
        """Say what is in it."""
        self._console.print(
            text(f"window {cut.outcome}: {cut.counts.rows} requests, {cut.completeness.frontends} frontends")
        )

    def replayed(self, progress: SweepProgress) -> None:
        """Move the bar."""
        self._bar.update(
            self._task, total=progress.total, completed=progress.done, contenders=progress.contenders, visible=True
        )
