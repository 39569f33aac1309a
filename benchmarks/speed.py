"""How fast everything is, against the peers that are installed, in one run: the table of the README, in Markdown.

It runs the scripts beside it one after the other, each in a process of its own, and puts what they measured in one
table; what is not installed is left out and named. Their own tables go to standard error.

    python benchmarks/speed.py [--aisimulate COMMAND] [--rounds N] [--trials FEW MANY] [--json FILE]
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from attrs import frozen

import recommend
from machine import about
from recorded import WORKERS
from replay import CACHES, COMPILED, NATIVE, PLAIN, POINTS
from sweep import EMPTY_CACHE, ONE_REPLICATION, TO_THE_DECISION

HERE = Path(__file__).parent
PROCESSES = 2
SHOWN = ("python", "numba", "ai-dynamo-runtime")


@frozen
class Row:
    """A line of the table: seconds here and of a peer, None where there is none."""

    what: str
    here: float
    peer: float | None = None
    note: str = ""

    def markdown(self) -> str:
        """With its ratio, if it has a peer."""
        peer = "" if self.peer is None else shown(self.peer) + (f" ({self.note})" if self.note else "")
        ratio = "" if self.peer is None else f"{self.peer / self.here:.3g}"
        return f"| {self.what} | {shown(self.here)} | {peer} | {ratio} |"


def shown(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"


def measured(script: str, *arguments: str) -> Any:
    """What a script measured."""
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "result.json"
        subprocess.run(
            [sys.executable, str(HERE / script), *arguments, "--json", str(result)], stdout=sys.stderr, check=True
        )
        return json.loads(result.read_text())


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Everything that can be measured here, by script, and the names of what cannot."""
    results = {
        "replay": measured("replay.py", "--rounds", str(options.rounds)),
        "sweep": measured("sweep.py", "--processes", str(PROCESSES)),
    }
    left_out = list(results["replay"]["left_out"])
    if importlib.util.find_spec("numba") is None:
        left_out.append("a million requests")
    else:
        results["scale"] = measured("scale.py")
    if shutil.which(options.aisimulate) is None:
        return results, [*left_out, "aisimulate recommend"]
    results["recommend"] = measured(
        "recommend.py",
        *("--aisimulate", options.aisimulate),
        *("--parallelism", str(PROCESSES)),
        *("--trials", *map(str, options.trials)),
    )
    return results, left_out


def rows(results: dict[str, Any]) -> list[Row]:
    replays = {each["engine"]: each for each in results["replay"]["engines"]}
    sweeps = results["sweep"]["sweeps"]
    native = replays[NATIVE]["median_seconds"] if NATIVE in replays else None
    trial = results["recommend"]["seconds_a_trial"] if "recommend" in results else None
    once, decided = sweeps[ONE_REPLICATION], sweeps[TO_THE_DECISION]
    decided_seconds = decided["seconds"] + decided["judging_seconds"]
    lines = [
        Row(f"one replay, {name}, one core", replays[name]["median_seconds"], native, "Dynamo's native replay")
        for name in (COMPILED, PLAIN)
        if name in replays
    ]
    lines += [
        Row("a trial in a sweep, two processes", once["seconds"] / once["replays"], trial, "`aisimulate recommend`"),
        Row(f"the default {once['replays']} candidates, one replication", once["seconds"]),
        Row(f"the same to a decision, {decided['replays']} replays", decided_seconds),
        Row("before either: start of the processes, with a replay each", once["start_seconds"]),
    ]
    if EMPTY_CACHE in sweeps:
        empty, cold = sweeps[EMPTY_CACHE], replays[COMPILED][CACHES[0]]
        lines += [
            Row("machine code compiled, once after installation", cold["ready_seconds"]),
            Row("the first replay meanwhile, interpreted", cold["seconds"]),
            Row("one replication meanwhile, with the start", empty["start_seconds"] + empty["seconds"]),
        ]
    if "scale" in results:
        largest = results["scale"]["windows"][-1]
        lines.append(Row(f"one replay of {largest['rows']:,} requests, processor time", largest["seconds"]))
    return lines


def page(machine: dict[str, Any], results: dict[str, Any], left_out: list[str]) -> str:
    """The table, and what there is to know about it."""
    versions = ", ".join(f"{name} {machine[name]}" for name in SHOWN if machine[name] is not None)
    sweep = results["sweep"]
    setting = (
        f"{machine['date']}, {machine['cores']} cores, {versions}; {sweep['rows']:,} recorded requests arriving "
        f"{sweep['speedup']:g} times as fast, {WORKERS.replicas} workers:"
    )
    lines = [
        setting,
        "",
        "| | dgdr_retune | peer | times as fast |",
        "|---|---|---|---|",
        *(row.markdown() for row in rows(results)),
        "",
        *(f"- {note}" for note in notes(results, left_out)),
    ]
    return "\n".join(lines)


def notes(results: dict[str, Any], left_out: list[str]) -> list[str]:
    """How the peers were run, in what that differs, and what was not measured."""
    found = []
    native = [engine for engine in results["replay"]["engines"] if engine["engine"] == NATIVE]
    if native:
        found.append(
            "Dynamo's native replay gets the same window, points, workers, timing, speed-up and SLA; it is not seeded. "
            f"By its own clock it takes {shown(native[0]['median_engine_seconds'])}."
        )
    if "recommend" in results:
        found.append(recommend_note(results["recommend"]))
    if left_out:
        found.append(f"Left out, for want of a package: {', '.join(left_out)}.")
    return found


def recommend_note(peer: dict[str, Any]) -> str:
    walls = " and ".join(f"{run['trials']} in {run['seconds']:.1f} s" for run in peer["runs"])
    return (
        f"`aisimulate recommend` (AISimulate {peer['version']}) gets the same window, workers, timing, speed-up and "
        f"SLA, and draws trials from {len(POINTS)} points, {peer['parallelism']} at once. It made {walls}; the time of "
        "a trial is the difference over that of the trials. Each is one replay, not seeded, by the runtime that it "
        f"uses: {shown(peer['runs'][-1]['median_engine_seconds'])} by its own clock, with all around it "
        f"{shown(peer['processor_seconds_a_trial'])} of processors."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aisimulate", default=recommend.COMMAND, metavar="COMMAND", help="a name on PATH, or a path")
    parser.add_argument("--rounds", type=int, default=3, help="of `replay.py`")
    parser.add_argument("--trials", type=int, nargs=2, default=(2, len(POINTS)), metavar=("FEW", "MANY"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results, left_out = measure(options)
    machine = about()
    print(page(machine, results, left_out))
    if options.json is not None:
        everything = {"about": machine, "left_out": left_out, **results}
        options.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
