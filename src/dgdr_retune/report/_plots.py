"""The report's plots: numbers in, one SVG each out. Deterministic: equal numbers give equal bytes."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
from attrs import frozen
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

_STYLE: dict[Any, object] = {
    "svg.hashsalt": "dgdr-retune",
    "svg.fonttype": "none",  # text stays text: small files that can be searched
    "text.parse_math": False,  # a `$` in a name is a dollar sign
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
}
_BASELINE, _BEST, _GAP, _RECORDED = "#64748b", "#15803d", "#dc2626", "#f59e0b"
_MAX_LABELLED_CELLS = 150  # beyond, the numbers would not be readable
_CURVE_POINTS = 400
_MAX_DOTS = 2000


@frozen
class IntervalRow:
    """One row of the interval plot: improvement over the baseline in percent."""

    label: str
    low: float
    mid: float
    high: float
    best: bool


def heat_map(
    *, x_name: str, x: Sequence[float], y_name: str, y: Sequence[float], improvement: NDArray[np.float64], what: str
) -> str:
    """Improvement in percent over a pair of knobs: float64[len(y), len(x)], NaN where there is no candidate."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(1.9 + 0.62 * min(len(x), 14), 1.5 + 0.42 * min(len(y), 14)), layout="constrained")
        axes = figure.add_subplot()
        finite = improvement[np.isfinite(improvement)]
        bound = max(float(np.abs(finite).max(initial=0.0)), 1e-9)
        image = axes.imshow(
            improvement, cmap="RdYlGn", norm=TwoSlopeNorm(0.0, -bound, bound), aspect="auto", origin="lower"
        )
        axes.grid(visible=False)
        _ticks(axes, x_name, x, y_name, y)
        if improvement.size <= _MAX_LABELLED_CELLS:
            for (row, column), value in np.ndenumerate(improvement):
                if np.isfinite(value):
                    axes.text(column, row, f"{value:+.1f}", ha="center", va="center", fontsize=8)
        figure.colorbar(image, ax=axes, label=what)
        return _svg(figure)


def knob_effect(*, name: str, values: Sequence[float], improvements: Sequence[NDArray[np.float64]], what: str) -> str:
    """How one knob alone moves the objective: per value, the improvements of all candidates that have it (percent)."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(3.6, 2.6), layout="constrained")
        axes = figure.add_subplot()
        at = np.arange(len(values))
        lows = [float(each.min()) if each.size else np.nan for each in improvements]
        highs = [float(each.max()) if each.size else np.nan for each in improvements]
        means = [float(each.mean()) if each.size else np.nan for each in improvements]
        axes.vlines(at, lows, highs, color=_BASELINE, alpha=0.5, linewidth=4)
        axes.plot(at, means, "o-", color=_BEST)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_xticks(at, [f"{value:g}" for value in values], rotation=0 if len(values) < 10 else 90)  # noqa: PLR2004 -- labels that fit side by side
        axes.set_xlabel(name)
        axes.set_ylabel(what)
        return _svg(figure)


def intervals(rows: Sequence[IntervalRow], *, needed: float, what: str) -> str:
    """Confidence intervals of the improvement over the baseline, best first, and the margin that is needed."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 0.9 + 0.22 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        for at, row in enumerate(reversed(rows)):
            color = _BEST if row.best else _BASELINE
            axes.hlines(at, row.low, row.high, color=color, linewidth=2)
            axes.plot([row.mid], [at], "o", color=color, markersize=4)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.axvline(needed, color=_GAP, linewidth=0.8, linestyle="--")
        axes.set_yticks(range(len(rows)), [row.label for row in reversed(rows)], fontsize=8)
        axes.set_xlabel(f"{what}; dashed: margin needed")
        return _svg(figure)


