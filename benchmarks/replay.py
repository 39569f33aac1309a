"""How fast a candidate is replayed, against Dynamo's own replay, on the recorded window of 8,006 rows.

Eight points at speed-up 2 with 4 workers, each replayed in turn by every engine that is installed: the simulator
compiled (extra `fast`), the simulator in CPython, and ai-dynamo-runtime (extra `dynamo`). All run in one process each,
one at a time, on one core. Starting an engine and compiling are reported apart; compiling is measured into an empty
cache. A replay's time is what the caller waits, metrics included; of the runtime also what it reports itself.

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
from time import perf_counter
from typing import Any

from attrs import frozen

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

SCENARIO = Scenario(
    EngineSpecification("vllm", "aggregated", WORKERS), speedup=2.0, sla=Sla(ttft_ms=200.0, itl_ms=50.0)
)
POINTS = [
    RouterParameters(overlap_score_credit=credit, prefill_load_scale=scale, temperature=temperature)
    for credit, scale, temperature in product((0.0, 1.0), (0.25, 4.0), (0.0, 0.5))
]
COMPILED = "built-in, compiled"
PLAIN = "built-in, CPython"
NATIVE = "dynamo"


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

    def ask(self, point: int) -> dict[str, float]:
        """Have a point replayed; the seconds it took."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the server has no pipes")
        print(point, file=self._process.stdin, flush=True)
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
        print(json.dumps(timed(engine, trace, POINTS[int(line)])), flush=True)


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
        results[engine.name] = {"first_replay_seconds": server.ask(0)["seconds"], "seconds": [], "engine_seconds": []}
        server.stop()
    servers = {engine.name: Server(engine, cache) for engine in engines}
    for name, server in servers.items():
        results[name]["start_seconds"] = server.ask(0)["seconds"]
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
    print(f"{'engine':<20}{'first':>9}{'cached':>9}{'median':>9}{'fastest':>9}{'itself':>9}{'native / this':>15}")
    for name, result in results.items():
        median, fastest = statistics.median(result["seconds"]), min(result["seconds"])
        itself = statistics.median(result["engine_seconds"])
        ratio = statistics.median(native["seconds"]) / median if native else None
        shown = f"{ratio:15.2f}" if ratio is not None else f"{'-':>15}"
        print(
            f"{name:<20}{result['first_replay_seconds']:9.2f}{result['start_seconds']:9.2f}"
            f"{median:9.3f}{fastest:9.3f}{itself:9.3f}{shown}"
        )
        rows.append(
            {
                "engine": name,
                "first_replay_seconds": result["first_replay_seconds"],
                "first_replay_cached_seconds": result["start_seconds"],
                "median_seconds": median,
                "fastest_seconds": fastest,
                "median_engine_seconds": itself,
                "replays": len(result["seconds"]),
                "native_over_this": ratio,
            }
        )
    print(
        "Seconds. first: the first replay of all, compilation and the child's start included; cached: the first replay"
        "\nof a second process, with the compiled code cached; itself: as the runtime reports its own time."
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
        about = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
        options.json.write_text(json.dumps({"about": about, "engines": rows, "left_out": left_out}, indent=1) + "\n")


if __name__ == "__main__":
    main()
