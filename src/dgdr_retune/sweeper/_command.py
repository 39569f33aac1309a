"""The sweeper's command: arguments, the order of things, exit statuses."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from attrs import define, frozen

from dgdr_retune.api import INPUT_VARIABLE, REPLICATIONS_VARIABLE, SNAPSHOT_FILE
from dgdr_retune.replay import ENGINE_NAMES, EngineUnavailableError, ReplayEngine, ReplayError, engine_named
from dgdr_retune.sweeper._candidates import points
from dgdr_retune.sweeper._delegate import PROGRAM, Delegate, installed
from dgdr_retune.sweeper._errors import (
    AiSimulateMissingError,
    EngineMissingError,
    ExitStatus,
    InputError,
    NothingFeasibleError,
    SnapshotError,
    SweeperError,
    TerminatedError,
)
from dgdr_retune.sweeper._evaluation import Plan, evaluate
from dgdr_retune.sweeper._input import (
    MAX_PUBLISHED,
    OUTPUT_SECTION,
    Json,
    OutputSection,
    output_section,
    read_document,
    replications,
)
from dgdr_retune.sweeper._router_grid import RouterGrid, router_grid
from dgdr_retune.sweeper._snapshot import Snapshot, SnapshotFile
from dgdr_retune.sweeper._termination import end_on_signals
from dgdr_retune.sweeper._trace import check_trace, read_trace, trace_paths

_EPILOG: Final = f"""\
exit statuses:
  {ExitStatus.SUCCEEDED}    a final snapshot with candidates was written
  {ExitStatus.FAILED}    no candidate has a score, or the final snapshot could not be written
  {ExitStatus.REFUSED}    refused: arguments, input, trace (missing, a directory, empty, damaged), engine not installed
  {ExitStatus.INTERRUPTED}  SIGINT
  {ExitStatus.TERMINATED}  SIGTERM
An input that is no grid of router parameters on a trace, or whose generator is aic, is handed to `{PROGRAM} recommend`
where that is installed, and refused where it is not. Its exit statuses are kept (1, 2, 124 timeout at its start or end,
130), but {ExitStatus.RESOURCE_LIMITED} (resource-limited) is {ExitStatus.SUCCEEDED} if it wrote a result.
Once it has loaded, which takes a second or two, and knows the snapshot's directory, every end but SIGKILL leaves a
final snapshot that names the cause.
"""


@frozen
class Options:
    """What the command line says."""

    engine: str
    snapshot_dir: Path | None
    config: Path | None


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Evaluate one input; the exit status."""
    options = _parse(arguments)
    run = _Run(options, environment, lambda: datetime.now(UTC))
    end_on_signals(run.terminated)
    try:
        return run.evaluate()
    except SweeperError as error:
        sys.stderr.write(f"{error.reason}: {error}\n")
        return run.failed(error)
    except Exception as error:
        run.failed(SweeperError(f"{type(error).__name__}: {error}; this is a defect, please report it"))
        raise


