"""How fast a window is cut, and in how much memory.

The recorded segments are repeated 20 times (new request ids, each copy 240 s later) and cut as one window. Peers in the
same run: a program of the standard library that reads, selects, sorts and writes the same rows at the same level, and
the bare inflating of the same bytes. Each runs in a process of its own, whose start is not counted.

    python benchmarks/cut.py [--copies N] [--repeats N] [--json FILE]
"""

import argparse
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dgdr_retune.windows import CutRequest, Place, Window, cut
from dgdr_retune.windows._backend import LEVEL, Backend

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "recorded"
COPY_MS = 240_000
WINDOW = Window(start_ms=1_796_039_000_000, end_ms=1_796_045_000_000, cutoff_ms=1_796_045_060_000)
BASE_BYTES = 200_000_000
ROW_BYTES = 45

_TIMES = re.compile(rb'"(event_time_unix_ms|request_received_ms)":(\d+)')
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
_ID = re.compile(rb'"request_id":"(.{8})')


def members(segment: bytes) -> list[bytes]:
    contents = []
    while segment:
        stream = zlib.decompressobj(31)
        contents.append(stream.decompress(segment))
        segment = stream.unused_data
    return contents


def later(rows: bytes, copy: int) -> bytes:
    rows = _TIMES.sub(lambda match: b'"%b":%d' % (match[1], int(match[2]) + copy * COPY_MS), rows)
    return _ID.sub(lambda match: b'"request_id":"%08x' % (int(match[1], 16) ^ copy << 20), rows)


def repeat(copies: int, target: Path) -> int:
    """Write the segments below `target`; returns the size of the largest member's content."""
    largest = 0
    for pod in sorted(RECORDED.iterdir()):
        (target / pod.name).mkdir(parents=True)
        segments = [members(path.read_bytes()) for path in sorted(pod.iterdir())]
        for index in range(copies * len(segments)):
            copy, source = divmod(index, len(segments))
            contents = [later(rows, copy) for rows in segments[source]]
            largest = max(largest, *map(len, contents))
            path = target / pod.name / f"trace.{index:06}.jsonl.gz"
            path.write_bytes(b"".join(gzip.compress(rows, 6) for rows in contents))
            os.utime(path, (WINDOW.end_ms / 1000,) * 2)
    return largest


def run_cut(segments: Path, target: Path) -> str:
    windows = Place(str(target.parent), target.name)
    done = cut(
        CutRequest(segments=Place(str(segments)), windows=windows, name="benchmark", window=WINDOW),
        processes=len(os.sched_getaffinity(0)),
    )
    return str(done.path)


def run_standard_library(segments: Path, target: Path) -> str:
    rows = []
    ids = set()
    for path in sorted(segments.glob("*/*.jsonl.gz")):
        with gzip.open(path) as lines:
            for line in lines:
                event = json.loads(line)["event"]
                if event["event_type"] != "request_end" or event["event_time_unix_ms"] > WINDOW.cutoff_ms:
                    continue
                request = event["request"]
                start_ms = request["request_received_ms"]
                if WINDOW.start_ms <= start_ms < WINDOW.end_ms and request["request_id"] not in ids:
                    ids.add(request["request_id"])
                    end_ms = start_ms + round(request["total_time_ms"])
                    rows.append((start_ms, end_ms, request["request_id"], line))
    rows.sort()
    target.mkdir()
    path = target / "window.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=LEVEL) as window:
        window.write(b"".join(line for _, _, _, line in rows))
    return str(path)


def run_inflate(segments: Path, backend: Backend) -> None:
    for path in sorted(segments.glob("*/*.jsonl.gz")):
        data = path.read_bytes()
        at = 0
        while at < len(data):
            stream = backend.decompressor()
            feed = data[at + 10 : at + 10 + 64 * 1024]
            stream.decompress(feed)
            at += 10 + len(feed) - len(stream.unused_data) + 8


TASKS: dict[str, Callable[[Path, Path], str | None]] = {
    "cut": run_cut,
    "standard library": run_standard_library,
    "inflate (fastest)": lambda segments, _: run_inflate(segments, Backend.fastest()),
    "inflate (zlib)": lambda segments, _: run_inflate(segments, Backend.zlib()),
}


