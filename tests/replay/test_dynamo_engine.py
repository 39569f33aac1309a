import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from attrs import evolve
from busy_jobs import busy_scenario, busy_trace
from replay_cases import disaggregated, request, scenario

from dgdr_retune.replay import (
    BuiltInEngine,
    DynamoEngine,
    EngineFailedError,
    EngineUnavailableError,
    PolynomialTiming,
    RouterParameters,
    Sla,
    TraceError,
    trace_of,
)
from dgdr_retune.replay import _dynamo as adapter
from dgdr_retune.replay import _dynamo_child as child
from dgdr_retune.replay._dynamo_messages import Answer

REQUESTS = (request(0, [1, 2], 3, tokens=100), request(0, [1, 3], 4, tokens=100), request(50, [1, 2], 0, tokens=128))


def test_an_engine_is_a_small_value_that_processes_get_a_copy_of() -> None:
    copied = pickle.loads(pickle.dumps(DynamoEngine()))  # noqa: S301 -- written one call before
    assert copied == DynamoEngine()
    assert DynamoEngine().name == "dynamo"


@pytest.mark.dynamo
def test_the_runtime_agrees_with_the_simulator_where_chance_has_no_say() -> None:
    trace = trace_of(REQUESTS)
    shared = evolve(scenario(gpus_per_worker=4, speedup=2.0), sla=Sla(ttft_ms=12.0, itl_ms=3.5))
    theirs = DynamoEngine().replay(trace, shared, RouterParameters(), 0).values
    ours = BuiltInEngine().replay(trace, shared, RouterParameters(), 0).values
    approximate = {name for name in ours if name.endswith(("_itl_ms", "_per_user"))}
    assert set(ours) <= set(theirs)
    assert {name: theirs[name] for name in set(ours) - approximate} == pytest.approx(
        {name: ours[name] for name in set(ours) - approximate}
    )


@pytest.mark.dynamo
def test_the_runtime_gets_both_pools_of_a_disaggregated_deployment() -> None:
    """Pools that differ in all that they have."""
    shared = disaggregated(
        {"replicas": 1, "gpus_per_worker": 2, "blocks": 7, "max_sequences": 1, "max_batched_tokens": 70},
        {"replicas": 2, "gpus_per_worker": 4, "timing": PolynomialTiming(), "prefix_caching": False},
        context_length=130,
    )
    theirs = DynamoEngine().replay(trace_of(REQUESTS), shared, RouterParameters(), 0).values
    ours = BuiltInEngine().replay(trace_of(REQUESTS), shared, RouterParameters(), 0).values
    exact = [name for name in ours if not name.endswith(("_itl_ms", "_per_user"))]
    assert {name: theirs[name] for name in exact} == pytest.approx({name: ours[name] for name in exact})
    assert theirs["prefill_gpus_per_worker"] == 2


@pytest.mark.dynamo
def test_request_times_stand_in_the_windows_order() -> None:
    trace = trace_of(REQUESTS)
    theirs = DynamoEngine().request_times(trace, scenario(), RouterParameters(), 0)
    ours = BuiltInEngine().request_times(trace, scenario(), RouterParameters(), 0)
    for name in ("ttft_ms", "itl_ms", "e2e_ms"):
        assert getattr(theirs, name) == pytest.approx(getattr(ours, name), nan_ok=True)


@pytest.mark.dynamo
def test_the_router_parameters_reach_the_runtime() -> None:
    """At credit 0 and temperature 0 a chat on idle workers goes anywhere, at credit 1 back to its cache."""
    chat = trace_of(tuple(request(1000 * turn, list(range(turn + 4)), 2) for turn in range(20)))
    shared = scenario(replicas=4)
    reuse = [
        DynamoEngine().replay(chat, shared, RouterParameters(overlap_score_credit=credit), 0)[
            "prefix_cache_reused_ratio"
        ]
        for credit in (0.0, 1.0)
    ]
    expected = BuiltInEngine().replay(chat, shared, RouterParameters(), 0)["prefix_cache_reused_ratio"]
    assert reuse[1] == pytest.approx(expected)
    assert reuse[0] < expected


@pytest.mark.dynamo
def test_this_runtime_is_not_paired_and_the_engine_says_so() -> None:
    """Version 1.6.1 has no deterministic mode; repeats of a replay with chance in it differ."""
    assert not DynamoEngine().paired
    scores = {
        DynamoEngine().replay(busy_trace(), busy_scenario(), RouterParameters(temperature=1.0), 0)["mean_ttft_ms"]
        for _ in range(5)
    }
    assert len(scores) > 1


