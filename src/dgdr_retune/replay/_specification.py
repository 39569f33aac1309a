"""The engine that a window is replayed on: the part of AISimulate's engine section that this project replays."""

from typing import Literal

from attrs import frozen


@frozen
class FixedTiming:
    """Every pass takes the same time: `prefill_ms` with any prefill in it, else `decode_ms`. Milliseconds."""

    prefill_ms: float
    decode_ms: float


@frozen
class PolynomialTiming:
    """Dynamo's default mocker timing, polynomial in the new prefill tokens and the active share of the KV cache."""


Timing = FixedTiming | PolynomialTiming


@frozen
class WorkerSpecification:
    """One pool of identical workers: counts, tokens and blocks as vLLM's scheduler counts them, for each worker."""

    replicas: int
    gpus_per_worker: int
    max_batched_tokens: int
    max_sequences: int
    block_size: int
    blocks: int
    prefix_caching: bool
    timing: Timing


@frozen
class EngineSpecification:
    """The engine of a deployment. Only aggregated deployments of vLLM workers so far."""

    backend: Literal["vllm"]
    mode: Literal["aggregated"]
    aggregated: WorkerSpecification
