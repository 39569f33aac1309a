"""Equal arguments give equal metrics, bit for bit: in any order, process and interpreter, compiled or not."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import fields
from busy_jobs import CANDIDATES, JOBS, busy_trace, digits
from hypothesis import given, settings
from replay_cases import Case, cases, plain_simulation

from dgdr_retune.replay import BuiltInEngine, share
from dgdr_retune.replay._simulation import simulate
from dgdr_retune.replay._simulation._compile import COMPILED

PLACES = range(len(JOBS))


@pytest.fixture(scope="module")
def expected() -> list[dict[str, str]]:
    trace = busy_trace()
    return [digits(trace, place) for place in PLACES]


def test_candidates_and_replications_differ_here(expected: list[dict[str, str]]) -> None:
    """Else the tests below would show nothing."""
    assert len({json.dumps(values) for values in expected}) > len(CANDIDATES)


@pytest.mark.parametrize("seed", range(3))
def test_a_candidates_metrics_do_not_depend_on_what_was_replayed_before(
    expected: list[dict[str, str]], seed: int
) -> None:
    order = np.random.default_rng(seed).permutation(len(JOBS)).tolist()
    trace = busy_trace()
    assert {place: digits(trace, place) for place in order} == dict(enumerate(expected))


def in_processes(count: int, hash_seed: str = "random") -> list[dict[str, str]]:
    """The digits of all jobs, dealt out to so many processes that share one trace."""
    search = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": search, "PYTHONHASHSEED": hash_seed, "NUMBA_DISABLE_JIT": "1"}
    with share(busy_trace()) as handle:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "busy_jobs", *map(str, PLACES[first::count])],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for first in range(count)
        ]
        answers = [json.loads(process.communicate(pickle.dumps(handle))[0]) for process in processes]
    merged = {int(place): values for answer in answers for place, values in answer.items()}
    return [merged[place] for place in PLACES]


@pytest.mark.parametrize("count", [1, 8])
def test_metrics_do_not_depend_on_the_process(expected: list[dict[str, str]], count: int) -> None:
    assert in_processes(count) == expected


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_metrics_do_not_depend_on_pythons_hash_seed(expected: list[dict[str, str]], hash_seed: str) -> None:
    assert in_processes(1, hash_seed) == expected


@pytest.mark.fast
@given(cases(workers=4, roomy=False))
@settings(deadline=None, max_examples=150)
def test_compiled_code_gives_the_same_numbers_as_cpython(case: Case) -> None:
    compiled = simulate(case.trace, case.scenario, case.router, 3)
    plain = plain_simulation("_simulate").simulate(case.trace, case.scenario, case.router, 3)
    for field in fields(type(compiled)):
        assert bits(getattr(compiled, field.name)) == bits(getattr(plain, field.name)), field.name


def bits(value: Any) -> tuple[str, bytes]:
    array = np.asarray(value)
    return array.dtype.kind, array.tobytes()


@pytest.mark.fast
def test_the_simulator_is_compiled_where_numba_is_installed() -> None:
    assert COMPILED
    assert not plain_simulation("_compile").COMPILED


def test_an_engine_is_a_small_value_that_processes_get_a_copy_of() -> None:
    copied = pickle.loads(pickle.dumps(BuiltInEngine()))  # noqa: S301 -- written one call before
    assert copied == BuiltInEngine()
    assert BuiltInEngine().name == "built-in"
    assert BuiltInEngine().paired
