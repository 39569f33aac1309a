"""How long AISimulate's Sweeper takes for a trial, on the recorded window of 8,006 rows.

`aisimulate recommend` gets what `dgdr-retune lower` makes of a Request: the file of the window, the workers, timing,
speed-up and SLA of the other benchmarks, and as its grid the points of `replay.py`, drawn without repetition. It runs
twice, with few trials and with many: a trial's time is the difference of the two walls over that of their trials, which
leaves out its own start, and its first trial, made alone to see how much memory one needs.

    python benchmarks/recommend.py [--aisimulate COMMAND] [--trials FEW MANY] [--parallelism N] [--json FILE]
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import yaml

from dgdr_retune.lowering import lower
from recorded import SLA, SPEEDUP, WORKERS, cut_oracle_window
from replay import CREDITS, POINTS, SCALES, TEMPERATURES

CONTEXT_LENGTH = 32_768
COMMAND = "aisimulate"
Json = dict[str, Any]


def request(window: Path, trials: int, parallelism: int) -> Json:
    """The Request whose input is measured; what its claim would mount is read where it is."""
    return {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": "recorded"},
        "spec": {
            "modelRef": {"name": "Qwen/Qwen3-0.6B"},
            "backends": ["vllm"],
            "hardware": {"gpu": {"sku": "h200_sxm", "budget": WORKERS.replicas}},
            "workload": {
                "trace": {
                    "source": {"persistentVolumeClaim": {"claimName": "recorded", "subPath": window.name}},
                    "replay": {"arrivalSpeedupRatio": SPEEDUP},
                }
            },
            "objective": {
                "mode": "Optimize",
                "metric": "TTFT",
                "sla": {"ttftMs": SLA.ttft_ms, "itlMs": SLA.itl_ms},
            },
            "search": {"budget": {"maxRounds": 1, "candidatesPerRound": trials, "parallelEvaluations": parallelism}},
            "aisimulate": {
                "inputOverrides": {
                    "traffic": {"source": {"paths": [str(window)]}},
                    "engine": engine(),
                    "router": {
                        "policy": "kv_router",
                        "prefill_load_model": {"type": "none"},
                        "overlap_score_credit": {"choices": list(CREDITS)},
                        "prefill_load_scale": {"choices": list(SCALES)},
                        "temperature": {"choices": list(TEMPERATURES)},
                    },
                    "optimizer": {"algorithm": "random"},
                }
            },
        },
    }


def engine() -> Json:
    parallelism = dict.fromkeys(("tensor", "pipeline", "attention_data", "moe_tensor", "moe_expert"), 1)
    return {
        "mode": "aggregated",
        "context_length": CONTEXT_LENGTH,
        "workers": {
            "aggregated": {
                "parallelism": {"preset": [{"replicas": WORKERS.replicas, **parallelism}]},
                "scheduler": {
                    "max_batched_tokens": WORKERS.max_batched_tokens,
                    "max_sequences": WORKERS.max_sequences,
                },
                "kv_cache": {
                    "block_size": WORKERS.block_size,
                    "prefix_caching": WORKERS.prefix_caching,
                    "capacity": {"type": "fixed", "blocks": WORKERS.blocks},
                },
                "timing": {"type": "polynomial"},
            }
        },
    }


def measure(command: str, window: Path, rows: int, trials: int, at_once: int) -> Json:
    """One run: what it takes, and what it says of itself."""
    with tempfile.TemporaryDirectory() as scratch:
        config, output = Path(scratch) / "config.yaml", Path(scratch) / "output"
        config.write_text(yaml.safe_dump(lower(request(window, trials, at_once)).document))
        processor, begun = processor_seconds(), perf_counter()
        ran = subprocess.run(
            [command, "recommend", "--stack", "dynamo", "--config", config, "--output-dir", output],
            capture_output=True,
            text=True,
            check=False,
        )
        seconds, processor = perf_counter() - begun, processor_seconds() - processor
        if ran.returncode:
            raise SystemExit(f"{command} recommend ended with {ran.returncode}: {ran.stderr[-2000:]}")
        result = json.loads((output / "recommendation.json").read_text())
    replays = [candidate["metrics"] for candidate in result["candidates"]]
    if [replay.get("completed_requests") for replay in replays] != [rows] * trials:
        raise SystemExit(f"{command} recommend did not replay {rows} requests in each of {trials} trials")
    return {
        "trials": trials,
        "seconds": seconds,
        "processor_seconds": processor,
        "median_engine_seconds": median(replay["wall_time_ms"] for replay in replays) / 1000,
        "version": result["provenance"]["implementation_version"],
    }


def processor_seconds() -> float:
    """Of all processes that this one started and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aisimulate", default=COMMAND, metavar="COMMAND", help="a name on PATH, or a path")
    parser.add_argument("--trials", type=int, nargs=2, default=(2, len(POINTS)), metavar=("FEW", "MANY"))
    parser.add_argument("--parallelism", type=int, default=len(os.sched_getaffinity(0)), help="trials at once")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    few, many = options.trials
    if not 0 < few < many <= len(POINTS):
        parser.error(f"--trials: FEW below MANY, and MANY at most the {len(POINTS)} points of the grid")
    if shutil.which(options.aisimulate) is None:
        raise SystemExit(f"{options.aisimulate} is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        window, completeness = cut_oracle_window(Path(scratch))
        first, last = (
            measure(options.aisimulate, window, completeness.rows, trials, options.parallelism)
            for trials in (few, many)
        )
    result = {
        "python": platform.python_version(),
        "version": last["version"],
        "rows": completeness.rows,
        "parallelism": options.parallelism,
        "runs": [first, last],
        "seconds_a_trial": (last["seconds"] - first["seconds"]) / (many - few),
        "processor_seconds_a_trial": (last["processor_seconds"] - first["processor_seconds"]) / (many - few),
    }
    print(table(result))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def table(result: Json) -> str:
    lines = [f"{result['rows']} rows, {result['parallelism']} trials at once, AISimulate {result['version']}"]
    lines += [
        f"{run['trials']} trials: {run['seconds']:.1f} s, {run['processor_seconds']:.1f} s of processors;"
        f" a replay by the runtime's own clock {run['median_engine_seconds']:.2f} s"
        for run in result["runs"]
    ]
    lines.append(
        f"a trial: {result['seconds_a_trial']:.2f} s, {result['processor_seconds_a_trial']:.2f} s of processors"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
