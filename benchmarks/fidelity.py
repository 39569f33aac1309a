"""How close the built-in simulator is to Dynamo's own replay, on the recorded window of 8,006 rows.

One table is the recorded oracle (36 points at speed-up 2 with 4 workers, four repeats each by ai-dynamo-runtime 1.6.1).
The others are made here with the installed runtime (extra `dynamo`): other speed-ups and numbers of workers, 8 points,
8 repeats each. The simulator's side is the mean over 16 replications. Bounds at every point: mean TTFT within 10 %,
mean ITL and mean end-to-end latency within 2 %, prefix reuse within 0.01; and for the order of the points by mean TTFT:
Kendall's tau-b of at least 0.65 on the oracle's table, on the others at least 90 % of the pairs of points whose means
differ by more than 3 standard errors ordered alike. The exit status says whether all are met.

    python benchmarks/fidelity.py [--tables oracle made] [--json FILE]
"""

import argparse
import itertools
import json
import math
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

from dgdr_retune.replay import (
    BuiltInEngine,
    DynamoEngine,
    EngineSpecification,
    ReplayEngine,
    RouterParameters,
    Scenario,
    Sla,
    Trace,
)
from sweep import WORKERS, recorded_window

ORACLE = Path(__file__).parents[1] / "tests" / "data" / "oracle" / "speedup-2.json"
REPLICATIONS = 16
REPEATS = 8
MADE = {"speed-up 1": (1.0, 4), "speed-up 3": (3.0, 4), "2 workers": (2.0, 2), "8 workers": (2.0, 8)}
BOUNDS = {
    "mean_ttft_ms": 0.10,
    "mean_itl_ms": 0.02,
    "mean_e2e_latency_ms": 0.02,
    "prefix_cache_reused_ratio": 0.01,
}
ABSOLUTE = {"prefix_cache_reused_ratio"}
ORDERED_BY = "mean_ttft_ms"
LEAST_TAU = 0.65
LEAST_ALIKE = 0.9
STANDARD_ERRORS = 3.0


@frozen
class Sample:
    """Mean and sample standard deviation of a metric over repeats."""

    mean: float
    deviation: float
    repeats: int

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.deviation / math.sqrt(self.repeats)


@frozen
class Point:
    """One point of a table: both engines' samples by metric."""

    router: RouterParameters
    native: dict[str, Sample]
    ours: dict[str, Sample]

    def difference(self, metric: str) -> float:
        """Ours less the native mean; relative but for ratios."""
        native, ours = self.native[metric].mean, self.ours[metric].mean
        return ours - native if metric in ABSOLUTE else ours / native - 1.0


def scenario_of(speedup: float, workers: int) -> Scenario:
    specification = EngineSpecification("vllm", "aggregated", evolve(WORKERS, replicas=workers))
    return Scenario(specification, speedup=speedup, sla=Sla(ttft_ms=200.0, itl_ms=50.0))


def repeat(
    engine: ReplayEngine, trace: Trace, scenario: Scenario, router: RouterParameters, count: int
) -> dict[str, Sample]:
    runs = [engine.replay(trace, scenario, router, replication) for replication in range(count)]
    samples = {}
    for metric in BOUNDS:
        values = [run[metric] for run in runs]
        mean = math.fsum(values) / count
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
        samples[metric] = Sample(mean, deviation, count)
    return samples


def oracle_points(trace: Trace) -> Iterator[Point]:
    table = json.loads(ORACLE.read_text())
    scenario = scenario_of(table["speedup"], table["workers"])
    for entry in table["points"]:
        router = RouterParameters(**entry["point"])
        native = {metric: Sample(entry["mean"][metric], entry["stdev"][metric], table["repeats"]) for metric in BOUNDS}
        yield Point(router, native, repeat(BuiltInEngine(), trace, scenario, router, REPLICATIONS))


