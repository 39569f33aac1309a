"""Small random windows and engines for replay tests."""

import json
from typing import Any

from attrs import evolve, frozen
from hypothesis import strategies as st

from dgdr_retune.replay import (
    EngineSpecification,
    FixedTiming,
    PolynomialTiming,
    RouterParameters,
    Scenario,
    Timing,
    Trace,
    WorkerSpecification,
    trace_of,
)


@frozen
class Request:
    """A row as `trace_of` takes it."""

    received_ms: int
    block_size: int
    input_length: int
    output_tokens: int
    hashes: list[int]


@frozen
class Case:
    """One replay."""

    requests: tuple[Request, ...]
    scenario: Scenario
    router: RouterParameters

    @property
    def trace(self) -> Trace:
        return trace_of(self.requests)


def worker(**changes: Any) -> WorkerSpecification:
    plain = WorkerSpecification(
        replicas=1,
        gpus_per_worker=1,
        max_batched_tokens=8192,
        max_sequences=64,
        block_size=64,
        blocks=1200,
        prefix_caching=True,
        timing=FixedTiming(prefill_ms=10.0, decode_ms=3.0),
    )
    return evolve(plain, **changes)


def scenario(*, speedup: float = 1.0, context_length: int | None = None, **changes: Any) -> Scenario:
    return Scenario(EngineSpecification("vllm", "aggregated", worker(**changes), context_length), speedup=speedup)


def disaggregated(
    prefill: dict[str, Any] | None = None, decode: dict[str, Any] | None = None, *, context_length: int | None = None
) -> Scenario:
    """A prefill and a decode worker, with changes to each."""
    pools = {"prefill": worker(**(prefill or {})), "decode": worker(**(decode or {}))}
    return Scenario(EngineSpecification("vllm", "disaggregated", None, context_length, **pools))


def request(at_ms: int, hashes: list[int], output: int, *, tokens: int | None = None, block_size: int = 64) -> Request:
    """A request of whole blocks, or of `tokens` tokens."""
    return Request(at_ms, block_size, tokens or len(hashes) * block_size, output, hashes)


def part(trace: Trace, first: int, end: int) -> Trace:
    """Rows `first` to `end` - 1."""
    start, stop = trace.hash_start[[first, end]].tolist()
    return Trace(
        block_size=trace.block_size,
        arrival_ms=trace.arrival_ms[first:end],
        input_length=trace.input_length[first:end],
        output_length=trace.output_length[first:end],
        hash_start=trace.hash_start[first : end + 1] - start,
        hashes=trace.hashes[start:stop],
    )


@st.composite
def cases(draw: st.DrawFn, *, workers: int = 1, roomy: bool = True) -> Case:
    """Chats that share system prompts and grow, on a worker that is short of blocks, sequences or tokens.

    With `roomy`, a worker has blocks enough for any request alone.
    """
    block_size = draw(st.sampled_from([2, 4, 16]))
    requests = draw(_requests(block_size))
    blocks = longest(requests, block_size) if roomy else 2
    replicas = draw(st.integers(2, workers)) if workers > 1 else 1
    pool = draw(_pools(block_size, blocks, replicas))
    context_length = draw(st.none() | st.integers(block_size, 12 * block_size))
    router = draw(_routers(chance=workers > 1))
    speedup = draw(st.sampled_from([1.0, 2.0, 3.0]))
    engine = EngineSpecification("vllm", "aggregated", pool, context_length)
    return Case(requests, Scenario(engine, speedup=speedup), router)


