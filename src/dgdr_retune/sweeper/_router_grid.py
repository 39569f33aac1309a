"""The inputs that run on this project's engines: a grid of router parameters, replayed on one trace and engine.

Fields, defaults and meaning are AISimulate's (0.13, `recommend --stack dynamo`). Everything else that AISimulate
knows is a fault here, named by its path.
"""

import random
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dgdr_retune.api import SEED, TARGETS
from dgdr_retune.replay import EngineSection, EngineSectionError, RouterParameters, Scenario, Sla
from dgdr_retune.sweep import GridSection, Objective, SlaMissingError
from dgdr_retune.sweeper._errors import InputError
from dgdr_retune.sweeper._input import OUTPUT_SECTION, Json, Section, faults

_OBJECTIVES: Final = {target: Objective(metric) for metric, target in TARGETS.items()}

PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]


def _only_choice(value: Any) -> Any:
    """What a domain of one value says."""
    match value:
        case {"choices": [choice]} if len(value) == 1:
            return choice
    return value


def _objective(value: Any) -> Objective:
    if not isinstance(value, str) or value not in _OBJECTIVES:
        raise ValueError(f"candidates are ranked by one of {', '.join(_OBJECTIVES)}")
    return _OBJECTIVES[value]


class TraceSource(Section):
    """`traffic.source`: one trace as Dynamo records it."""

    type: Literal["trace"]
    format: Literal["dynamo"]
    paths: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1, max_length=1)]


class TraceLoad(Section):
    """`traffic.load`: requests arrive as recorded, `speedup` times faster."""

    type: Literal["trace_timestamps"]
    speedup: PositiveNumber | None = None


class Traffic(Section):
    """`traffic`; a trace ends where it ends."""

    source: TraceSource
    load: TraceLoad


class SlaSection(Section):
    """`evaluation.sla`, in milliseconds: `e2e_ms` alone, or any of the other two."""

    ttft_ms: PositiveNumber | None = None
    itl_ms: PositiveNumber | None = None
    e2e_ms: PositiveNumber | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "SlaSection":
        if self.e2e_ms is not None and (self.ttft_ms is not None or self.itl_ms is not None):
            raise ValueError("give e2e_ms alone, or ttft_ms and/or itl_ms")
        return self

    def bounds(self) -> Sla | None:
        """As engines take it; None without a bound."""
        sla = Sla(ttft_ms=self.ttft_ms, itl_ms=self.itl_ms, e2e_ms=self.e2e_ms)
        return None if sla == Sla() else sla


class Evaluation(Section):
    """`evaluation`."""

    sla: SlaSection | None = None


class Constraints(Section):
    """`optimization.constraints`: GPUs of a candidate."""

    min_candidate_gpus: Count | None = None
    max_candidate_gpus: Count = 32


class Optimization(Section):
    """`optimization`."""

    target: Annotated[Objective, BeforeValidator(_objective)] = Objective.THROUGHPUT
    strict_sla: Literal[False] = False
    constraints: Constraints = Constraints()


class Optimizer(Section):
    """`optimizer`; `random` draws the points of a grid without replacement until there are none left."""

    algorithm: Literal["random"]
    max_trials: Count = 320
    parallelism: Count = 16
    candidate_timeout_seconds: PositiveNumber = 600.0
    seed: Annotated[int, Field(strict=True)] = SEED


class PrefillLoadModel(Section):
    """`router.prefill_load_model`."""

    type: Annotated[Literal["none"], BeforeValidator(_only_choice)]


class RouterSection(GridSection):
    """`router`: KV routing, and each knob a number, `choices`, or a `range` with a `step`."""

    policy: Annotated[Literal["kv_router"], BeforeValidator(_only_choice)]
    prefill_load_model: PrefillLoadModel

    @model_validator(mode="before")
    @classmethod
    def _linear_is_the_only_scale(cls, section: Any) -> Any:
        if not isinstance(section, dict):
            return section
        return {name: _without_linear(value) for name, value in section.items()}


def _without_linear(knob: Any) -> Any:
    match knob:
        case {"range": {"scale": "linear", **bounds}} if len(knob) == 1:
            return {"range": bounds}
    return knob


class PinnedEngine(Section):
    """`engine`: one mode and backend; the rest is `EngineSection`'s to judge."""

    model_config = ConfigDict(extra="allow")

    mode: Literal["aggregated", "disaggregated"]
    backend: Literal["vllm"]


class RouterGrid(Section):
    """The whole input, `dgdr_run` aside."""

    traffic: Traffic
    engine: PinnedEngine
    evaluation: Evaluation = Evaluation()
    optimization: Optimization
    optimizer: Optimizer
    router: RouterSection

    @property
    def trace(self) -> str:
        """Path of the trace."""
        return self.traffic.source.paths[0]

    @property
    def objective(self) -> Objective:
        """What candidates are ranked by."""
        return self.optimization.target

    def engine_section(self) -> EngineSection:
        """The engine.

        Errors: `InputError` with the path of what is not explicit, or not replayed.
        """
        try:
            return EngineSection.model_validate(self.engine.model_dump())
        except ValidationError as error:
            raise InputError(faults(error, "engine")) from error

    def scenario(self) -> Scenario:
        """What all candidates share.

        Errors: `InputError`, as `engine_section`; a goal that counts requests within an SLA, and no SLA.
        """
        sla = None if self.evaluation.sla is None else self.evaluation.sla.bounds()
        try:
            self.objective.check(sla)
            specification = self.engine_section().specification()
        except SlaMissingError as error:
            raise InputError(f"evaluation.sla: {error}") from error
        except EngineSectionError as error:
            raise InputError(str(error)) from error
        return Scenario(specification, self.traffic.load.speedup or 1.0, sla)

    def points(self) -> tuple[RouterParameters, ...]:
        """Every point of the grid, or `max_trials` of them, drawn by the seed alone; in the grid's order."""
        points = self.router.expand(RouterParameters()).points
        trials = self.optimizer.max_trials
        if trials >= len(points):
            return points
        drawn = random.Random(self.optimizer.seed).sample(range(len(points)), trials)  # noqa: S311 -- not for secrets
        return tuple(points[index] for index in sorted(drawn))


def router_grid(document: Mapping[str, Json]) -> RouterGrid | str:
    """The input as a router grid, or why it is none: every fault with its path."""
    try:
        return RouterGrid.model_validate({name: part for name, part in document.items() if name != OUTPUT_SECTION})
    except ValidationError as error:
        return faults(error)
