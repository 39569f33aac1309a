"""The one configuration model: what is recorded, what is deployed, and how it is retuned."""

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails

from dgdr_retune.planner._errors import ConfigurationError
from dgdr_retune.planner._yaml import MAX_BYTES, Document, Location, parse_yaml
from dgdr_retune.replay import CalibratedTiming, EngineSection, EngineSectionError, RouterParameters, Scenario, Sla
from dgdr_retune.sweep import PROOF_REPLICATIONS, GridSection, Objective, Rules, SweepError

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MAX_NAME = 253  # a DNS-1123 subdomain, as Kubernetes bounds the names of pods and of what it deploys


def _dns_name(value: str) -> str:
    if len(value) > MAX_NAME or not _NAME.fullmatch(value):
        raise ValueError("must be a DNS-1123 name: lower-case letters, digits, `-` and `.`, at most 253 characters")
    return value


def _against_configuration(path: Path, info: ValidationInfo) -> Path:
    """Relative paths are the configuration file's, so that a run does not depend on where it was started."""
    base: Path = (info.context or {}).get("directory", Path())
    if not str(path).isprintable():
        raise ValueError("a path holds no control characters")
    return (base / path).absolute()


def _end_ms(value: Any) -> Any:
    if not isinstance(value, str) or value == "last":
        return value
    if value.isascii() and value.isdigit():
        return int(value)
    try:
        end = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("must be `last`, unix milliseconds or an ISO time such as 2026-11-30T12:20:00Z") from None
    if end.tzinfo is None:
        raise ValueError("an ISO time needs its zone: write 2026-11-30T12:20:00Z for UTC")
    return round(end.timestamp() * 1000)


Name = Annotated[str, AfterValidator(_dns_name)]
FilePath = Annotated[Path, AfterValidator(_against_configuration)]
WindowEnd = Annotated[Literal["last"] | Annotated[int, Field(gt=0, strict=True)], BeforeValidator(_end_ms)]
Parameter = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Section(BaseModel):
    """A part of the configuration: an unknown key is an error, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class RecordingSection(Section):
    """What the frontends recorded, and how it is cut into windows."""

    segments: FilePath
    """Directory of recorded segments; one directory per frontend pod below it."""
    windows: FilePath
    """Directory of windows; a window is published as `<windows>/<name>/<window_end_ms>.jsonl.gz`."""
    interval_seconds: Annotated[int, Field(ge=1, le=7 * 86_400, strict=True)] = 1200
    """Length of a window in seconds; windows are aligned to the unix epoch. Twenty minutes hold enough requests for
    a decision and are short enough to follow traffic."""
    grace_seconds: Annotated[int, Field(ge=0, le=86_400, strict=True)] = 60
    """How long after its end a window is cut, in seconds: requests that have not ended by then do not count.
    Longer than nearly all requests take."""
    window: WindowEnd = "last"
    """`last`: the newest window with rows whose end and grace have passed; or a window's end, as unix milliseconds or
    ISO time."""
    frontends: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)] | None = None
    """Names of the frontend pods that must have recorded; a window that misses one is never applied. Unset: whoever
    recorded is taken as all."""
    minimum_rows: Annotated[int, Field(ge=1, strict=True)] = 500
    """A window with fewer requests is never applied: too few to judge a tail latency by."""
    max_window_rows: Annotated[int, Field(ge=1, le=100_000_000, strict=True)] = 1_000_000
    """A window with more requests is refused (`window_too_large`): cutting takes 100 bytes of memory a row."""
    cut_budget_seconds: Annotated[int, Field(ge=1, le=86_400, strict=True)] = 120
    """The cut is ended after this many seconds."""


class RouterSection(Section):
    """The router parameters in force now: the baseline. Defaults are those of Dynamo's frontend."""

    overlap_score_credit: Parameter = 1.0
    """How much a cached prompt block counts against the prefill it saves; 0 ignores the cache."""
    overlap_score_credit_decay: Parameter = 0.0
    """How fast that credit decays with a worker's excess prefill load; 0 is no decay."""
    prefill_load_scale: Parameter = 1.0
    """Weight of prefill work against decode blocks."""
    decode_active_request_weight: Parameter = 0.0
    """Cost of each request active on a worker, in blocks."""
    host_cache_hit_weight: Parameter = 0.75
    """Credit of a block cached in host memory."""
    disk_cache_hit_weight: Parameter = 0.25
    """Credit of a block cached on disk."""
    shared_cache_multiplier: Parameter = 0.0
    """Credit of a block in a shared cache, beyond what the device holds."""
    temperature: Parameter = 0.0
    """Randomness of the choice (a frontend's `/router_policy` calls it `router_temperature`); 0 takes the cheapest."""

    def parameters(self) -> RouterParameters:
        """The same eight numbers as engines take them."""
        return RouterParameters(**self.model_dump())


class DeploymentSection(Section):
    """The deployment whose routers are tuned."""

    router: RouterSection = RouterSection()
    """The router parameters in force now."""
    engine: EngineSection
    """The engine behind the routers: AISimulate's engine section, everything explicit."""


