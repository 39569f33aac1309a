"""From a Request to the document that AISimulate reads.

Source of the fields: AISimulate's own configuration models; `docs/replay-a-trace.md` shows a whole example.
"""

import re
from fractions import Fraction
from typing import Any, Final, Literal

from attrs import frozen

from dgdr_retune.api import (
    CANDIDATE,
    DEFAULT_STOP_REQUESTS,
    NO_HARDWARE,
    NO_SLA,
    SEED,
    TARGETS,
    TRACE_DIRECTORY,
    Budget,
    ConversionError,
    RequestSpec,
    Sla,
    StaticWorkload,
    canonical,
    default,
    is_carrier,
    kind_of,
    to_v1beta2,
    validate,
)
from dgdr_retune.lowering._merge import merge_patch

Json = Any
Reason = Literal["HardwareMissing", "InvalidSpec", "KindUnsupported", "ParetoUnsupported", "SlaMissing"]

_FORMATS: Final = {"Dynamo": "dynamo"}
_SECONDS: Final = {"h": Fraction(3600), "m": Fraction(60), "s": Fraction(1), "ms": Fraction(1, 1000)}


class LoweringError(ValueError):
    """A Request that has no AISimulate input. `reason` is for programs, the message says what to change."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@frozen
class TraceMount:
    """The one file that a Run's Job mounts: the claim alone decides it, whatever the overrides say.

    Attributes:
        claim_name: the PersistentVolumeClaim, in the Request's namespace.
        sub_path: the file, from the claim's root.
        mount_path: where the sweeper sees it.
    """

    claim_name: str
    sub_path: str
    mount_path: str


@frozen
class Lowered:
    """What a Run's sweeper gets.

    Attributes:
        document: AISimulate's input, with every number as an API server returns it.
        trace: what is mounted, None for a static workload.
    """

    document: dict[str, Json]
    trace: TraceMount | None


def lower(request: dict[str, Json]) -> Lowered:
    """The input of a Request's or a Run's sweeper: its typed fields, then its overrides as the last word.

    Args:
        request: the object as it is stored, or as a file holds it; defaults are filled in.

    Errors: `LoweringError`.
    """
    spec = _spec(request)
    document = canonical(merge_patch(_underlay(spec), spec.aisimulate.input_overrides or {}))
    _check(document)
    return Lowered(document=document, trace=trace_mount(spec))


def _check(document: dict[str, Json]) -> None:
    """What AISimulate always refuses, asked of the whole, for the overrides may give or take what it needs."""
    optimization, evaluation, engine = (_section(document, name) for name in ("optimization", "evaluation", "engine"))
    if str(optimization.get("target")).startswith("goodput") and not evaluation.get("sla"):
        raise LoweringError("SlaMissing", NO_SLA)
    if engine.get("hardware") == "auto" and optimization.get("hardware") is None:
        raise LoweringError("HardwareMissing", NO_HARDWARE)


def _section(document: dict[str, Json], name: str) -> dict[str, Json]:
    section = document.get(name)
    return section if isinstance(section, dict) else {}


def trace_mount(spec: RequestSpec) -> TraceMount | None:
    """What the Job of a specification mounts, None for a static workload.

    The path keeps `.gz`, by which AISimulate tells how to read the file.
    """
    if spec.workload.trace is None:
        return None
    claim = spec.workload.trace.source.persistent_volume_claim
    name = "trace.jsonl.gz" if claim.sub_path.endswith(".gz") else "trace.jsonl"
    return TraceMount(claim.claim_name, claim.sub_path, f"{TRACE_DIRECTORY}/{name}")


def _spec(request: dict[str, Json]) -> RequestSpec:
    try:
        native = to_v1beta2(request) if is_carrier(request) else request
    except ConversionError as error:
        raise LoweringError("InvalidSpec", str(error)) from error
    if kind_of(native) is CANDIDATE:
        raise LoweringError("KindUnsupported", "a Candidate has no input; give a Request or a Run")
    complete = default(native)
    if errors := validate(complete, strict=False).errors:
        raise LoweringError("InvalidSpec", "; ".join(str(each) for each in errors))
    return RequestSpec.read(complete["spec"])


def _underlay(spec: RequestSpec) -> dict[str, Json]:
    """The typed fields alone."""
    if spec.objective.metric is None:
        raise LoweringError(
            "ParetoUnsupported", "spec.objective.mode: Pareto cannot be evaluated yet; use Optimize with one metric"
        )
    return {
        "traffic": _traffic(spec),
        "engine": {
            "model": spec.model_ref.name,
            "hardware": spec.hardware.gpu.sku,
            "backend": spec.backends[0] if len(spec.backends) == 1 else {"choices": spec.backends},
            **_workers(spec.aisimulate.input_overrides or {}),
        },
        **_evaluation(spec.objective.sla),
        "optimization": {
            "target": TARGETS[spec.objective.metric],
            "constraints": {"max_candidate_gpus": spec.hardware.gpu.budget},
        },
        "optimizer": _optimizer(spec.search.budget),
    }


def _traffic(spec: RequestSpec) -> dict[str, Json]:
    static, trace, mount = spec.workload.static, spec.workload.trace, trace_mount(spec)
    if trace is None or mount is None:
        return {} if static is None else _static_traffic(static)
    speedup = trace.replay.arrival_speedup_ratio if trace.replay is not None else None
    return {
        "source": {"type": "trace", "format": _FORMATS[trace.format], "paths": [mount.mount_path]},
        "load": {"type": "trace_timestamps"} | ({} if speedup is None else {"speedup": speedup}),
    }


def _static_traffic(static: StaticWorkload) -> dict[str, Json]:
    ratio = static.num_request_ratio
    return {
        "source": {"type": "synthetic", "input_tokens": static.isl, "output_tokens": static.osl},
        "load": _load(static),
        "stop": {"requests": DEFAULT_STOP_REQUESTS} if ratio is None else {"requests_per_load_unit": ratio},
    }


def _load(static: StaticWorkload) -> dict[str, Json]:
    if static.kv_load_ratio is not None:
        return {"type": "kv_capacity_fraction", "fraction": static.kv_load_ratio[0]}
    if static.request_rate is not None:
        return {"type": "poisson", "requests_per_second": static.request_rate}
    return {"type": "concurrency", "concurrency": static.concurrency}


def _workers(overrides: dict[str, Json]) -> dict[str, Json]:
    """Workers by AISimulate's own defaults, of both modes that it searches unless told otherwise.

    It wants those of each mode named and refuses any others, so overrides that name a mode or workers name them all.
    """
    engine = overrides.get("engine")
    if isinstance(engine, dict) and ("mode" in engine or "workers" in engine):
        return {}
    return {"workers": {"aggregated": {}, "prefill": {}, "decode": {}}}


def _evaluation(sla: Sla | None) -> dict[str, Json]:
    if sla is None:
        return {}
    bounds = {"ttft_ms": sla.ttft_ms, "itl_ms": sla.itl_ms, "e2e_ms": sla.e2e_ms}
    return {"evaluation": {"sla": {name: bound for name, bound in bounds.items() if bound is not None}}}


def _optimizer(budget: Budget) -> dict[str, Json]:
    per_round = budget.candidates_per_round or budget.parallel_evaluations
    duration = budget.max_evaluation_duration
    return {
        "max_trials": budget.max_rounds * per_round,
        "parallelism": budget.parallel_evaluations,
        **({} if duration is None else {"candidate_timeout_seconds": _seconds(duration)}),
        "seed": SEED,
    }


def _seconds(duration: str) -> float:
    """The seconds of a duration as the API admits it, such as 1h2m0.5s."""
    parts = re.findall(r"([0-9.]+)(ms|h|m|s)", duration)
    return float(sum(Fraction(number) * _SECONDS[unit] for number, unit in parts))