def _parse(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m dgdr_retune.sweeper",
        description=(
            "Evaluates AISimulate's input and keeps the result so far in a snapshot. A grid of router parameters on a"
            f" recorded trace is replayed here. The input is read from {INPUT_VARIABLE} (JSON), the number of"
            f" replications of each candidate from {REPLICATIONS_VARIABLE} (default 1)."
        ),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--engine", choices=ENGINE_NAMES, default="built-in", help="what replays (default: built-in)")
    parser.add_argument(
        "--snapshot-dir",
        type=Path,
        help=f"directory of {SNAPSHOT_FILE} (default: snapshot_dir of the input's section {OUTPUT_SECTION})",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="read the input from this YAML or JSON file")
    return Options(**vars(parser.parse_args(arguments)))


@define
class _Run:
    """One evaluation."""

    options: Options
    environment: Mapping[str, str]
    now: Callable[[], datetime]
    file: SnapshotFile | None = None
    delegate: Delegate | None = None

    def evaluate(self) -> int:
        if self.options.snapshot_dir is not None:
            self.file = SnapshotFile(self.options.snapshot_dir, self.now)
        document = read_document(self.environment, self.options.config)
        output = output_section(document)
        if self.file is None:
            if output.snapshot_dir is None:
                raise InputError(f"{OUTPUT_SECTION}.snapshot_dir: missing; give it, or --snapshot-dir")
            self.file = SnapshotFile(Path(output.snapshot_dir), self.now)
        _write(self.file, Snapshot())
        for path in trace_paths(document):
            check_trace(path)
        grid = router_grid(document)
        here = isinstance(grid, RouterGrid) and output.generator == "direct"
        if isinstance(grid, RouterGrid) and here:
            return self._replay(grid, output, self.file)
        why = grid if isinstance(grid, str) else f"{OUTPUT_SECTION}.generator: only AISimulate has aic; use direct"
        return self._delegate(document, why, self.file)

    def failed(self, error: SweeperError) -> int:
        """Leave the cause in the snapshot."""
        if self.file is not None:
            try:
                self.file.write(self.file.latest.failed(error))
            except OSError as again:
                sys.stderr.write(f"the final snapshot could not be written: {again}\n")
        return error.status

    def terminated(self, number: signal.Signals) -> None:
        """The last act of a process that was told to end."""
        error = TerminatedError(f"ended by {number.name} before the evaluation was complete")
        if self.file is None:
            return
        if self.delegate is None:
            self.failed(error)
            return
        with suppress(OSError):
            self.file.end_foreign(error, stop=self.delegate.kill)

    def _replay(self, grid: RouterGrid, output: OutputSection, file: SnapshotFile) -> int:
        plan = Plan(
            points=points(grid, output),
            scenario=grid.scenario(),
            objective=grid.objective,
            replications=replications(self.environment),
            parallelism=grid.optimizer.parallelism,
            timeout_s=grid.optimizer.candidate_timeout_seconds,
            most=output.max_candidates,
            interval_s=output.snapshot_interval_seconds,
        )
        _check_gpus(plan, grid)
        _check_size(plan)
        engine = engine_named(self.options.engine)
        _check_engine(engine)
        trace = read_trace(grid.trace)
        _write(file, asyncio.run(evaluate(plan, engine, trace, file)))
        return ExitStatus.SUCCEEDED

    def _delegate(self, document: Mapping[str, Json], why: str, file: SnapshotFile) -> int:
        program = installed()
        if program is None:
            raise AiSimulateMissingError(
                f"this input is for AISimulate, which is not installed here ({why}); change it into a grid of router"
                " parameters on a trace, or use an image with AISimulate"
            )
        self.delegate = Delegate.start(program, document, file.path.parent)
        try:
            return self.delegate.finish(file)
        except OSError as error:
            raise _not_written(file, error) from error


def _check_gpus(plan: Plan, grid: RouterGrid) -> None:
    used, bounds = plan.points[0].used_gpus, grid.optimization.constraints
    if not (bounds.min_candidate_gpus or 1) <= used <= bounds.max_candidate_gpus:
        raise NothingFeasibleError(
            f"no feasible candidate found: the engine takes {used} GPUs, optimization.constraints allow"
            f" {bounds.min_candidate_gpus or 1} to {bounds.max_candidate_gpus}"
        )


def _check_size(plan: Plan) -> None:
    candidates = min(plan.most, len(plan.points))
    if candidates * plan.replications > MAX_PUBLISHED:
        raise InputError(
            f"{REPLICATIONS_VARIABLE}: {plan.replications} replications of {candidates} candidates are too much for one"
            f" snapshot; ask for at most {MAX_PUBLISHED // candidates}, or for fewer candidates"
        )


def _check_engine(engine: ReplayEngine) -> None:
    """Ask an engine for something that it needs to be installed for."""
    try:
        _ = engine.paired
    except EngineUnavailableError as error:
        raise EngineMissingError(str(error)) from error
    except ReplayError as error:
        raise SweeperError(f"{error.reason}: {error}") from error


def _write(file: SnapshotFile, snapshot: Snapshot) -> None:
    try:
        file.write(snapshot)
    except OSError as error:
        raise _not_written(file, error) from error


def _not_written(file: SnapshotFile, error: OSError) -> SnapshotError:
    return SnapshotError(f"{file.path}: {error.strerror}; give a directory that can be written, with room for it")
