"""How fast a candidate is replayed, against Dynamo's own replay, on the recorded window of 8,006 rows.

Eight points at speed-up 2 with 4 workers, each replayed in turn by every engine that is installed: the simulator
compiled (extra `fast`), the simulator in CPython, and ai-dynamo-runtime (extra `dynamo`). All run in one process each,
one at a time, on one core. Reported apart: the first replay of a new process, and how long that process was without
compiled code, both with an empty cache and with a filled one. A replay's time is what the caller waits, metrics
included; of the runtime also what it reports itself.

    python benchmarks/replay.py [--rounds N] [--json FILE]
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from attrs import frozen

from dgdr_retune.replay import (
    BuiltInEngine,
    DynamoEngine,
    ReplayEngine,
    RouterParameters,
    Scenario,
    Trace,
)
from dgdr_retune.replay._simulation import compiled_run
from machine import about
from recorded import SLA, SPECIFICATION, SPEEDUP, recorded_window

SCENARIO = Scenario(SPECIFICATION, speedup=SPEEDUP, sla=SLA)
CREDITS, SCALES, TEMPERATURES = (0.0, 1.0), (0.25, 4.0), (0.0, 0.5)
POINTS = [
    RouterParameters(overlap_score_credit=credit, prefill_load_scale=scale, temperature=temperature)
    for credit, scale, temperature in product(CREDITS, SCALES, TEMPERATURES)
]
COMPILED = "built-in, compiled"
PLAIN = "built-in, CPython"
NATIVE = "dynamo"
CACHES = ("empty_cache", "filled_cache")


@frozen
class Engine:
    """An engine to measure: in this process, or a child that runs this script with `--serve`."""

    name: str
    environment: dict[str, str]


def installed() -> list[Engine]:
    engines = [Engine(PLAIN, {"NUMBA_DISABLE_JIT": "1"})]
    if importlib.util.find_spec("numba") is not None:
        engines.insert(0, Engine(COMPILED, {}))
    if importlib.util.find_spec("dynamo") is not None:
        engines.append(Engine(NATIVE, {}))
    return engines


class Server:
    """A process that replays points for one engine and tells how long each took."""

    def __init__(self, engine: Engine, cache: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", engine.name],
            env={**os.environ, **engine.environment, "NUMBA_CACHE_DIR": cache},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self) -> dict[str, float]:
        """Have a first point replayed; the seconds it took, and those until the engine was at its best."""
        return self._ask("begin")

    def ask(self, point: int) -> dict[str, float]:
        """Have a point replayed; the seconds it took."""
        return self._ask(str(point))

    def _ask(self, request: str) -> dict[str, float]:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the server has no pipes")
        print(request, file=self._process.stdin, flush=True)
        answer: dict[str, float] = json.loads(self._process.stdout.readline())
        return answer

    def stop(self) -> None:
        """End the process."""
        self._process.communicate()


def serve(name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        trace, _ = recorded_window(Path(scratch))
    engine: ReplayEngine = DynamoEngine() if name == NATIVE else BuiltInEngine()
    for line in sys.stdin:
        answer = first(name, engine, trace) if line == "begin\n" else timed(engine, trace, POINTS[int(line)])
        print(json.dumps(answer), flush=True)


def first(name: str, engine: ReplayEngine, trace: Trace) -> dict[str, float]:
    begun = perf_counter()
    answer = timed(engine, trace, POINTS[0])
    while name == COMPILED and compiled_run() is None:
        sleep(0.05)
    return {"seconds": answer["seconds"], "ready_seconds": perf_counter() - begun}


def timed(engine: ReplayEngine, trace: Trace, router: RouterParameters) -> dict[str, float]:
    begun = perf_counter()
    metrics = engine.replay(trace, SCENARIO, router, 0)
    seconds = perf_counter() - begun
    return {"seconds": seconds, "engine_seconds": metrics.values.get("wall_time_ms", 1000.0 * seconds) / 1000.0}


def measure(engines: Sequence[Engine], rounds: int) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as cache:
        return _measure(engines, rounds, cache)


def _measure(engines: Sequence[Engine], rounds: int, cache: str) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    for engine in engines:
        server = Server(engine, cache)
        results[engine.name] = {"empty_cache": server.begin(), "seconds": [], "engine_seconds": []}
        server.stop()
    servers = {engine.name: Server(engine, cache) for engine in engines}
    for name, server in servers.items():
        results[name]["filled_cache"] = server.begin()
    for _, point in product(range(rounds), range(len(POINTS))):
        for name, server in servers.items():
            answer = server.ask(point)
            results[name]["seconds"].append(answer["seconds"])
            results[name]["engine_seconds"].append(answer["engine_seconds"])
    for server in servers.values():
        server.stop()
    return results


def table(results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Print the results; the same for the JSON file."""
    rows = []
    native = results.get(NATIVE)
    heads = ("first", "at best", "first'", "at best'", "median", "fastest", "itself")
    print(f"{'engine':<20}" + "".join(f"{head:>10}" for head in heads) + f"{'native / this':>15}")
    for name, result in results.items():
        median, fastest = statistics.median(result["seconds"]), min(result["seconds"])
        itself = statistics.median(result["engine_seconds"])
        ratio = statistics.median(native["seconds"]) / median if native else None
        shown = f"{ratio:15.2f}" if ratio is not None else f"{'-':>15}"
        starts = [result[cache][seconds] for cache in CACHES for seconds in ("seconds", "ready_seconds")]
        cells = [f"{seconds:10.2f}" for seconds in starts] + [
            f"{seconds:10.3f}" for seconds in (median, fastest, itself)
        ]
        print(f"{name:<20}" + "".join(cells) + shown)
        rows.append(
            {
                "engine": name,
                **{cache: result[cache] for cache in CACHES},
                "median_seconds": median,
                "fastest_seconds": fastest,
                "median_engine_seconds": itself,
                "replays": len(result["seconds"]),
                "native_over_this": ratio,
            }
        )
    print(
        "Seconds. first: a new process's first replay; at best: until its code was compiled (other engines: the same);"
        "\nboth with an empty cache, and (') with a filled one; itself: as the runtime reports its own time."
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="over the eight points")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    engines = installed()
    print(f"8,006 rows, {len(POINTS)} points, {options.rounds} rounds; Python {platform.python_version()}")
    rows = table(measure(engines, options.rounds))
    left_out = [name for name in (COMPILED, NATIVE) if name not in {engine.name for engine in engines}]
    if left_out:
        print(f"left out, not installed: {', '.join(left_out)}")
    if options.json is not None:
        options.json.write_text(json.dumps({"about": about(), "engines": rows, "left_out": left_out}, indent=1) + "\n")


if __name__ == "__main__":
    main()
