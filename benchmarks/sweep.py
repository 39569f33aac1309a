"""How long a sweep of the default 108 points takes on the recorded window of 8,006 rows, and in how much memory.

Two sweeps, each with worker processes of its own, whose start and compilation are counted: one replication of every
point, and the default sweep to its decision (4 to 32 replications). Memory is the proportional share (PSS) of this
process and all workers together, sampled every 50 ms.

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

from dgdr_retune.replay import (
    BuiltInEngine,
    EngineSpecification,
    PolynomialTiming,
    RouterParameters,
    Scenario,
    Sla,
    Trace,
    WorkerSpecification,
    load_trace,
)
from dgdr_retune.sweep import Demands, GridSection, LocalExecutor, Objective, Rules, decide, run_sweep
from dgdr_retune.windows import Completeness, CutRequest, Place, Window, cut

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "recorded"
LEFT_OUT = RECORDED / "frontend-1" / "trace.000003.jsonl.gz"  # as in the oracle's table
WINDOW = Window(start_ms=1_796_038_800_000, end_ms=1_796_040_000_000, cutoff_ms=1_796_040_060_000)
WORKERS = WorkerSpecification(
    replicas=4,
    gpus_per_worker=1,
    max_batched_tokens=8192,
    max_sequences=64,
    block_size=64,
    blocks=1200,
    prefix_caching=True,
    timing=PolynomialTiming(),
)
SWEEPS = {
    "108 points, 1 replication": Rules(initial_replications=1, maximum_replications=1),
    "108 points, to the decision": Rules(),
}
SAMPLE_S = 0.05


def recorded_window(scratch: Path) -> tuple[Trace, Completeness]:
    segments, windows = scratch / "segments", scratch / "windows"
    windows.mkdir()
    for path in sorted(RECORDED.glob("*/*.gz")):
        if path != LEFT_OUT:
            target = segments / path.parent.name / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    published = cut(CutRequest(segments=Place(str(segments)), windows=Place(str(windows)), name="chat", window=WINDOW))
    if published.path is None:
        raise SystemExit(f"the recorded window was not cut: {published.outcome}")
    return load_trace(published.path), published.completeness


def proportional_bytes() -> int:
    """Memory of this process and its children, what they share counted once."""
    me = str(os.getpid())
    kib = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end at any time
            if me in {process.name, (process / "stat").read_text().rpartition(")")[2].split()[1]}:
                rollup = (process / "smaps_rollup").read_text()
                kib += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return kib * 1024


async def watch_memory(peak: list[int]) -> None:
    while True:
        peak.append(max(peak.pop(), proportional_bytes()))
        await asyncio.sleep(SAMPLE_S)


async def measure(
    trace: Trace, completeness: Completeness, rules: Rules, options: argparse.Namespace
) -> dict[str, Any]:
    scenario = Scenario(
        EngineSpecification("vllm", "aggregated", WORKERS), speedup=options.speedup, sla=Sla(ttft_ms=200, itl_ms=50)
    )
    processes: int | Literal["auto"] = options.processes or "auto"
    baseline = RouterParameters()
    peak = [proportional_bytes()]
    watching = asyncio.create_task(watch_memory(peak))
    begun = asyncio.get_running_loop().time()
    async with LocalExecutor(BuiltInEngine(), trace, scenario, processes) as executor:
        swept = await run_sweep(
            executor,
            GridSection().expand(baseline),
            baseline,
            objective=Objective.TTFT,
            rules=rules,
            budget_s=options.budget,
        )
    seconds = asyncio.get_running_loop().time() - begun
    watching.cancel()
    decision = decide(swept, completeness, Demands(minimum_rows=500))
    if decision.outcome == "failed":
        raise SystemExit(" ".join(decision.reasons))
    replays = [replication.elapsed_s for result in swept.results for replication in result.replications]
    return {
        "seconds": seconds,
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
    parser.add_argument("--speedup", type=float, default=2.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        trace, completeness = recorded_window(Path(scratch))
    result = {
        "rows": len(trace),
        "processes": options.processes or len(os.sched_getaffinity(0)),
        "cores": os.cpu_count(),
        "numba": importlib.util.find_spec("numba") is not None,
        "python": platform.python_version(),
        "speedup": options.speedup,
        "sweeps": {name: asyncio.run(measure(trace, completeness, rules, options)) for name, rules in SWEEPS.items()},
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
    lines = [setting, f"{'':30}{'wall':>9}{'replays':>9}{'a replay':>10}{'memory':>9}  outcome"]
    for name, sweep in result["sweeps"].items():
        lines.append(
            f"{name:30}{sweep['seconds']:7.1f} s{sweep['replays']:9}{1000 * sweep['seconds_a_replay']:7.0f} ms"
            f"{sweep['peak_bytes'] / 1e6:6.0f} MB  {sweep['outcome']}{' (budget ended)' * sweep['budget_exhausted']}"
        )
        lines.extend(f"  {reason}" for reason in sweep["reasons"])
    return "\n".join(lines)


if __name__ == "__main__":
    main()
