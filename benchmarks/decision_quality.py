"""How good decisions are, judged by Dynamo's own replay (extra `dynamo`) with many repeats.

The recorded traffic is cut into four consecutive pieces of 58 s in fifteen variants: all of it, one of its two
frontends, or every other request, each at three speeds; 60 windows, 45 pairs of consecutive ones. The judge replays
all 18 points of a grid four times on every window, and those that matter 16 times: its six best, the parameters in
force and what was decided. Each window is swept three times:

- with a point of the grid in force that a fixed seed draws (is what is applied better, is what is better applied?),
- with the judge's best point in force (is nothing applied where nothing is better?),
- with what was decided on the window before it in force (does a decision on unchanged traffic stand?).

A finished window is appended to the file of `--windows`, so that an interrupted run goes on where it was.

    python benchmarks/decision_quality.py [--windows FILE] [--first N] [--json FILE]
"""

import argparse
import asyncio
import itertools
import json
import math
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from attrs import frozen

from dgdr_retune.replay import (
    BuiltInEngine,
    DynamoEngine,
    RouterParameters,
    Scenario,
    Trace,
    load_trace,
)
from dgdr_retune.sweep import (
    Decision,
    Demands,
    GridSection,
    LocalExecutor,
    Objective,
    Rules,
    decide,
    judge_over_time,
    run_sweep,
)
from dgdr_retune.windows import Completeness
from machine import about
from recorded import SEGMENTS, SPECIFICATION, cut_recorded

PIECES = 4
VARIANTS = tuple(
    (traffic, speedup)
    for traffic, speedups in (
        ("all", (1.0, 1.5, 2.0)),
        ("frontend-0", (2.0, 3.0, 4.0)),
        ("frontend-1", (2.0, 3.0, 4.0)),
        ("even requests", (2.0, 3.0, 4.0)),
        ("odd requests", (2.0, 3.0, 4.0)),
    )
    for speedup in speedups
)
GRID = GridSection.model_validate(
    {
        "overlap_score_credit": {"choices": [0, 0.5, 1]},
        "prefill_load_scale": {"choices": [0.25, 1, 4]},
        "temperature": {"choices": [0, 0.5]},
    }
).expand(RouterParameters())
SCREENED, REPEATS, FINALISTS = 4, 16, 6
RULES = Rules()
BUDGET_S = 120.0
CLEARLY_BETTER = 0.05


@frozen
class Piece:
    """One window: a variant of the traffic, and which of its consecutive pieces."""

    traffic: str
    speedup: float
    number: int
    trace: Trace

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.traffic} x {self.speedup:g}, piece {self.number}"


class Judge:
    """Mean TTFT of grid points on one window by Dynamo's runtime; repeats are added as they are asked for."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.samples: dict[int, list[float]] = {}

    def mean(self, point: int, repeats: int) -> float:
        """Of at least so many repeats, milliseconds."""
        done = self.samples.setdefault(point, [])
        engine, scenario = DynamoEngine(), Scenario(SPECIFICATION, speedup=self.piece.speedup)
        while len(done) < repeats:
            metrics = engine.replay(self.piece.trace, scenario, GRID.points[point], len(done))
            done.append(metrics["mean_ttft_ms"])
        return fmean(done)

    def best(self) -> int:
        """The point with the least mean, of those that the screening puts first."""
        points = range(len(GRID.points))
        screened = sorted(points, key=lambda point: self.mean(point, SCREENED))
        return min(screened[:FINALISTS], key=lambda point: self.mean(point, REPEATS))


def traffic(name: str, scratch: Path) -> Trace:
    """The whole recording, or one frontend's part of it, as one window."""
    segments = [path for path in SEGMENTS if not name.startswith("frontend") or path.parent.name == name]
    path, _ = cut_recorded(scratch / name, segments)
    return load_trace(path)


def selected(trace: Trace, rows: np.ndarray) -> Trace:
    counts = np.diff(trace.hash_start)
    kept = np.zeros(len(trace), dtype=bool)
    kept[rows] = True
    return Trace(
        block_size=trace.block_size,
        arrival_ms=trace.arrival_ms[kept],
        input_length=trace.input_length[kept],
        output_length=trace.output_length[kept],
        hash_start=np.concatenate(([0], np.cumsum(counts[kept]))),
        hashes=trace.hashes[np.repeat(kept, counts)],
    )


def pieces() -> Iterator[Piece]:
    with tempfile.TemporaryDirectory() as scratch:
        whole = {name: traffic(name, Path(scratch)) for name in ("all", "frontend-0", "frontend-1")}
    span = whole["all"].arrival_ms
    edges = np.linspace(span.min(), span.max() + 1, PIECES + 1)
    for name, speedup in VARIANTS:
        trace = whole.get(name, whole["all"])
        if name.endswith("requests"):
            trace = selected(trace, np.arange(len(trace))[name.startswith("odd") :: 2])
        for number in range(PIECES):
            rows = np.flatnonzero((trace.arrival_ms >= edges[number]) & (trace.arrival_ms < edges[number + 1]))
            yield Piece(name, speedup, number, selected(trace, rows))


async def decided(piece: Piece, baseline: RouterParameters) -> Decision:
    """What `dgdr-retune retune` would decide on this window."""
    trace, scenario = piece.trace, Scenario(SPECIFICATION, speedup=piece.speedup)
    async with LocalExecutor(BuiltInEngine(), trace, scenario) as executor:
        swept = await run_sweep(executor, GRID, baseline, objective=Objective.TTFT, rules=RULES, budget_s=BUDGET_S)
        over_time = await judge_over_time(executor, swept)
    completeness = Completeness(rows=len(trace), frontends=1, fingerprints=None, gap_count=0, gap_ms=0)
    return decide(swept, completeness, Demands(), over_time.traffic)


