"""What the page shows of one decision: the verdict, then everything it rests on."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import nan

import numpy as np
from attrs import fields, frozen

from dgdr_retune import __version__
from dgdr_retune.replay import Recorded, RequestTimes, RouterParameters, Scenario, Trace
from dgdr_retune.report._fidelity import served, verdict_on_simulation
from dgdr_retune.report._page import Page, Plot, Section
from dgdr_retune.report._plots import IntervalRow, arrivals, heat_map, intervals, knob_effect, latencies
from dgdr_retune.report._text import printable, utc
from dgdr_retune.sweep import Decision, Grid, Standing, Sweep, rank
from dgdr_retune.windows import Completeness, Counts, Cut, Window

KNOBS = ("overlap_score_credit", "prefill_load_scale", "temperature")
_PLOTTED_INTERVALS = 25
_LISTED = 100  # candidates and gaps: the page stays small, the files hold them all


@frozen(kw_only=True)
class RetuneRecord:
    """One retune: what was decided, and all that it rests on.

    Attributes:
        name: of the deployment.
        decision: the decision; a failed one names the reason.
        window: that was chosen; None if no window with rows has ended.
        cut: of that window; None where it failed.
        trace: the window's requests; None where there is no window file.
        sweep: all scores; None where it did not come to a sweep.
        recorded: how its requests were served; None where there is no window file.
        baseline_times: latencies of the parameters in force, None where they could not be replayed.
        best_times: latencies of the best candidate; None as before, or where there is none.
    """

    name: str
    decision: Decision
    window: Window | None = None
    cut: Cut | None = None
    trace: Trace | None = None
    sweep: Sweep | None = None
    recorded: Recorded | None = None
    baseline_times: RequestTimes | None = None
    best_times: RequestTimes | None = None


def build_page(record: RetuneRecord) -> Page:
    """The page of one retune."""
    decision = record.decision
    return Page(
        name=record.name,
        outcome=decision.outcome,
        heading="Decision",
        summary=decision.reasons,
        sections=tuple(_sections(record)),
        footer=f"dgdr_retune {__version__}. All scores, replication by replication, are in sweep.json.zst; "
        "the decision for machines is in decision.json.",
    )


def _sections(record: RetuneRecord) -> Iterator[Section]:
    yield _parameters(record.decision)
    if record.sweep is not None:
        standings = rank(record.sweep)
        yield _improvements(record.sweep, standings, record.decision.best)
        yield _knobs(record.sweep, standings)
    if record.sweep is not None and record.baseline_times is not None:
        yield _latencies(record, record.sweep.scenario, record.baseline_times)
    if record.window is not None and record.cut is not None:
        yield _window(record.window, record.cut, record.trace)
    if record.sweep is not None:
        yield _ranking(record.sweep, standings)


def _parameters(decision: Decision) -> Section:
    best = decision.best.candidate.router if decision.best else None
    names = [attribute.name for attribute in fields(RouterParameters)]
    head = ["parameter", "in force"] + (
        ["recommended" if decision.outcome == "recommended" else "best-ranked"] if best else []
    )
    rows = [
        [name, f"{getattr(decision.baseline, name):g}"] + ([f"{getattr(best, name):g}"] if best else [])
        for name in names
    ]
    return Section(
        title="Router parameters",
        explains="What the routers run now, and the candidate that the sweep puts first."
        if best
        else "What the routers run now.",
        table=[head, *rows],
    )


def _improvements(sweep: Sweep, standings: Sequence[Standing], best: Standing | None) -> Section:
    rows = [
        IntervalRow(
            label=_short(standing),
            low=standing.interval.lower,
            mid=standing.improvement,
            high=standing.interval.upper,
            best=best is not None and standing.candidate == best.candidate,
        )
        for standing in standings
        if not standing.baseline and standing.interval is not None and standing.improvement is not None
    ][:_PLOTTED_INTERVALS]
    what = f"improvement of {sweep.objective.value} over the parameters in force (%)"
    needed = sweep.rules.min_improvement_percentage
    return Section(
        title="Is it better?",
        explains=f"Joint {100 * sweep.rules.confidence:g} % confidence intervals of the {what}; positive is better. "
        f"A candidate is recommended only if its whole interval lies above {needed:g} %, and so does the one over the "
        "window's time that stands in the reasons. "
        "Labels: credit / scale / temperature, and the number of replications.",
        plots=[Plot(svg=intervals(rows, needed=needed, what=what), says=what)] if rows else [],
        note="" if rows else "No candidate has an interval.",
    )


def _knobs(sweep: Sweep, standings: Sequence[Standing]) -> Section:
    improvement = np.full(len(sweep.grid.points), nan)
    for standing in standings:
        if standing.candidate.grid_index is not None and standing.improvement is not None:
            improvement[standing.candidate.grid_index] = standing.improvement
    cube = improvement.reshape([len(values) for values in _values(sweep.grid)])
    plots = [
        *_heat_maps(sweep.grid, cube, f"{sweep.objective.value} better by %"),
        *_effects(sweep.grid, cube, f"{sweep.objective.value} better by %"),
    ]
    return Section(
        title="What each knob does",
        explains="Improvement over the parameters in force in percent. A heat map shows two knobs, the third at the "
        "value that it has in the best grid point; a curve shows the mean over all candidates with that value, "
        "the bar behind it their range.",
        plots=plots,
        note="" if plots else "Nothing was varied.",
    )


def _values(grid: Grid) -> tuple[tuple[float, ...], ...]:
    return grid.overlap_score_credit, grid.prefill_load_scale, grid.temperature


def _heat_maps(grid: Grid, cube: np.ndarray, what: str) -> Iterator[Plot]:
    values = _values(grid)
    if not np.isfinite(cube).any():
        return
    best = np.unravel_index(int(np.nanargmax(cube)), cube.shape)
    for y, x in combinations(range(len(KNOBS)), 2):
        if min(len(values[x]), len(values[y])) > 1:
            at = tuple(slice(None) if axis in {x, y} else best[axis] for axis in range(len(KNOBS)))
            svg = heat_map(x_name=KNOBS[x], x=values[x], y_name=KNOBS[y], y=values[y], improvement=cube[at], what=what)
            yield Plot(svg=svg, says=f"{what} over {KNOBS[x]} and {KNOBS[y]}")


def _effects(grid: Grid, cube: np.ndarray, what: str) -> Iterator[Plot]:
    for axis, values in enumerate(_values(grid)):
        if len(values) > 1:
            slices = [np.take(cube, at, axis=axis) for at in range(len(values))]
            finite = [each[np.isfinite(each)] for each in slices]
            svg = knob_effect(name=KNOBS[axis], values=values, improvements=finite, what=what)
            yield Plot(svg=svg, says=f"{what} by {KNOBS[axis]}")


def _latencies(record: RetuneRecord, scenario: Scenario, baseline: RequestTimes) -> Section:
    best, sla = record.best_times, scenario.sla
    as_it_was = scenario.speedup == 1.0
    recorded = served(record.recorded, record.trace) if as_it_was and record.recorded and record.trace else None
    plots = [
        Plot(
            svg=latencies(
                name=name,
                recorded=None if recorded is None else getattr(recorded, field),
                baseline=getattr(baseline, field),
                best=None if best is None else getattr(best, field),
                bound_ms=getattr(sla, field) if sla else None,
            ),
            says=f"{name} of the parameters in force and of the best candidate",
        )
        for field, name in (
            ("ttft_ms", "time to first token"),
            ("itl_ms", "inter-token latency"),
            ("e2e_ms", "end to end"),
        )
    ]
    return Section(
        title="Latencies",
        explains="Share of the window's requests that were served within a latency, simulated (replication 0)"
        + (", and as they were recorded." if recorded is not None else "."),
        plots=plots,
        note=verdict_on_simulation(recorded, baseline, scenario),
    )


def _window(window: Window, cut: Cut, trace: Trace | None) -> Section:
    completeness = cut.completeness
    plots = []
    if trace is not None:
        gaps = [
            (printable(gap.frontend, max_length=40), gap.start_ms, gap.end_ms)
            for gap in (completeness.gaps or ())[:_LISTED]
        ]
        svg = arrivals(trace.arrival_ms, start_ms=window.start_ms, end_ms=window.end_ms, gaps=gaps)
        plots.append(Plot(svg=svg, says="requests a second over the window"))
    refused = sorted(cut.malformed.items(), key=lambda item: -item[1])
    rows = [
        ["what", "number"],
        *([count.name.replace("_", " "), f"{getattr(cut.counts, count.name):,}"] for count in fields(Counts)),
        *([f"refused: {reason}", f"{number:,}"] for reason, number in refused),
        ["frontends seen", f"{completeness.frontends}" + _names(completeness)],
        ["gaps in the recording", f"{completeness.gap_count}, {completeness.gap_ms / 1000:,.1f} s in all"],
    ]
    return Section(
        title="The window",
        explains=f"Requests that arrived from {utc(window.start_ms)} to {utc(window.end_ms)} and had ended by "
        f"{utc(window.cutoff_ms)}. A gap is 10 s or more without an arrival at a frontend.",
        plots=plots,
        table=rows,
    )


def _names(completeness: Completeness) -> str:
    return f" ({', '.join(completeness.names)})" if completeness.names else ""


def _ranking(sweep: Sweep, standings: Sequence[Standing]) -> Section:
    head = [
        "",
        *KNOBS,
        f"{sweep.objective.value} ({sweep.objective.unit})",
        "better by %",
        "interval",
        "replications",
        "",
    ]
    rows = [_row(place, standing) for place, standing in enumerate(standings[:_LISTED], start=1)]
    left = len(standings) - len(rows)
    return Section(
        title="All candidates",
        explains="Best first. Candidates that fell behind were not replayed further.",
        table=[head, *rows],
        note=f"{left} more are in sweep.json.zst." if left else "",
    )


def _row(place: int, standing: Standing) -> list[str]:
    router = standing.candidate.router
    said = "in force" if standing.baseline else ""
    return [
        str(place),
        *(f"{getattr(router, knob):g}" for knob in KNOBS),
        "" if standing.score is None else f"{standing.score:,.2f}",
        "" if standing.improvement is None or standing.baseline else f"{standing.improvement:+.2f}",
        ""
        if standing.interval is None or standing.baseline
        else f"{standing.interval.lower:+.2f} … {standing.interval.upper:+.2f}",
        str(standing.replications),
        standing.failure.message if standing.failure else said,
    ]


def _short(standing: Standing) -> str:
    router = standing.candidate.router
    knobs = " / ".join(f"{getattr(router, knob):g}" for knob in KNOBS)
    return f"{knobs}  ({standing.replications})"
