"""Dynamo's own replay runtime (extra `dynamo`) as an engine, in a child process.

The runtime is native code of another project: in a child it cannot take this process down, print into it, or outlive
it. A child stays for later replays of the same trace, which it gets as bare records in an unnamed temporary file.
"""

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import defaultdict
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
from attrs import frozen

from dgdr_retune._process import child_environment
from dgdr_retune.replay._built_in import check_block_size
from dgdr_retune.replay._dynamo_messages import Answer, PerRequest, Ready, Replay
from dgdr_retune.replay._engine import Metrics, RequestTimes, RouterParameters, Scenario, Sla
from dgdr_retune.replay._errors import EngineFailedError, EngineSectionError, EngineUnavailableError
from dgdr_retune.replay._specification import CalibratedTiming, EngineSpecification, FixedTiming, WorkerSpecification
from dgdr_retune.replay._trace import Trace, row_hashes

_MODULE = "dgdr_retune.replay._dynamo_child"
_LAST_WORDS = 2000

Message = TypeVar("Message")


@frozen
class DynamoEngine:
    """Replays with the installed `ai-dynamo-runtime`; a `ReplayEngine`.

    Replications are repeats: version 1.6.1 is not seeded, so they differ by chance and candidates are not paired; a
    runtime that can be deterministic has one seed, and then they are all equal.
    """

    @property
    def name(self) -> str:
        """As configurations spell it."""
        return "dynamo"

    @property
    def paired(self) -> bool:
        """Whether the installed runtime replays deterministically.

        Raises:
            EngineUnavailableError: the extra is not installed.
        """
        return _deterministic()

    def replay(self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int) -> Metrics:
        """The metrics of one candidate.

        Raises:
            EngineUnavailableError: the extra is not installed.
            EngineFailedError: the runtime refused, failed or died.
            TraceError: the window's block size is not the workers'.
        """
        del replication
        answer = _ask(trace, scenario, router, per_request=False)
        return Metrics({name: float(value) for name, value in answer.summary.items()})

    def request_times(
        self, trace: Trace, scenario: Scenario, router: RouterParameters, replication: int
    ) -> RequestTimes:
        """Latencies of every request of a replay; raises as `replay`.

        The runtime gives requests numbers of its own: of those that arrive at the same time with the same lengths,
        which is which is left open.
        """
        del replication
        return _in_window_order(trace, scenario, _ask(trace, scenario, router, per_request=True).per_request)


@functools.cache
def _deterministic() -> bool:
    with tempfile.TemporaryFile() as nothing:
        child = _Child(nothing)
        child.end()
        return child.ready.deterministic


_children: "weakref.WeakKeyDictionary[Trace, _Child]" = weakref.WeakKeyDictionary()


def _ask(trace: Trace, scenario: Scenario, router: RouterParameters, *, per_request: bool) -> Answer:
    check_block_size(trace, scenario)
    child = _children.get(trace)
    if child is not None and not child.serves():
        child.end()
        child = None
    if child is None:
        with tempfile.TemporaryFile() as file:
            _write_records(trace, file)
            child = _Child(file)
        _children[trace] = child
        weakref.finalize(trace, child.end)
    try:
        answer = child.ask(_message(scenario, router, per_request=per_request))
    except BaseException:
        del _children[trace]
        child.end()
        raise
    if answer.error:
        raise EngineFailedError(f"Dynamo's replay failed: {answer.error}")
    return answer


def _message(scenario: Scenario, router: RouterParameters, *, per_request: bool) -> Replay:
    sla = scenario.sla or Sla()
    return Replay(
        engines=[_engine_arguments(scenario.specification, pool) for pool in scenario.specification.pools],
        router={
            "overlap_score_credit": router.overlap_score_credit,
            "overlap_score_credit_decay": router.overlap_score_credit_decay,
            "prefill_load_scale": router.prefill_load_scale,
            "decode_active_request_weight": router.decode_active_request_weight,
            "router_temperature": router.temperature,
        },
        workers=[pool.replicas for pool in scenario.specification.pools],
        speedup=scenario.speedup,
        ttft_ms=sla.ttft_ms,
        itl_ms=sla.itl_ms,
        e2e_ms=sla.e2e_ms,
        per_request=per_request,
    )


