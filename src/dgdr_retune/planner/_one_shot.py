"""One retune from recorded segments to a decision and its files: the loop's body, run once."""

from functools import partial
from typing import Protocol

from attrs import frozen

from dgdr_retune.planner._configuration import Configuration
from dgdr_retune.planner._errors import OutputError
from dgdr_retune.planner._results import write_results
from dgdr_retune.replay import (
    ReplayError,
    engine_named,
    load_recorded,
    load_trace,
)
from dgdr_retune.report import RetuneRecord
from dgdr_retune.sweep import (
    Demands,
    Failure,
    LocalExecutor,
    Progress,
    SweepError,
    decide,
    failed,
    judge_over_time,
    no_traffic,
    run_sweep,
)
from dgdr_retune.windows import Cut, CutRequest, Place, Window, WindowError, cut_in_child, newest_window


class Observer(Protocol):
    """Is told how far a retune is; every call must return at once."""

    def cutting(self, window: Window) -> None:
        """The window is chosen, its cut begins."""
        ...

    def cut(self, cut: Cut) -> None:
        """The window is published, or was already, or has no traffic."""
        ...

    def replayed(self, progress: Progress) -> None:
        """One replay of the sweep has ended."""
        ...


async def retune(configuration: Configuration, *, now_ms: int, observer: Observer) -> RetuneRecord:
    """Cut the configured window, sweep the grid over it, decide, and write the three files of `output`.

    What goes wrong with the window, an engine or the sweep is a decision `failed` with its reason, not an exception.
    When cancelled, it ends its children at once; an interrupted cut leaves no window, and no file of `output` changes.

    Args:
        configuration: what to do.
        now_ms: unix milliseconds; decides which window is the last.
        observer: is told of progress.

    Raises:
        OutputError: the results could not be written.
    """
    record = await _Run(configuration, observer).record(now_ms)
    write_results(configuration.output, record)
    return record


def choose_window(configuration: Configuration, *, now_ms: int) -> Window | None:
    """The configured window; None if it is the last one and no window with rows has ended.

    Raises:
        WindowError: the segments cannot be read.
    """
    recording = configuration.recording
    interval_s, grace_s = recording.interval_seconds, recording.grace_seconds
    if recording.window == "last":
        return newest_window(Place(str(recording.segments)), interval_s=interval_s, grace_s=grace_s, now_ms=now_ms)
    return Window.ending_at(recording.window, interval_s=interval_s, grace_s=grace_s)


async def cut_window(configuration: Configuration, window: Window) -> Cut:
    """Cut one window of the configuration in a child process.

    Raises:
        WindowError: why there is no window.
        OutputError: the directory of windows cannot be made.
    """
    recording = configuration.recording
    try:
        recording.windows.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{recording.windows}: {error.strerror}; give another `recording.windows` directory"
        raise OutputError(message) from error
    request = CutRequest(
        segments=Place(str(recording.segments)),
        windows=Place(str(recording.windows)),
        name=configuration.name,
        window=window,
        maximum_rows=recording.max_window_rows,
    )
    return await cut_in_child(request, deadline_s=recording.cut_budget_seconds)


@frozen
class _Run:
    configuration: Configuration
    observer: Observer

    async def record(self, now_ms: int) -> RetuneRecord:
        window = cut = None
        try:
            window = choose_window(self.configuration, now_ms=now_ms)
            if window is None:
                return self._without_sweep(None, None, None)
            self.observer.cutting(window)
            cut = await cut_window(self.configuration, window)
            self.observer.cut(cut)
            if cut.path is None:
                return self._without_sweep(None, window, cut)
            return await self._sweep(window, cut, cut.path)
        except (WindowError, ReplayError, SweepError) as error:
            return self._without_sweep(Failure(error.reason, str(error)), window, cut)

    async def _sweep(self, window: Window, cut: Cut, path: str) -> RetuneRecord:
        trace = load_trace(path)
        retune, baseline = self.configuration.retune, self.configuration.deployment.router.parameters()
        engine = engine_named(retune.engine)
        async with LocalExecutor(engine, trace, self.configuration.scenario(), retune.processes) as executor:
            sweep = await run_sweep(
                executor,
                retune.grid.expand(baseline),
                baseline,
                objective=retune.objective,
                rules=self.configuration.rules(),
                budget_s=retune.budget_seconds,
                progress=self.observer.replayed,
            )
            over_time = await judge_over_time(executor, sweep)
        return RetuneRecord(
            name=self.configuration.name,
            decision=decide(sweep, cut.completeness, self._demands(), over_time.traffic),
            window=window,
            cut=cut,
            trace=trace,
            recorded=load_recorded(path),
            sweep=sweep,
            baseline_times=over_time.baseline,
            best_times=over_time.best,
        )

    def _without_sweep(self, failure: Failure | None, window: Window | None, cut: Cut | None) -> RetuneRecord:
        """A failure, or no traffic where there is none."""
        ended = partial(failed, failure) if failure else partial(no_traffic, counts=cut.counts if cut else None)
        decision = ended(
            self.configuration.deployment.router.parameters(),
            objective=self.configuration.retune.objective,
            rules=self.configuration.rules(),
            demands=self._demands(),
            completeness=cut.completeness if cut else None,
        )
        return RetuneRecord(name=self.configuration.name, decision=decision, window=window, cut=cut)

    def _demands(self) -> Demands:
        recording = self.configuration.recording
        return Demands(minimum_rows=recording.minimum_rows, frontends=recording.frontends)