@pytest.mark.dynamo
def test_a_runtime_that_fails_says_why_and_serves_the_next_replay() -> None:
    trace = trace_of((request(0, [1, 2], 500),))
    with pytest.raises(EngineFailedError, match="zero-duration pass") as failed:
        DynamoEngine().replay(trace, scenario(blocks=4), RouterParameters(), 0)
    assert failed.value.reason == "engine_failed"
    assert DynamoEngine().replay(trace, scenario(), RouterParameters(), 0)["completed_requests"] == 1


def child_of(trace: object) -> int:
    return adapter._children[trace]._process.pid  # type: ignore[index]  # a trace


@pytest.mark.dynamo
def test_a_runtime_that_dies_fails_its_replay_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(REQUESTS)
    engine = DynamoEngine()
    engine.replay(trace, scenario(), RouterParameters(), 0)
    with monkeypatch.context() as patch:
        patch.setattr(adapter._Child, "serves", lambda _: True)  # it dies after it was looked at
        os.kill(child_of(trace), signal.SIGKILL)
        with pytest.raises(EngineFailedError, match=r"died \(status -9\): it said nothing"):
            engine.replay(trace, scenario(), RouterParameters(), 0)
    assert engine.replay(trace, scenario(), RouterParameters(), 0)["completed_requests"] == 3


@pytest.mark.dynamo
def test_a_runtime_that_died_between_replays_is_replaced() -> None:
    trace = trace_of(REQUESTS)
    DynamoEngine().replay(trace, scenario(), RouterParameters(), 0)
    first = child_of(trace)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert DynamoEngine().replay(trace, scenario(), RouterParameters(), 0)["completed_requests"] == 3


@pytest.mark.dynamo
def test_a_trace_is_replayed_in_one_thread_after_another() -> None:
    """The kernel kills the runtime's process with the thread that spawned it."""
    trace = trace_of(REQUESTS)
    completed = []

    def replay() -> None:
        completed.append(DynamoEngine().replay(trace, scenario(), RouterParameters(), 0)["completed_requests"])

    for _ in range(3):
        thread = threading.Thread(target=replay)
        thread.start()
        thread.join()
    assert completed == [3, 3, 3]


def test_what_json_cannot_say_is_left_out_of_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = {"mean_ttft_ms": 4.5, "mean_itl_ms": math.nan, "goodput": math.inf, "policy": "lru", "requests": 3}
    core = SimpleNamespace(
        run_mocker_trace_replay=lambda *_, **__: SimpleNamespace(summary=summary, per_request=None),
        _normalize_mocker_config=lambda engine: engine,
    )
    monkeypatch.setitem(sys.modules, "dynamo", SimpleNamespace(_core=core))
    monkeypatch.setitem(
        sys.modules, "dynamo.llm", SimpleNamespace(KvRouterConfig=SimpleNamespace(from_json=lambda text: text))
    )
    asked = adapter._message(scenario(), RouterParameters(), per_request=False)
    answer = msgspec.json.encode(child._answer("trace", asked, deterministic=False))
    assert msgspec.json.decode(answer, type=Answer) == Answer(summary={"mean_ttft_ms": 4.5, "requests": 3})


@pytest.mark.dynamo
def test_one_process_serves_all_replays_of_a_trace_and_ends_with_it() -> None:
    trace = trace_of(REQUESTS)
    DynamoEngine().replay(trace, scenario(), RouterParameters(), 0)
    first = child_of(trace)
    DynamoEngine().replay(trace, scenario(), RouterParameters(), 1)
    assert child_of(trace) == first
    del trace
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


ORPHAN = """
import sys, time
from dgdr_retune.replay import DynamoEngine, RouterParameters
from dgdr_retune.replay import _dynamo as adapter
from test_dynamo_engine import REQUESTS
from replay_cases import scenario
from dgdr_retune.replay import trace_of
trace = trace_of(REQUESTS)
DynamoEngine().replay(trace, scenario(), RouterParameters(), 0)
print(adapter._children[trace]._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.dynamo
def test_the_runtimes_process_dies_with_its_parent_and_prints_nothing_into_it() -> None:
    search = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", ORPHAN],
        env={**os.environ, "PYTHONPATH": search, "DYN_LOG": "info"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    assert parent.communicate() == ("", "")
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline


def test_a_window_of_another_block_size_is_refused() -> None:
    with pytest.raises(TraceError, match=r"kv_cache\.block_size"):
        DynamoEngine().replay(trace_of((request(0, [1], 1, block_size=32),)), scenario(), RouterParameters(), 0)


def test_without_the_extra_the_engine_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dynamo.py").write_text("raise ImportError('no runtime here')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EngineUnavailableError, match=r"dgdr-retune\[dynamo\]") as refused:
        DynamoEngine().replay(trace_of(REQUESTS), scenario(), RouterParameters(), 0)
    assert refused.value.reason == "engine_unavailable"
