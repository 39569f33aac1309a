"""How long a sweep of the default 108 points takes on the recorded window of 8,006 rows, and in how much memory.

Sweeps, each with worker processes of its own: one replication of every point, and the default sweep to its decision (4
to 32 replications), with compiled code in numba's cache; then one replication with an empty cache, where code is
compiled beside the sweep. The start of the workers, up to the end of the first replay of each, is reported apart, and
so is the judging of the best candidate over the window's time, which needs 16 replays in turn. Memory is the
proportional share (PSS) of this process and all workers together, sampled five times a second.

    python benchmarks/sweep.py [--processes N] [--budget SECONDS] [--speedup RATIO] [--json FILE]
"""

import argparse
import asyncio
import importlib.util
import json
import os
import platform
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from dgdr_retune.replay import BuiltInEngine, RouterParameters, Scenario, Trace
from dgdr_retune.sweep import (
    Demands,
    GridSection,
    Job,
    JobOutcome,
    LocalExecutor,
    Objective,
    Rules,
    decide,
    judge_over_time,
    run_sweep,
)
from dgdr_retune.windows import Completeness
from recorded import SLA, SPECIFICATION, SPEEDUP, recorded_window
from replay import COMPILED, Engine, Server

ONE_REPLICATION, TO_THE_DECISION = "108 points, 1 replication", "108 points, to the decision"
EMPTY_CACHE = "the same, empty cache"
SAMPLE_S = 0.2


@frozen
class Sweep:
    """What to measure: rules, and where numba keeps compiled code."""

    name: str
    rules: Rules
    cache: Path


def sweeps(scratch: Path) -> list[Sweep]:
    """Without numba there is no cache to be empty."""
    once, empty, filled = Rules(initial_replications=1, maximum_replications=1), scratch / "empty", scratch / "filled"
    measured = [Sweep(ONE_REPLICATION, once, filled), Sweep(TO_THE_DECISION, Rules(), filled)]
    if importlib.util.find_spec("numba") is None:
        return measured
    server = Server(Engine(COMPILED, {}), str(filled))
    server.begin()
    server.stop()
    return [*measured, Sweep(EMPTY_CACHE, once, empty)]


def proportional_bytes() -> int:
    """Memory of this process and its children, what they share counted once."""
    me = os.getpid()
    kib = 0
    for process in (str(me), *Path(f"/proc/{me}/task/{me}/children").read_text().split()):
        with suppress(OSError):  # it may end at any time
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
            kib += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return kib * 1024


async def watch_memory(peak: list[int]) -> None:
    while True:
        peak.append(max(peak.pop(), proportional_bytes()))
        await asyncio.sleep(SAMPLE_S)


async def measure(
    trace: Trace, completeness: Completeness, sweep: Sweep, options: argparse.Namespace
) -> dict[str, Any]:
    os.environ["NUMBA_CACHE_DIR"] = str(sweep.cache)  # of the workers, which are processes that start below
    scenario = Scenario(SPECIFICATION, speedup=options.speedup, sla=SLA)
    processes: int | Literal["auto"] = options.processes or "auto"
    baseline = RouterParameters()
    peak = [proportional_bytes()]
    watching = asyncio.create_task(watch_memory(peak))
    clock = asyncio.get_running_loop().time
    begun = clock()
    async with LocalExecutor(BuiltInEngine(), trace, scenario, processes) as executor:
        first: list[JobOutcome] = []
        await executor.replay([Job(0, baseline, each) for each in range(executor.parallelism)], first.append)
        started = clock()
        swept = await run_sweep(
            executor,
            GridSection().expand(baseline),
            baseline,
            objective=Objective.TTFT,
            rules=sweep.rules,
            budget_s=options.budget,
        )
        ended = clock()
        over_time = await judge_over_time(executor, swept)
    decision = decide(swept, completeness, Demands(minimum_rows=500), over_time.traffic)
    decided = clock()
    watching.cancel()
    if decision.outcome == "failed":
        raise SystemExit(" ".join(decision.reasons))
    replays = [replication.elapsed_s for result in swept.results for replication in result.replications]
    return {
        "start_seconds": started - begun,
        "seconds": ended - started,
        "judging_seconds": decided - ended,
        "replays": len(replays),
        "seconds_a_replay": sorted(replays)[len(replays) // 2],
        "budget_exhausted": swept.exhausted,
        "peak_bytes": peak[0],
        "outcome": decision.outcome,
        "reasons": decision.reasons,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, help="worker processes; one a core unless given")
    parser.add_argument("--budget", type=float, default=900)
    parser.add_argument("--speedup", type=float, default=SPEEDUP)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        trace, completeness = recorded_window(Path(scratch))
        measured = {
            sweep.name: asyncio.run(measure(trace, completeness, sweep, options)) for sweep in sweeps(Path(scratch))
        }
    result = {
        "rows": len(trace),
        "processes": options.processes or len(os.sched_getaffinity(0)),
        "cores": os.cpu_count(),
        "numba": importlib.util.find_spec("numba") is not None,
        "python": platform.python_version(),
        "speedup": options.speedup,
        "sweeps": measured,
    }
    print(table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")


def table(result: dict[str, Any]) -> str:
    compiled = "with" if result["numba"] else "without"
    setting = (
        f"{result['rows']} rows, {result['processes']} processes on {result['cores']} cores, {compiled} numba, "
        f"Python {result['python']}, arrivals {result['speedup']:g} times as fast"
    )
    lines = [
        setting,
        f"{'':30}{'start':>9}{'sweep':>9}{'judging':>9}{'replays':>9}{'a replay':>10}{'memory':>9}  outcome",
    ]
    for name, sweep in result["sweeps"].items():
        lines.append(
            f"{name:30}{sweep['start_seconds']:7.1f} s{sweep['seconds']:7.1f} s"
            f"{sweep['judging_seconds']:7.1f} s{sweep['replays']:9}"
            f"{1000 * sweep['seconds_a_replay']:7.0f} ms{sweep['peak_bytes'] / 1e6:6.0f} MB"
            f"  {sweep['outcome']}{' (budget ended)' * sweep['budget_exhausted']}"
        )
        lines.extend(f"  {reason}" for reason in sweep["reasons"])
    return "\n".join(lines)


if __name__ == "__main__":
    main()