def point_of(router: RouterParameters) -> int:
    point = GRID.index(router)
    if point is None:
        raise SystemExit(f"{router} is no point of the grid")
    return point


def judged(piece: Piece, at: int, before: dict[str, Any] | None) -> dict[str, Any]:
    """All three decisions on one window, and what the judge says of them."""
    judge = Judge(piece)
    best = judge.best()
    drawn = random.Random(at).randrange(len(GRID.points))  # noqa: S311 -- not for secrets
    in_force = {"drawn": drawn, "best": best}
    if before is not None:
        in_force["previous"] = before["decisions"]["drawn"]["router"]
    decisions = {}
    for name, baseline in in_force.items():
        decision = asyncio.run(decided(piece, GRID.points[baseline]))
        ranked = None if decision.best is None else point_of(decision.best.candidate.router)
        decisions[name] = {
            "in_force": baseline,
            "applied": decision.outcome == "recommended",
            "router": point_of(decision.router),
            "ranked": baseline if ranked is None or (decision.best.improvement or 0) <= 0 else ranked,
            "improvement": decision.best.improvement if decision.best else None,
        }
    named = {point for each in decisions.values() for point in (each["in_force"], each["router"], each["ranked"])}
    means = {point: judge.mean(point, REPEATS) for point in sorted(named | {best})}
    best = min(means, key=means.__getitem__)
    errors = {point: float(np.std(judge.samples[point], ddof=1)) / math.sqrt(REPEATS) for point in means}
    return {
        "window": piece.name,
        "variant": [piece.traffic, piece.speedup],
        "number": piece.number,
        "rows": len(piece.trace),
        "best": best,
        "ttft_ms": means,
        "standard_error_ms": errors,
        "screened_ms": {point: judge.mean(point, SCREENED) for point in range(len(GRID.points))},
        "decisions": decisions,
    }


def share(hits: Sequence[bool]) -> dict[str, Any]:
    """A share with its 95 % interval (Wilson, "Probable inference", 1927), as if windows were independent.

    They are variants of the same few pieces of one recording, so in truth it is wider.
    """
    n, z = len(hits), 1.959964
    if not n:
        return {"hits": 0, "of": 0, "share": None, "lower": 0.0, "upper": 1.0}
    p = sum(hits) / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return {"hits": sum(hits), "of": n, "share": p, "lower": (middle - half) / scale, "upper": (middle + half) / scale}


def ttft(window: dict[str, Any], point: int) -> float:
    """The judge's mean on a window, of all repeats where it has them."""
    known = {int(key): value for key, value in window["ttft_ms"].items()}
    screened = {int(key): value for key, value in window["screened_ms"].items()}
    return known.get(point, screened[point])


def summary(windows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    drawn = [(window, window["decisions"]["drawn"]) for window in windows]
    regrets = [ttft(window, each["ranked"]) / ttft(window, window["best"]) - 1 for window, each in drawn]
    followed = [
        (before["decisions"]["drawn"], after)
        for before, after in itertools.pairwise(windows)
        if before["variant"] == after["variant"]
    ]
    return {
        "windows": len(windows),
        "regret_median": median(regrets),
        "regret_worst": max(regrets),
        "applied_and_better": share(
            [ttft(window, each["router"]) < ttft(window, each["in_force"]) for window, each in drawn if each["applied"]]
        ),
        "applied_where_nothing_is_better": share([window["decisions"]["best"]["applied"] for window in windows]),
        "applied_where_clearly_better": share(
            [
                each["applied"]
                for window, each in drawn
                if ttft(window, window["best"]) < (1 - CLEARLY_BETTER) * ttft(window, each["in_force"])
            ]
        ),
        "flipped_on_the_next_window": share([after["decisions"]["previous"]["applied"] for _, after in followed]),
        "replaced_on_the_next_window": share(
            [after["decisions"]["previous"]["applied"] for before, after in followed if before["applied"]]
        ),
        "kept_and_applied_on_the_next_window": share(
            [after["decisions"]["previous"]["applied"] for before, after in followed if not before["applied"]]
        ),
        "still_better_on_the_next_window": share(
            [
                ttft(after, before["router"]) < ttft(after, before["in_force"])
                for before, after in followed
                if before["applied"]
            ]
        ),
    }


def show(result: dict[str, Any]) -> None:
    print(f"{result['windows']} windows")
    print(f"regret of the best-ranked: median {result['regret_median']:.2%}, worst {result['regret_worst']:.2%}")
    for name, value in result.items():
        if isinstance(value, dict) and value["of"]:
            interval = f"{value['lower']:.1%} to {value['upper']:.1%}"
            print(f"{name.replace('_', ' ')}: {value['hits']} of {value['of']} = {value['share']:.1%} ({interval})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=Path, help="finished windows, one JSON object a line; goes on with these")
    parser.add_argument("--first", type=int, help="only so many windows")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    done: list[dict[str, Any]] = []
    if options.windows is not None and options.windows.exists():
        done = [json.loads(line) for line in options.windows.read_text().splitlines()]
    for at, piece in enumerate(itertools.islice(pieces(), options.first)):
        if at < len(done):
            continue
        done.append(judged(piece, at, done[-1] if piece.number else None))
        print(done[-1]["window"], json.dumps(done[-1]["decisions"]), flush=True)
        if options.windows is not None:
            with options.windows.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    result = summary(done)
    show(result)
    if options.json is not None:
        options.json.write_text(json.dumps({"about": about(), "summary": result, "windows": done}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