def made_points(trace: Trace, speedup: float, workers: int) -> Iterator[Point]:
    scenario = scenario_of(speedup, workers)
    for credit, scale, temperature in itertools.product((0.0, 1.0), (0.25, 4.0), (0.0, 0.5)):
        router = RouterParameters(overlap_score_credit=credit, prefill_load_scale=scale, temperature=temperature)
        native = repeat(DynamoEngine(), trace, scenario, router, REPEATS)
        yield Point(router, native, repeat(BuiltInEngine(), trace, scenario, router, REPLICATIONS))


def tau_b(pairs: Sequence[tuple[float, float]]) -> float:
    """Kendall's rank correlation with ties (tau-b)."""
    score = left = right = 0
    for (x0, y0), (x1, y1) in itertools.combinations(pairs, 2):
        dx, dy = (x0 > x1) - (x0 < x1), (y0 > y1) - (y0 < y1)
        score += dx * dy
        left += dx != 0
        right += dy != 0
    return score / math.sqrt(left * right)


def alike(points: Sequence[Point]) -> tuple[int, int]:
    """Of the pairs of points that the native engine tells apart: how many ours orders alike, and how many there are."""
    told_apart = ordered_alike = 0
    for one, other in itertools.combinations(points, 2):
        difference = one.native[ORDERED_BY].mean - other.native[ORDERED_BY].mean
        if abs(difference) <= STANDARD_ERRORS * math.hypot(
            one.native[ORDERED_BY].error, other.native[ORDERED_BY].error
        ):
            continue
        told_apart += 1
        ordered_alike += (one.ours[ORDERED_BY].mean - other.ours[ORDERED_BY].mean) * difference > 0
    return ordered_alike, told_apart


def show(name: str, points: Sequence[Point]) -> dict[str, Any]:
    """Print a table; its result for the JSON file."""
    print(f"\n{name}\n{'credit':>7}{'scale':>7}{'temp.':>7}" + "".join(f"{metric:>30}" for metric in BOUNDS))
    for point in points:
        router = point.router
        cells = [f"{router.overlap_score_credit:7g}{router.prefill_load_scale:7g}{router.temperature:7g}"]
        for metric in BOUNDS:
            native, ours, difference = point.native[metric].mean, point.ours[metric].mean, point.difference(metric)
            shown = f"{difference:+.4f}" if metric in ABSOLUTE else f"{difference:+.2%}"
            cells.append(f"{native:11.3f} {ours:9.3f} {shown:>8}")
        print("".join(cells))
    worst = {metric: max(abs(point.difference(metric)) for point in points) for metric in BOUNDS}
    tau = tau_b([(point.native[ORDERED_BY].mean, point.ours[ORDERED_BY].mean) for point in points])
    ordered_alike, told_apart = alike(points)
    print("worst: " + ", ".join(f"{metric} {value:.4f} (bound {BOUNDS[metric]})" for metric, value in worst.items()))
    print(f"order by {ORDERED_BY}: tau-b {tau:.3f}; {ordered_alike} of {told_apart} pairs told apart ordered alike")
    met = all(value <= BOUNDS[metric] for metric, value in worst.items())
    met &= tau >= LEAST_TAU if name == "oracle" else ordered_alike >= LEAST_ALIKE * told_apart
    print("all bounds are met" if met else "NOT ALL BOUNDS ARE MET")
    return {
        "table": name,
        "points": [asdict(point) for point in points],
        "worst": worst,
        "tau_b": tau,
        "ordered_alike": ordered_alike,
        "told_apart": told_apart,
        "met": met,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=["oracle", "made"], default=["oracle", "made"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        trace, _ = recorded_window(Path(scratch))
    results = []
    if "oracle" in options.tables:
        results.append(show("oracle", list(oracle_points(trace))))
    if "made" in options.tables:
        for name, (speedup, workers) in MADE.items():
            results.append(show(name, list(made_points(trace, speedup, workers))))
    if options.json is not None:
        about = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "ai-dynamo-runtime": version("ai-dynamo-runtime") if "made" in options.tables else None,
            "replications": REPLICATIONS,
            "repeats": REPEATS,
        }
        options.json.write_text(json.dumps({"about": about, "tables": results}, indent=1) + "\n")
    return 0 if all(result["met"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