class SlaSection(Section):
    """Latency targets: `e2e_ms` alone, or any of `ttft_ms` and `itl_ms`."""

    ttft_ms: Positive | None = None
    """Time to first token, in milliseconds."""
    itl_ms: Positive | None = None
    """Mean time between a request's tokens, in milliseconds."""
    e2e_ms: Positive | None = None
    """Time to the last token, in milliseconds."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        first_or_between = self.ttft_ms is not None or self.itl_ms is not None
        if (self.e2e_ms is not None) == first_or_between:
            raise ValueError("give `e2e_ms` alone, or `ttft_ms` and/or `itl_ms`")
        return self


class ReplicationsSection(Section):
    """How often a candidate is replayed, each time with other random numbers, the same for all candidates."""

    initial: Annotated[int, Field(ge=2, le=10_000, strict=True)] = 4
    """Replications of every candidate; below 2 there is no interval."""
    maximum: Annotated[int, Field(ge=PROOF_REPLICATIONS, le=10_000, strict=True)] = 32
    """Replications of the contenders at most; fewer than eight would prove too much by chance."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.maximum < self.initial:
            raise ValueError(f"`maximum` is {self.maximum}, below `initial`, which is {self.initial}")
        return self


class RetuneSection(Section):
    """How candidates are made, scored and judged."""

    objective: Objective = Objective.TTFT
    """What is improved."""
    sla: SlaSection | None = None
    """Latency targets; needed by the goodput objectives, otherwise only reported on."""
    arrival_speedup_ratio: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 1.0
    """Requests arrive this many times faster than recorded; 1 replays the load as it was."""
    grid: GridSection = GridSection()
    """The candidates: a scalar, `choices` or `range` for each of the three knobs. The default is Dynamo's own grid of
    108 points."""
    min_improvement_percentage: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    """A candidate must be better than the parameters in force by more than this, at the lower end of its confidence
    interval. One percent: less is not worth a change of live routers."""
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """Joint confidence of all candidates' intervals."""
    replications: ReplicationsSection = ReplicationsSection()
    """How often a candidate is replayed."""
    budget_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 120
    """Time for the sweep; when it has passed, the decision rests on what is there. Judging the best candidate over the
    window's time comes after it: one replay of it and one of the parameters in force, within as much time again (a
    minute at least), and up to a minute for seven more of each."""
    processes: Literal["auto"] | Annotated[int, Field(ge=1, le=1024, strict=True)] = "auto"
    """Worker processes; `auto` is one a core."""
    engine: Literal["built-in", "dynamo"] = "built-in"
    """Who replays: the built-in simulator, or Dynamo's own runtime (extra `dynamo`), which is slower and not paired."""


class Configuration(Section):
    """Everything one retune needs."""

    name: Name
    """Name of the deployment; its windows stand in a directory of this name."""
    recording: RecordingSection
    """What the frontends recorded, and how it is cut into windows."""
    deployment: DeploymentSection
    """The deployment whose routers are tuned."""
    retune: RetuneSection = RetuneSection()
    """How candidates are made, scored and judged."""
    output: FilePath
    """Directory for `decision.json`, `sweep.json.zst` and `report.html`."""

    @model_validator(mode="after")
    def _window_is_aligned(self) -> Self:
        end, interval_ms = self.recording.window, self.recording.interval_seconds * 1000
        if end != "last" and end % interval_ms:
            before = end - end % interval_ms
            raise ValueError(
                f"recording.window: {end} is not the end of a window of {self.recording.interval_seconds} s; "
                f"the nearest are {before} and {before + interval_ms}"
            )
        return self

    @model_validator(mode="after")
    def _scenario_can_be_replayed(self) -> Self:
        try:
            scenario = self.scenario()
            self.retune.objective.check(scenario.sla)
        except (EngineSectionError, SweepError) as error:
            raise ValueError(str(error)) from error
        calibrated = any(isinstance(pool.timing, CalibratedTiming) for pool in scenario.specification.pools)
        if calibrated and self.retune.engine != "built-in":
            raise ValueError("retune.engine: only `built-in` replays calibrated timing")
        return self

    def rules(self) -> Rules:
        """How this configuration's sweep is judged."""
        return Rules(
            min_improvement_percentage=self.retune.min_improvement_percentage,
            confidence=self.retune.confidence,
            initial_replications=self.retune.replications.initial,
            maximum_replications=self.retune.replications.maximum,
        )

    def scenario(self) -> Scenario:
        """What all candidates of this configuration's sweep share."""
        sla = self.retune.sla
        return Scenario(
            specification=self.deployment.engine.specification("deployment.engine"),
            speedup=self.retune.arrival_speedup_ratio,
            sla=Sla(**sla.model_dump()) if sla else None,
        )


def load_configuration(path: Path, *, window: str | None = None) -> Configuration:
    """Read a configuration from a YAML file.

    Args:
        path: the file.
        window: takes the place of `recording.window`.

    Raises:
        ConfigurationError: the file cannot be read, is not safe YAML or has faults; each fault is named with file,
            line and field.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}; give the path of a configuration file") from error
    document = parse_yaml(text, source=str(path))
    if window is not None and isinstance(document.value, dict) and isinstance(document.value.get("recording"), dict):
        document.value["recording"]["window"] = window
    try:
        return Configuration.model_validate(document.value, context={"directory": path.parent})
    except ValidationError as error:
        raise ConfigurationError("\n".join(_faults(document, error))) from error


def _faults(document: Document, error: ValidationError) -> list[str]:
    return [_fault(document, fault) for fault in error.errors(include_url=False)]


def _fault(document: Document, fault: ErrorDetails) -> str:
    """One fault as `file:line: field: message`; what pydantic adds to a location for unions is left out."""
    at: Location = ()
    for part in fault["loc"]:
        if (*at, part) not in document.lines and fault["type"] != "missing":
            break
        at = (*at, part)
    field = ".".join(str(part) for part in at)
    message = fault["msg"].removeprefix("Value error, ")
    return f"{document.source}:{document.line(at)}: {field + ': ' if field else ''}{message}"
