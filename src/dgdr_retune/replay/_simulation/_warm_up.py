"""Compiles the hot loop into numba's cache: `python -m dgdr_retune.replay._simulation._warm_up PARENT`.

PARENT is the process id of whoever waits for it; this process dies with it.
"""

import fcntl
import sys
from typing import Any

import numpy as np

from dgdr_retune._process import die_with
from dgdr_retune.replay._engine import RouterParameters, Scenario
from dgdr_retune.replay._simulation._compile import compile_kernels
from dgdr_retune.replay._simulation._fast import marker_of
from dgdr_retune.replay._simulation._simulate import build_entry, simulate
from dgdr_retune.replay._specification import EngineSpecification, PolynomialTiming, WorkerSpecification
from dgdr_retune.replay._trace import Trace


def main(arguments: list[str]) -> None:
    """Compile into the cache."""
    die_with(int(arguments[0]))
    entry: Any = compile_kernels(build_entry)
    marker = marker_of(entry)
    if marker is None:
        return
    marker.parent.mkdir(parents=True, exist_ok=True)
    with marker.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not marker.exists():
            simulate(*_smallest_replay(), compiled_run=entry)
            marker.touch()


def _smallest_replay() -> tuple[Trace, Scenario, RouterParameters, int]:
    """Any replay: all have the same types."""
    trace = Trace(
        block_size=1,
        arrival_ms=np.zeros(1, dtype=np.int64),
        input_length=np.ones(1, dtype=np.int32),
        output_length=np.ones(1, dtype=np.int32),
        hash_start=np.array([0, 1], dtype=np.int64),
        hashes=np.zeros(1, dtype=np.uint64),
    )
    worker = WorkerSpecification(
        replicas=1,
        gpus_per_worker=1,
        max_batched_tokens=1,
        max_sequences=1,
        block_size=1,
        blocks=2,
        prefix_caching=True,
        timing=PolynomialTiming(),
    )
    return trace, Scenario(EngineSpecification("vllm", "aggregated", worker)), RouterParameters(), 0


if __name__ == "__main__":
    main(sys.argv[1:])