def _engine_arguments(specification: EngineSpecification, worker: WorkerSpecification) -> dict[str, Any]:
    """The engine of one pool as the runtime's canonical configuration."""
    if isinstance(worker.timing, CalibratedTiming):
        raise EngineSectionError("timing", "is calibrated, which Dynamo's replay does not know; use `engine: built-in`")
    timing: dict[str, Any] = {"type": "polynomial"}
    if isinstance(worker.timing, FixedTiming):
        timing = {"type": "fixed", "prefill_ms": worker.timing.prefill_ms, "decode_ms": worker.timing.decode_ms}
    engine: dict[str, Any] = {
        "backend": specification.backend,
        "worker_type": _role(specification, worker),
        "num_gpu_blocks": worker.blocks,
        "block_size": worker.block_size,
        "max_num_seqs": worker.max_sequences,
        "max_num_batched_tokens": worker.max_batched_tokens,
        "enable_prefix_caching": worker.prefix_caching,
        "timing_model": timing,
    }
    if specification.context_length is not None:
        engine["max_model_len"] = specification.context_length
    return {"engine": engine, "tensor_parallel_size": worker.gpus_per_worker}


def _role(specification: EngineSpecification, worker: WorkerSpecification) -> str:
    if worker is specification.aggregated:
        return "aggregated"
    return "prefill" if worker is specification.prefill else "decode"


def _write_records(trace: Trace, file: IO[bytes]) -> None:
    """The trace as lines of schema `dynamo.request.trace.v1`, as little of it as the runtime needs."""
    rows = zip(
        trace.arrival_ms.tolist(),
        trace.input_length.tolist(),
        trace.output_length.tolist(),
        row_hashes(trace),
        strict=True,
    )
    for row, (arrival_ms, input_length, output_length, hashes) in enumerate(rows):
        record = {
            "schema": "dynamo.request.trace.v1",
            "event_type": "request_end",
            "event_time_unix_ms": arrival_ms,
            "request": {
                "request_id": f"{row:010}",  # sorts as the rows do
                "output_tokens": output_length,
                "request_received_ms": arrival_ms,
                "replay": {
                    "trace_block_size": trace.block_size,
                    "input_length": input_length,
                    "input_sequence_hashes": hashes,
                },
            },
        }
        file.write(msgspec.json.encode(record) + b"\n")
    file.flush()


def _in_window_order(trace: Trace, scenario: Scenario, requests: list[PerRequest]) -> RequestTimes:
    arrival_ms = ((trace.arrival_ms - trace.arrival_ms[0]) / scenario.speedup).tolist()
    keys = zip(arrival_ms, trace.input_length.tolist(), trace.output_length.tolist(), strict=True)
    rows: defaultdict[tuple[float, int, int], list[int]] = defaultdict(list)
    for row, (arrival, *lengths) in enumerate(keys):
        rows[round(arrival, 6), lengths[0], lengths[1]].append(row)
    ttft_ms, itl_ms, e2e_ms = np.full((3, len(trace)), np.nan)
    for request in requests:
        key = (round(request.arrival_time_ms, 6), request.input_length, request.requested_output_length)
        row = rows[key].pop(0)
        ttft_ms[row] = _number(request.ttft_ms)
        itl_ms[row] = _number(request.itl_ms)
        e2e_ms[row] = _number(request.e2e_latency_ms)
    return RequestTimes(ttft_ms=ttft_ms, itl_ms=itl_ms, e2e_ms=e2e_ms)


def _number(value: float | None) -> float:
    return np.nan if value is None else value


class _Child:
    """The child process and this end of the pipes to it."""

    def __init__(self, records: IO[bytes]) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 -- open as long as the child lives
        self._spawner = threading.current_thread()
        self._process = subprocess.Popen(  # noqa: S603 -- this interpreter, and arguments that are numbers
            [sys.executable, "-P", "-m", _MODULE, str(records.fileno()), str(os.getpid())],
            env=child_environment(DYN_LOG="error"),
            pass_fds=[records.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        self.ready = self._read(Ready)
        if self.ready.error:
            self.end()
            raise EngineUnavailableError(
                f"Dynamo's replay runtime cannot be loaded ({self.ready.error}): install dgdr-retune[dynamo], or use"
                " the built-in engine"
            )

    def serves(self) -> bool:
        """Whether it can be asked once more: the kernel kills it with the thread that spawned it."""
        return self._spawner.is_alive() and self._process.poll() is None

    def ask(self, message: Replay) -> Answer:
        """Send a replay and wait for its answer."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has died; reading says how
                self._process.stdin.write(msgspec.json.encode(message) + b"\n")
                self._process.stdin.flush()
        return self._read(Answer)

    def _read(self, kind: type[Message]) -> Message:
        line = self._process.stdout.readline() if self._process.stdout is not None else b""
        if line:
            return msgspec.json.decode(line, type=kind)
        self._process.kill()
        status = self._process.wait()
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _LAST_WORDS))
        words = self._stderr.read().decode(errors="replace").strip() or "it said nothing"
        self.end()
        raise EngineFailedError(f"Dynamo's replay process died (status {status}): {words}")

    def end(self) -> None:
        """Kill the process and let go of it; more than once does no harm."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
