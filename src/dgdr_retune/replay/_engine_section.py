"""AISimulate's engine section as configurations carry it, pinned: scalars only, one parallelism preset.

Format: `engine` of AISimulate's `recommend` input (aisimulate 0.13). Every key here exists there with the same meaning.
"""

from typing import Annotated, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dgdr_retune.replay._errors import EngineSectionError
from dgdr_retune.replay._specification import (
    CalibratedTiming,
    EngineSpecification,
    FixedTiming,
    PolynomialTiming,
    Timing,
    WorkerSpecification,
)

Count = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
Milliseconds = Annotated[float, Field(gt=0, le=86_400_000, allow_inf_nan=False)]
Overhead = Annotated[float, Field(ge=0, le=86_400_000, allow_inf_nan=False)]
MillisecondsPerToken = Overhead
Name = Annotated[str, Field(min_length=1, max_length=512)]


_DURATIONS: dict[str, tuple[str, ...]] = {
    "fixed": ("prefill_ms", "decode_ms"),
    "calibrated": ("prefill_ms", "decode_ms", "prefill_ms_per_token", "decode_ms_per_token", "overhead_ms"),
}


_ROLES = {"aggregated": ("aggregated",), "disaggregated": ("prefill", "decode")}


class Section(BaseModel):
    """A part of the engine section: unknown keys are refused, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ParallelismPreset(Section):
    """How one pool of workers is laid out on GPUs. AISimulate wants all six."""

    replicas: Count
    tensor: Count
    pipeline: Count
    attention_data: Count
    moe_tensor: Count
    moe_expert: Count


class Parallelism(Section):
    """The pinned layout: exactly one preset, so that no search over layouts is left."""

    preset: Annotated[tuple[ParallelismPreset, ...], Field(min_length=1, max_length=1)]


class Scheduler(Section):
    """Limits of one scheduler step: tokens over all sequences, and sequences."""

    max_batched_tokens: Count
    max_sequences: Count


class Capacity(Section):
    """How many KV blocks a worker has; `default` leaves it to AISimulate."""

    type: Literal["default", "fixed"] = "default"
    blocks: Count | None = None

    @model_validator(mode="after")
    def _blocks_when_fixed(self) -> Self:
        if (self.type == "fixed") != (self.blocks is not None):
            raise ValueError("`blocks` is needed with type `fixed`, and only there")
        return self


class KvCache(Section):
    """The KV cache of one worker; `block_size` in tokens."""

    block_size: Count | None = None
    prefix_caching: Annotated[bool, Field(strict=True)] = True
    capacity: Capacity = Capacity()


class TimingSection(Section):
    """How long a scheduler step takes; `default` leaves it to AISimulate's measured tables.

    `calibrated` is this project's own, written by `dgdr-retune calibrate`: linear in a step's new prompt tokens and in
    the known tokens of its decoding requests, and a constant for each request.
    """

    type: Literal["default", "fixed", "polynomial", "calibrated"] = "default"
    prefill_ms: Milliseconds | None = None
    decode_ms: Milliseconds | None = None
    prefill_ms_per_token: MillisecondsPerToken | None = None
    decode_ms_per_token: MillisecondsPerToken | None = None
    overhead_ms: Overhead | None = None

    @model_validator(mode="after")
    def _durations_of_the_type(self) -> Self:
        needed = _DURATIONS.get(self.type, ())
        for name in _DURATIONS["calibrated"]:
            given = getattr(self, name) is not None
            if given != (name in needed):
                verb = "does not belong to" if given else "is needed with"
                raise ValueError(f"`{name}` {verb} type `{self.type}`")
        return self


class WorkerSection(Section):
    """One pool of identical workers."""

    parallelism: Parallelism
    scheduler: Scheduler
    kv_cache: KvCache = KvCache()
    timing: TimingSection = TimingSection()


class Workers(Section):
    """The pools by role: those of the mode, and no others."""

    aggregated: WorkerSection | None = None
    prefill: WorkerSection | None = None
    decode: WorkerSection | None = None


class EngineSection(Section):
    """The engine that a window is replayed on, or that a Request describes.

    `model`, `hardware` and `backend_version` are AISimulate's and change nothing in a replay with explicit timing and
    capacity; nor does a `context_length` of `max`.
    """

    backend: Literal["vllm"]
    mode: Literal["aggregated", "disaggregated"]
    workers: Workers
    model: Name | None = None
    hardware: Name | None = None
    context_length: Count | Literal["max"] | None = None
    backend_version: Name | None = None

    @model_validator(mode="after")
    def _pools_of_the_mode(self) -> Self:
        for role in Workers.model_fields:
            given = role in self.pools
            if given != (role in _ROLES[self.mode]):
                verb = "does not belong to" if given else "is needed with"
                raise ValueError(f"`workers.{role}` {verb} mode `{self.mode}`")
        return self

    @property
    def pools(self) -> dict[str, WorkerSection]:
        """The pools that there are, by role: aggregated, or prefill and decode."""
        return {role: pool for role, pool in self.workers if pool is not None}

    def specification(self, path: str = "engine") -> EngineSpecification:
        """The same engine as replay engines take it.

        Args:
            path: where this section stands in its document, for messages.

        Raises:
            EngineSectionError: timing or capacity are not explicit, or the deployment is not replayed; names the key.
        """
        pools = {role: _worker(section, f"{path}.workers.{role}") for role, section in self.pools.items()}
        specification = EngineSpecification(
            backend=self.backend,
            mode=self.mode,
            aggregated=pools.get("aggregated"),
            context_length=self.context_length if isinstance(self.context_length, int) else None,
            prefill=pools.get("prefill"),
            decode=pools.get("decode"),
        )
        check_pools(specification, path)
        return specification


def check_pools(specification: EngineSpecification, path: str = "engine") -> None:
    """Prefill and decode workers have blocks of one size, and a timing that is told apart into their two parts.

    Args:
        specification: of any mode.
        path: where its section stands in its document, for messages.

    Raises:
        EngineSectionError: they have not; names the key.
    """
    if specification.mode == "aggregated":
        return
    prefill, decode = specification.pools
    if prefill.block_size != decode.block_size:
        raise EngineSectionError(
            f"{path}.workers.decode.kv_cache.block_size",
            f"is {decode.block_size}, but blocks come as they are from prefill workers; use {prefill.block_size}",
        )
    for role, pool in zip(_ROLES["disaggregated"], specification.pools, strict=True):
        if isinstance(pool.timing, CalibratedTiming):
            raise EngineSectionError(
                f"{path}.workers.{role}.timing",
                "is calibrated, which is for aggregated workers; use {type: polynomial} or {type: fixed, ...}",
            )


def _worker(section: WorkerSection, path: str) -> WorkerSpecification:
    layout = section.parallelism.preset[0]
    if layout.attention_data != 1:
        raise EngineSectionError(
            f"{path}.parallelism.preset[0].attention_data",
            f"is {layout.attention_data}, but only workers of one data-parallel rank are replayed; use 1",
        )
    if section.scheduler.max_batched_tokens < section.scheduler.max_sequences:
        raise EngineSectionError(
            f"{path}.scheduler.max_batched_tokens",
            f"is less than max_sequences ({section.scheduler.max_sequences}); vLLM wants at least as many",
        )
    if section.kv_cache.block_size is None:
        _refuse_default(f"{path}.kv_cache.block_size", "the workers' KV block size in tokens")
    if section.kv_cache.capacity.blocks is None:
        _refuse_default(f"{path}.kv_cache.capacity", "{type: fixed, blocks: N}, N as a worker logs it at its start")
    return WorkerSpecification(
        replicas=layout.replicas,
        gpus_per_worker=layout.tensor * layout.pipeline * layout.attention_data,
        max_batched_tokens=section.scheduler.max_batched_tokens,
        max_sequences=section.scheduler.max_sequences,
        block_size=section.kv_cache.block_size,
        blocks=section.kv_cache.capacity.blocks,
        prefix_caching=section.kv_cache.prefix_caching,
        timing=_timing(section.timing, f"{path}.timing"),
    )


def _timing(section: TimingSection, path: str) -> Timing:
    if section.type == "polynomial":
        return PolynomialTiming()
    if section.type == "calibrated":
        return CalibratedTiming(**section.model_dump(include=set(_DURATIONS["calibrated"])))
    if section.prefill_ms is None or section.decode_ms is None:
        _refuse_default(path, "{type: polynomial} or {type: fixed, prefill_ms: X, decode_ms: Y}")
    return FixedTiming(prefill_ms=section.prefill_ms, decode_ms=section.decode_ms)


def _refuse_default(path: str, wanted: str) -> NoReturn:
    raise EngineSectionError(path, f"a replay takes it only from an explicit value; give {wanted}")