def latencies(
    *,
    name: str,
    recorded: NDArray[np.float64] | None,
    baseline: NDArray[np.float64],
    best: NDArray[np.float64] | None,
    bound_ms: float | None,
) -> str:
    """Share of requests within a latency (milliseconds, logarithmic): as recorded, of the baseline, of the best."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(3.6, 2.6), layout="constrained")
        axes = figure.add_subplot()
        if recorded is not None:
            _share_within(axes, recorded, _RECORDED, "recorded")
        _share_within(axes, baseline, _BASELINE, "in force")
        if best is not None:
            _share_within(axes, best, _BEST, "best candidate")
        if bound_ms is not None:
            axes.axvline(bound_ms, color=_GAP, linewidth=0.8, linestyle="--", label="SLA")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")  # the default writes powers as markup of its own
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(f"{name} (ms)")
        axes.set_ylabel("share of requests")
        if axes.lines:  # no request has an inter-token latency where all answers are of one token
            axes.legend(fontsize=7, loc="lower right")
        return _svg(figure)


def prefill_fit(
    *, tokens: NDArray[np.float64], prefill_ms: NDArray[np.float64], constant_ms: float, ms_per_token: float
) -> str:
    """Recorded prefill times over new prompt tokens, at most a few thousand of them, and the fitted line."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        shown = slice(None, None, -(-len(tokens) // _MAX_DOTS) or 1)
        axes.scatter(tokens[shown], prefill_ms[shown], s=4, color=_BASELINE, alpha=0.5, linewidths=0, label="recorded")
        ends = np.array([0.0, float(tokens.max(initial=1.0))])
        axes.plot(ends, constant_ms + ms_per_token * ends, color=_BEST, label="fitted")
        axes.set_ylim(0, 3 * float(np.quantile(prefill_ms, 0.9)))
        axes.set_xlabel("new prompt tokens")
        axes.set_ylabel("prefill time (ms)")
        axes.legend(fontsize=8, loc="upper left")
        return _svg(figure)


def arrivals(arrival_ms: NDArray[np.int64], *, start_ms: int, end_ms: int, gaps: Sequence[tuple[str, int, int]]) -> str:
    """Requests a second over the window (unix milliseconds), and below each frontend's gaps (name, start, end)."""
    with mpl.rc_context(_STYLE):
        names = sorted({name for name, _, _ in gaps})
        figure = Figure(figsize=(7.2, 2.2 + 0.25 * len(names)), layout="constrained")
        axes = figure.add_subplot()
        bins = min(240, max(10, (end_ms - start_ms) // 1000))
        counts, edges = np.histogram(arrival_ms, bins=bins, range=(start_ms, end_ms))
        width_s = (end_ms - start_ms) / 1000 / bins
        axes.stairs(counts / width_s, (edges - start_ms) / 1000, fill=True, color=_BEST, alpha=0.6)
        peak = max(float(counts.max(initial=0)) / width_s, 1.0)
        for row, name in enumerate(names):
            at = -peak * 0.12 * (row + 1)
            for _, start, end in (gap for gap in gaps if gap[0] == name):
                axes.hlines(at, (start - start_ms) / 1000, (end - start_ms) / 1000, color=_GAP, linewidth=4)
            axes.text(0, at, f"{name} ", ha="right", va="center", fontsize=7)
        axes.set_xlim(0, (end_ms - start_ms) / 1000)
        axes.set_xlabel("seconds since the window's start; red: no arrivals for 10 s or more")
        axes.set_ylabel("requests/s")
        return _svg(figure)


def _share_within(axes: Axes, values: NDArray[np.float64], color: str, label: str) -> None:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return
    share = np.linspace(0, 1, _CURVE_POINTS)
    axes.plot(np.maximum(np.quantile(finite, share), 1e-3), share, color=color, label=label)


def _ticks(axes: Axes, x_name: str, x: Sequence[float], y_name: str, y: Sequence[float]) -> None:
    axes.set_xticks(range(len(x)), [f"{value:g}" for value in x])
    axes.set_yticks(range(len(y)), [f"{value:g}" for value in y])
    axes.set_xlabel(x_name)
    axes.set_ylabel(y_name)


def _svg(figure: Figure) -> str:
    out = BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue().decode()
