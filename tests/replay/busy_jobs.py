"""Replays whose metrics must not depend on where they run; also a process that runs some of them.

`python -m busy_jobs PLACE...` reads a pickled trace handle from stdin and prints the digits of these jobs in JSON.
"""

import json
import pickle
import sys

import numpy as np
from replay_cases import request, worker
from replay_cases import scenario as one_pool

from dgdr_retune.replay import BuiltInEngine, EngineSpecification, RouterParameters, Scenario, Trace, attach, trace_of

CANDIDATES = [
    RouterParameters(overlap_score_credit=credit, prefill_load_scale=scale, temperature=temperature)
    for credit in (0.0, 1.0)
    for scale in (0.25, 4.0)
    for temperature in (0.0, 0.5)
]
MODES = ("aggregated", "disaggregated")
JOBS = [(mode, candidate, replication) for mode in MODES for candidate in CANDIDATES for replication in range(2)]


def busy_trace() -> Trace:
    """Forty chats over four system prompts, in bursts that leave workers tied."""
    draw = np.random.default_rng(7)
    requests = []
    for row in range(40):
        prompt = [int(draw.integers(1, 5)), *(1000 * row + block for block in range(draw.integers(1, 9)))]
        requests.append(request(row // 4 * 30, prompt, int(draw.integers(1, 60)), block_size=16))
    return trace_of(requests)


def busy_scenario() -> Scenario:
    return one_pool(replicas=3, block_size=16, blocks=40, max_sequences=8, max_batched_tokens=64)


def busy_disaggregated_scenario() -> Scenario:
    return Scenario(
        EngineSpecification(
            "vllm",
            "disaggregated",
            None,
            prefill=worker(replicas=2, block_size=16, blocks=30, max_sequences=8, max_batched_tokens=64),
            decode=worker(replicas=3, block_size=16, blocks=24, max_sequences=4, max_batched_tokens=64),
        )
    )


def digits(trace: Trace, place: int) -> dict[str, str]:
    mode, candidate, replication = JOBS[place]
    scenario = busy_scenario() if mode == "aggregated" else busy_disaggregated_scenario()
    metrics = BuiltInEngine().replay(trace, scenario, candidate, replication)
    return {name: value.hex() for name, value in sorted(metrics.values.items())}


if __name__ == "__main__":
    shared = attach(pickle.load(sys.stdin.buffer))  # noqa: S301 -- written by the test
    print(json.dumps({place: digits(shared, int(place)) for place in sys.argv[1:]}))  # noqa: T201 -- for the test