@st.composite
def disaggregated_cases(draw: st.DrawFn, *, workers: int = 1, roomy: bool = True, chunks: bool = True) -> Case:
    """The same on up to so many prefill and decode workers.

    Without `chunks`, a decode worker never computes a part of what a preempted request has lost.
    """
    block_size = draw(st.sampled_from([2, 4, 16]))
    requests = draw(_requests(block_size))
    blocks = longest(requests, block_size) if roomy else 2
    prefill = draw(_pools(block_size, blocks, draw(st.integers(1, workers))))
    decode = draw(_pools(block_size, blocks, draw(st.integers(1, workers))))
    if not chunks:
        decode = evolve(decode, max_batched_tokens=8192)
    context_length = draw(st.none() | st.integers(block_size, 12 * block_size))
    router = draw(_routers(chance=workers > 1))
    speedup = draw(st.sampled_from([1.0, 2.0, 3.0]))
    engine = EngineSpecification("vllm", "disaggregated", None, context_length, prefill, decode)
    return Case(requests, Scenario(engine, speedup=speedup), router)


def longest(requests: tuple[Request, ...], block_size: int) -> int:
    """The most blocks that a request has."""
    return max(-(-(one.input_length + one.output_tokens) // block_size) for one in requests)


@st.composite
def _pools(draw: st.DrawFn, block_size: int, blocks: int, replicas: int) -> WorkerSpecification:
    sequences = draw(st.sampled_from([1, 2, 4, 64]))
    fixed: st.SearchStrategy[Timing] = st.builds(
        FixedTiming, prefill_ms=st.integers(1, 30).map(float), decode_ms=st.integers(1, 9).map(float)
    )
    return WorkerSpecification(
        replicas=replicas,
        gpus_per_worker=draw(st.sampled_from([1, 4])),
        max_batched_tokens=max(sequences, draw(st.sampled_from([block_size, 4 * block_size, 8192]))),
        max_sequences=sequences,
        block_size=block_size,
        blocks=blocks + draw(st.sampled_from([0, 1, 3, 10, 1000])),
        prefix_caching=draw(st.sampled_from([True, True, True, False])),
        timing=draw(fixed | st.just(PolynomialTiming())),
    )


@st.composite
def _routers(draw: st.DrawFn, *, chance: bool) -> RouterParameters:
    return RouterParameters(
        overlap_score_credit=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        overlap_score_credit_decay=draw(st.sampled_from([0.0, 0.0, 1.5])),
        prefill_load_scale=draw(st.sampled_from([0.0, 0.25, 1.0, 4.0])),
        decode_active_request_weight=draw(st.sampled_from([0.0, 0.0, 0.7])),
        temperature=draw(st.sampled_from([0.0, 0.3])) if chance else 0.0,
    )


@st.composite
def _requests(draw: st.DrawFn, block_size: int) -> tuple[Request, ...]:
    fresh = iter(range(1000, 10_000_000))
    prompts = [[next(fresh) for _ in range(draw(st.integers(1, 3)))] for _ in range(draw(st.integers(1, 2)))]
    requests = []
    at_ms = 1_796_039_000_000
    for _ in range(draw(st.integers(1, 14))):
        at_ms += draw(st.sampled_from([0, 0, 1, 20]) | st.integers(0, 300))
        begun = draw(st.sampled_from(prompts))
        tokens = len(begun) * block_size + draw(st.integers(1, 5 * block_size))
        blocks = -(-tokens // block_size)
        hashes = [*begun, *(next(fresh) for _ in range(blocks - len(begun)))]
        output = draw(st.integers(0, 3) | st.integers(1, 5 * block_size))
        requests.append(Request(at_ms, block_size, tokens, output, hashes))
        if tokens >= block_size:
            prompts.append(hashes[: tokens // block_size])
    return tuple(requests)


def records(requests: tuple[Request, ...]) -> str:
    """The requests as lines of schema `dynamo.request.trace.v1`."""
    return "".join(
        json.dumps(
            {
                "schema": "dynamo.request.trace.v1",
                "event_type": "request_end",
                "event_time_unix_ms": one.received_ms,
                "request": {
                    "request_id": f"{row:04}",
                    "output_tokens": one.output_tokens,
                    "request_received_ms": one.received_ms,
                    "replay": {
                        "trace_block_size": one.block_size,
                        "input_length": one.input_length,
                        "input_sequence_hashes": one.hashes,
                    },
                },
            }
        )
        + "\n"
        for row, one in enumerate(requests)
    )
