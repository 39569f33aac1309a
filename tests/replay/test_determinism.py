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
from attrs import astuple, fields
from busy_jobs import CANDIDATES, JOBS, busy_disaggregated_scenario, busy_scenario, busy_trace, digits
from hypothesis import given, settings
from replay_cases import Case, cases, disaggregated_cases, request, scenario

from dgdr_retune.replay import BuiltInEngine, RouterParameters, Trace, attach, share
from dgdr_retune.replay._simulation import compiled_run, simulate
from dgdr_retune.replay._simulation._compile import compile_kernels
from dgdr_retune.replay._simulation._fast import marker_of
from dgdr_retune.replay._simulation._simulate import Run, build_entry

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


@pytest.fixture(scope="module")
def compiled() -> Run:
    """The compiled hot loop, waited for."""
    return compile_kernels(build_entry)


@pytest.mark.fast
@given(case=cases(workers=4, roomy=False) | disaggregated_cases(workers=4, roomy=False))
@settings(deadline=None, max_examples=250)
def test_compiled_code_gives_the_same_numbers_as_cpython(compiled: Run, case: Case) -> None:
    fast = simulate(case.trace, case.scenario, case.router, 3, compiled)
    plain = simulate(case.trace, case.scenario, case.router, 3)
    for field in fields(type(fast)):
        assert bits(getattr(fast, field.name)) == bits(getattr(plain, field.name)), field.name


@pytest.mark.fast
def test_tables_outgrow_their_room_with_the_same_numbers_compiled(compiled: Run) -> None:
    """Here those of the blocks that waiting requests are to fill."""
    line = tuple(request(5 * place, list(range(20 * place, 20 * place + 20)), 70, block_size=2) for place in range(300))
    case = Case(line, scenario(block_size=2, blocks=300), RouterParameters())
    fast = simulate(case.trace, case.scenario, case.router, 0, compiled)
    plain = simulate(case.trace, case.scenario, case.router, 0)
    assert bits(fast.end_ms) == bits(plain.end_ms)


def bits(value: Any) -> tuple[str, bytes]:
    array = np.asarray(value)
    return array.dtype.kind, array.tobytes()


@pytest.mark.fast
def test_all_replays_are_one_type_to_the_compiler(compiled: Run) -> None:
    """A second type would be compiled a second time, in the way of its first replay."""
    trace = busy_trace()
    with share(trace) as handle:
        attached = attach(handle)
    thawed = Trace(*(np.array(column) for column in astuple(trace)))  # as unpickled, its columns can be written
    for one in (trace, attached, thawed):
        for busy in (busy_scenario(), busy_disaggregated_scenario()):
            simulate(one, busy, RouterParameters(temperature=0.5), 1, compiled)
    assert len(compiled.signatures) == 1  # type: ignore[attr-defined]  # numba's dispatcher


WAIT = """
import json, sys, time
from busy_jobs import busy_trace, digits
from dgdr_retune.replay._simulation import compiled_run
trace = busy_trace()
first = digits(trace, 1)
at_once = compiled_run() is not None
begun = time.monotonic()
while compiled_run() is None and time.monotonic() - begun < 300:
    assert digits(trace, 1) == first
print(json.dumps([at_once, compiled_run() is not None, digits(trace, 1) == first]))
"""


@pytest.mark.fast
def test_the_first_replays_do_not_wait_for_the_compiler_and_later_processes_find_its_work(compiled: Run) -> None:
    marker = marker_of(compiled)
    assert marker is not None
    marker.unlink(missing_ok=True)  # the machine code stays in the cache, so the child has little to do
    search = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": search}

    def run() -> list[bool]:
        command = [sys.executable, "-W", "error", "-c", WAIT]
        out = subprocess.run(command, env=environment, capture_output=True, check=True)
        assert out.stderr == b""
        found: list[bool] = json.loads(out.stdout)
        return found

    assert run() == [False, True, True]
    assert run() == [True, True, True]


@pytest.mark.fast
def test_where_no_cache_can_be_written_the_process_compiles_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    njit = numba.njit

    def refuse(*arguments: Any, **options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*arguments, **options)

    monkeypatch.setattr(numba, "njit", refuse)
    assert marker_of(compile_kernels(build_entry)) is None


def test_without_numba_cpython_runs_the_hot_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert compiled_run() is None


def test_an_engine_is_a_small_value_that_processes_get_a_copy_of() -> None:
    copied = pickle.loads(pickle.dumps(BuiltInEngine()))  # noqa: S301 -- written one call before
    assert copied == BuiltInEngine()
    assert BuiltInEngine().name == "built-in"
    assert BuiltInEngine().paired
