"""The commands: parse arguments, call the package, print what it says."""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from dgdr_retune import __version__
from dgdr_retune.cli import _api
from dgdr_retune.cli._draft import draft_configuration
from dgdr_retune.cli._progress import TerminalObserver
from dgdr_retune.cli._run import Exit, errors, errors_in_words, stoppable
from dgdr_retune.cli._view import (
    cut_table,
    inspection_remarks,
    inspection_table,
    plan_table,
    print_decision,
    ranking_table,
    text,
)
from dgdr_retune.planner import (
    calibrate_engine,
    choose_window,
    configuration_reference,
    cut_window,
    load_configuration,
)
from dgdr_retune.planner import retune as retune_once
from dgdr_retune.sweep import (
    DEFAULT_CANDIDATE_SECONDS,
    DEFAULT_MAX_SHARDS,
    DEFAULT_PARALLELISM,
    DEFAULT_STARTUP_SECONDS,
    plan_shards,
)
from dgdr_retune.windows import Place
from dgdr_retune.windows import inspect as inspect_segments

app = typer.Typer(
    name="dgdr-retune",
    help="Retune the KV routers of NVIDIA Dynamo deployments from recorded traffic.\n\n"
    "Frontends record request traces as segments, one directory for each frontend pod. "
    "`inspect` shows what is recorded, `init` writes a configuration from it, and `retune` cuts a window, replays it "
    "under a grid of router parameters and decides whether one of them is better than those in force.\n\n"
    "Exit codes: 0 done; 1 the decision is `failed`, the window could not be cut or gives no fit; 2 arguments, "
    "configuration or output; 130 or 143 stopped by a signal.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
WIDTH = 140  # where there is no terminal to fit in
out = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)

ConfigArgument = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="The configuration, a YAML file.", show_default=False)
]
SegmentsArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SEGMENTS", help="Directory with one directory of segments for each frontend.", show_default=False
    ),
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="END",
        help="Instead of the configured window: `last`, or a window's end as unix milliseconds or ISO time.",
    ),
]
NowOption = Annotated[
    int | None,
    typer.Option(
        "--now", metavar="UNIX_MS", help="Take this as the time now, in unix milliseconds.", show_default="the clock"
    ),
]


@app.command()
def retune(
    config: ConfigArgument,
    window: WindowOption = None,
    now: NowOption = None,
    *,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the configuration in force, defaults included, and end.")
    ] = False,
) -> None:
    """Decide whether other router parameters would have served a recorded window better.

    Cuts the window, replays it under every candidate, and writes `decision.json`, `sweep.json.zst` and `report.html`
    into the configured `output`. A decision to keep what is in force is a result like any other: exit code 0.
    """
    with errors_in_words(Exit.USAGE):
        configuration = load_configuration(config, window=window)
        if print_config:
            typer.echo(yaml.safe_dump(configuration.model_dump(mode="json"), sort_keys=False), nl=False)
            return
        with stoppable(), TerminalObserver(errors) as observer:
            record = asyncio.run(retune_once(configuration, now_ms=_now(now), observer=observer))
    if record.sweep is not None:
        out.print(ranking_table(record.sweep, record.decision))
    print_decision(out, record.decision)
    out.print(text(f"Report: {os.path.relpath(configuration.output / 'report.html')}"))
    if record.decision.outcome == "failed":
        raise typer.Exit(Exit.FAILED)


@app.command()
def cut(config: ConfigArgument, window: WindowOption = None, now: NowOption = None) -> None:
    """Cut one window from the recorded segments and publish it, without a sweep.

    A window that is published already is reused and never changed.
    """
    with errors_in_words(Exit.USAGE):
        configuration = load_configuration(config, window=window)
    with errors_in_words(Exit.FAILED), stoppable():
        chosen = choose_window(configuration, now_ms=_now(now))
        made = asyncio.run(cut_window(configuration, chosen)) if chosen else None
    out.print(cut_table(made) if made else text("no window with requests has ended"))


@app.command()
def calibrate(config: ConfigArgument, window: WindowOption = None, now: NowOption = None) -> None:
    """Fit the engine's timing and cache capacity to the latencies that a window records.

    Writes `calibrated-engine.yaml`, which takes the place of `deployment.engine`, and `calibration.html` with the fit's
    plot into the configured `output`. Needs 500 requests with latencies (frontends of Dynamo 1.6.1 and later record
    them), some of them alone on their worker; refuses a fit that does not tell requests which it has not seen.
    """
    with errors_in_words(Exit.USAGE):
        configuration = load_configuration(config, window=window)
    with errors_in_words(Exit.FAILED), stoppable():
        made = asyncio.run(calibrate_engine(configuration, now_ms=_now(now)))
    typer.echo(made.text, nl=False)
    errors.print(text(f"Written to {os.path.relpath(configuration.output)}: calibrated-engine.yaml, calibration.html"))


@app.command()
def inspect(segments: SegmentsArgument) -> None:
    """Show what is recorded: members, rows, time span, block size and damage of every segment."""
    with errors_in_words(Exit.FAILED), stoppable():
        inspection = inspect_segments(Place(str(segments)))
    out.print(inspection_table(inspection))
    for line in inspection_remarks(inspection):
        out.print(text(line))


@app.command()
def init(
    segments: SegmentsArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write; it must not exist.")] = Path(
        "retune.yaml"
    ),
) -> None:
    """Write a commented configuration from what is recorded in SEGMENTS."""
    with errors_in_words(Exit.FAILED), stoppable():
        draft = draft_configuration(inspect_segments(Place(str(segments))), segments=segments, file=output)
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(draft)
    except OSError as error:
        errors.print(text(f"error: {output}: {error.strerror}; choose another file with --output", "red"))
        raise typer.Exit(Exit.USAGE) from error
    out.print(text(f"wrote {output}: check the values marked CHECK, then run: dgdr-retune retune {output}"))


@app.command()
def plan(
    config: ConfigArgument,
    max_shards: Annotated[int, typer.Option(min=1, help="Runs side by side.")] = DEFAULT_MAX_SHARDS,
    parallelism: Annotated[int, typer.Option(min=1, help="Evaluations at once within a Run.")] = DEFAULT_PARALLELISM,
    startup_seconds: Annotated[
        float, typer.Option(min=0, help="Allowance for a Run's start.")
    ] = DEFAULT_STARTUP_SECONDS,
    candidate_seconds: Annotated[
        float, typer.Option(min=0, help="Allowance for an evaluation.")
    ] = DEFAULT_CANDIDATE_SECONDS,
) -> None:
    """Show how the configured grid would be split into Requests on Kubernetes, and how long they would take."""
    with errors_in_words(Exit.USAGE):
        configuration = load_configuration(config)
        grid = configuration.retune.grid.expand(configuration.deployment.router.parameters())
        shards = plan_shards(
            len(grid.points),
            max_shards=max_shards,
            parallelism=parallelism,
            startup_seconds=startup_seconds,
            candidate_seconds=candidate_seconds,
        )
    out.print(plan_table(grid, shards))


@app.command()
def reference() -> None:
    """Print the configuration reference (Markdown)."""
    typer.echo(configuration_reference(), nl=False)


def _now(now: int | None) -> int:
    return time.time_ns() // 1_000_000 if now is None else now


def _print_version(wanted: bool) -> None:  # noqa: FBT001 -- typer's callback signature
    if wanted:
        typer.echo(f"dgdr-retune {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None: ...


_api.register(app)


def main() -> None:
    """The entry point of `dgdr-retune`."""
    app()
