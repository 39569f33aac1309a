"""How replay time and memory grow with the window: the recorded 8,006 rows, twelve and 125 times over.

Each copy follows the one before and has hashes of its own. One candidate, the compiled simulator (extra `fast`), one
core. Processor time of a replay with its metrics, engine start and compilation left out, and of numbering the hashes,
which a window needs once for all candidates; bytes of the columns that all candidates and processes share, for each
row; and what the process holds at its peak, its copies of the window included.

    python benchmarks/scale.py [--json FILE]
"""

import argparse
import importlib.util
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from attrs import fields

from dgdr_retune.replay import BuiltInEngine, RouterParameters, Scenario, Trace
from dgdr_retune.replay._simulation import compiled_run
from machine import about
from recorded import SPECIFICATION, SPEEDUP, recorded_window

COPIES = (1, 12, 125)


def repeated(trace: Trace, copies: int) -> Trace:
    """The window so many times, one after the other."""
    span = int(trace.arrival_ms[-1] - trace.arrival_ms[0]) + 1
    changed = [trace.hashes ^ np.uint64(copy * 0x9E3779B97F4A7C15 % 2**64) for copy in range(copies)]
    return Trace(
        block_size=trace.block_size,
        arrival_ms=np.concatenate([trace.arrival_ms + copy * span for copy in range(copies)]),
        input_length=np.tile(trace.input_length, copies),
        output_length=np.tile(trace.output_length, copies),
        hash_start=np.concatenate(([0], np.cumsum(np.tile(np.diff(trace.hash_start), copies)))),
        hashes=np.concatenate(changed),
    )


def numbered(window: Trace) -> Trace:
    """The same window, its hashes numbered again."""
    columns = {field.name: getattr(window, field.name) for field in fields(Trace) if field.name != "blocks"}
    return Trace(**columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if importlib.util.find_spec("numba") is None:
        raise SystemExit("the compiled simulator is measured: install the extra `fast`")
    with tempfile.TemporaryDirectory() as scratch:
        trace, _ = recorded_window(Path(scratch))
    scenario, engine = Scenario(SPECIFICATION, speedup=SPEEDUP), BuiltInEngine()
    while compiled_run() is None:
        engine.replay(trace, scenario, RouterParameters(), 0)
    engine.replay(trace, scenario, RouterParameters(), 0)
    results = []
    print(f"{'rows':>10}{'seconds':>10}{'us a row':>10}{'numbering':>11}{'shared bytes a row':>20}{'peak MB':>10}")
    for copies in COPIES:
        window = repeated(trace, copies)
        begun = time.process_time()
        numbered(window)
        numbering_seconds, begun = time.process_time() - begun, time.process_time()
        engine.replay(window, scenario, RouterParameters(), 0)
        seconds = time.process_time() - begun
        columns = (getattr(window, field.name) for field in fields(Trace))
        shared = sum(column.nbytes for column in columns if isinstance(column, np.ndarray)) / len(window)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        results.append(
            {
                "rows": len(window),
                "seconds": seconds,
                "numbering_seconds": numbering_seconds,
                "shared_bytes_a_row": shared,
                "peak_bytes": peak,
            }
        )
        print(
            f"{len(window):10}{seconds:10.2f}{1e6 * seconds / len(window):10.2f}{numbering_seconds:11.2f}"
            f"{shared:20.0f}{peak / 1e6:10.0f}"
        )
    if options.json is not None:
        options.json.write_text(json.dumps({"about": about(), "windows": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
