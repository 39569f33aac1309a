"""The engine that a window is replayed on: the part of AISimulate's engine section that this project replays."""

from typing import Literal

from attrs import field, frozen


@frozen
class FixedTiming:
    """A pass takes `prefill_ms` if it computes any prompt token, plus `decode_ms` if any request goes on decoding.

    Whole numbers become floats: compiled code would be compiled again for them.
    """

    prefill_ms: float = field(converter=float)
    decode_ms: float = field(converter=float)


@frozen
class PolynomialTiming:
    """Dynamo's default mocker timing, polynomial in the new prefill tokens and the active share of the KV cache."""


@frozen
class CalibratedTiming:
    """What `calibrate` fits to recorded latencies; milliseconds. Only the built-in engine replays it.

    Attributes:
        prefill_ms: of a pass that computes any prompt token, and
        prefill_ms_per_token: of each such token.
        decode_ms: of a pass in which any request goes on decoding, and
        decode_ms_per_token: of each known token of these requests.
        overhead_ms: of each request, outside of its worker's passes: transport and scheduling.
    """

    prefill_ms: float = field(converter=float)
    prefill_ms_per_token: float = field(converter=float)
    decode_ms: float = field(converter=float)
    decode_ms_per_token: float = field(converter=float)
    overhead_ms: float = field(converter=float)


Timing = FixedTiming | PolynomialTiming | CalibratedTiming


@frozen
class WorkerSpecification:
    """One pool of identical workers: counts, tokens and blocks as vLLM's scheduler counts them, for each worker.

    `max_batched_tokens` is at least `max_sequences`, as vLLM wants it.
    """

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
    """The engine of a deployment: one pool of vLLM workers, or one that computes prompts and one that decodes.

    Attributes:
        aggregated: the pool of an aggregated deployment, else None.
        context_length: the most tokens that a sequence may have; None where only the KV cache bounds it.
        prefill: the pools of a disaggregated deployment, of one block size, else None; of its timing only what is said
            of prompts counts here, and
        decode: what is said of decoding there.
    """

    backend: Literal["vllm"]
    mode: Literal["aggregated", "disaggregated"]
    aggregated: WorkerSpecification | None
    context_length: int | None = None
    prefill: WorkerSpecification | None = None
    decode: WorkerSpecification | None = None

    @property
    def pools(self) -> tuple[WorkerSpecification, ...]:
        """The pools that there are: aggregated, or prefill and decode."""
        return tuple(pool for pool in (self.aggregated, self.prefill, self.decode) if pool is not None)