def measure(task: str, segments: Path, target: Path) -> dict[str, Any]:
    """Run one task in this process."""
    started = time.perf_counter()
    path = TASKS[task](segments, target)
    return {"seconds": time.perf_counter() - started, "path": path}


def measure_in_child(task: str, segments: Path, *, memory: bool = False) -> dict[str, Any]:
    """Run one task in a new process; with `memory`, watch what it and its helpers hold, which slows them down."""
    with tempfile.TemporaryDirectory() as scratch:
        order = [sys.executable, __file__, "--task", task, "--segments", segments, "--target", Path(scratch, "out")]
        # As the child of a cut: without threads, so that it may fork.
        child = subprocess.Popen(order, stdout=subprocess.PIPE, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        peak = 0
        while memory and child.poll() is None:
            peak = max(peak, held_bytes(child.pid))
            time.sleep(0.01)
        output, _ = child.communicate()
        if child.returncode != 0:
            raise SystemExit(f"{task} ended with {child.returncode}")
        result = json.loads(output)
        rows = gzip.decompress(Path(result["path"]).read_bytes()) if result["path"] else b""
    return {
        "seconds": result["seconds"],
        "peak_bytes": peak,
        "rows": rows.count(b"\n"),
        "sha256": hashlib.sha256(rows).hexdigest(),
    }


def held_bytes(process: int) -> int:
    """Memory of a process and its children; what they share is counted once."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        held = _PSS.search(Path(f"/proc/{process}/smaps_rollup").read_text())
    except OSError:
        return 0
    return sum(held_bytes(int(child)) for child in children) + (int(held[1]) * 1024 if held else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--segments", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--target", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(measure(options.task, options.segments, options.target)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        segments = Path(scratch, "segments")
        largest_member = repeat(options.copies, segments)
        # Interleaved, so that a slow moment of the machine hits all of them.
        runs = [{task: measure_in_child(task, segments) for task in TASKS} for _ in range(options.repeats)]
        watched = {task: measure_in_child(task, segments, memory=True) for task in ("cut", "standard library")}
    result = summary(runs, watched, largest_member)
    print(table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def summary(
    runs: list[dict[str, dict[str, Any]]], watched: dict[str, dict[str, Any]], largest_member: int
) -> dict[str, Any]:
    windows = {(run[task]["rows"], run[task]["sha256"]) for run in runs for task in ("cut", "standard library")}
    if len(windows) != 1:
        raise SystemExit("the two programs wrote different windows")
    ((rows, _),) = windows
    seconds = {task: min(run[task]["seconds"] for run in runs) for task in TASKS}
    allowed = BASE_BYTES + 2 * largest_member + ROW_BYTES * rows
    return {
        "backend": Backend.fastest().name,
        "processors": len(os.sched_getaffinity(0)),
        "python": sys.version.split()[0],
        "rows": rows,
        "level": LEVEL,
        "seconds": seconds,
        "times_faster_than_standard_library": seconds["standard library"] / seconds["cut"],
        "times_bare_inflate": seconds["cut"] / seconds["inflate (fastest)"],
        "peak_bytes": watched["cut"]["peak_bytes"],
        "allowed_bytes": allowed,
        "standard_library_peak_bytes": watched["standard library"]["peak_bytes"],
    }


def table(result: dict[str, Any]) -> str:
    title = "{rows} rows, level {level}, backend {backend}, {processors} processors, Python {python}; best runs"
    times = "\n".join(f"  {task:<20} {seconds:7.3f} s" for task, seconds in result["seconds"].items())
    cut_line = (
        f"cut: {result['times_faster_than_standard_library']:.2f} times as fast as the standard library, "
        f"{result['times_bare_inflate']:.2f} times the time of bare inflate"
    )
    memory_line = (
        f"peak memory {result['peak_bytes'] / 1e6:.0f} MB of {result['allowed_bytes'] / 1e6:.0f} MB allowed "
        f"(standard library: {result['standard_library_peak_bytes'] / 1e6:.0f} MB)"
    )
    return "\n".join((title.format(**result), times, cut_line, memory_line))


if __name__ == "__main__":
    main()
