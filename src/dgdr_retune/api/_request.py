"""DynamoGraphDeploymentRequest: what a user, or a planner, asks for."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dgdr_retune.api._choices import (
    DEFAULT_CONCURRENCY,
    DEFAULT_ISL,
    DEFAULT_OSL,
    HISTORY_MAX,
    INT64_MAX,
)
from dgdr_retune.api._conditions import Condition
from dgdr_retune.api._declare import KUBERNETES, OPTIONAL, REQUIRED, ApiModel, FreeObject, ListMap
from dgdr_retune.api._object import ObjectMeta, ObjectReference
from dgdr_retune.api._rule import Rule
from dgdr_retune.api._rules import forbidden, unique
from dgdr_retune.api._search import Objective, Recommendation, Search
from dgdr_retune.api._view import both, either
from dgdr_retune.api._workload import Count, StaticWorkload, Workload

Backend = Literal["vllm", "sglang", "trtllm"]
Generator = Literal["aic", "direct"]

RANGE_NEEDS_PARETO = Rule(
    cel=(
        "!has(self.workload) || !has(self.workload.static) || !has(self.workload.static.kvLoadRatio)"
        " || self.workload.static.kvLoadRatio.size() <= 1 || (has(self.objective) && self.objective.mode == 'Pareto')"
    ),
    holds=lambda spec: either(
        lambda: not spec.has("workload"),
        lambda: not spec.at("workload").has("static"),
        lambda: not spec.at("workload", "static").has("kvLoadRatio"),
        lambda: len(spec.at("workload", "static").read("kvLoadRatio")) <= 1,
        lambda: both(lambda: spec.has("objective"), lambda: spec.at("objective").read("mode") == "Pareto"),
    ),
    message="a range of kvLoadRatio needs objective mode Pareto: give one value",
    field="workload.static.kvLoadRatio",
)


class ModelRef(ApiModel):
    """The model that the deployment serves."""

    name: Annotated[str, REQUIRED, Field(min_length=1, max_length=1024, examples=["Qwen/Qwen3-0.6B"])]
    """Its name at Hugging Face, or its path in the image."""
    revision: Annotated[str | None, OPTIONAL, Field(max_length=256, examples=["main"])] = None
    """Its revision."""


class Gpu(ApiModel):
    """The GPUs that a candidate may use."""

    sku: Annotated[str, REQUIRED, Field(min_length=1, max_length=128, examples=["h200_sxm"])]
    """AISimulate's name of the system."""
    budget: Annotated[Count, REQUIRED, Field(examples=[2])]
    """Most GPUs that one candidate uses in total."""


class Hardware(ApiModel):
    """What a candidate runs on."""

    gpu: Annotated[Gpu, REQUIRED]
    """Its GPUs."""


class AiSimulate(ApiModel):
    """What is handed to AISimulate as it is."""

    input_overrides: Annotated[
        FreeObject | None, OPTIONAL, Field(examples=[{"optimizer": {"algorithm": "random"}}])
    ] = None
    """A JSON merge patch (RFC 7396), applied last to the lowered input: it may restate, replace or delete anything."""
    generator: Annotated[Generator, OPTIONAL, Field(examples=["direct"])] = "aic"
    """How candidates become deployments: direct fills a template, aic asks AIConfigurator."""


class V1Beta1Envelope(ApiModel):
    """A v1beta1 specification as another server of this API shows it in v1beta2."""

    open_ended: ClassVar[bool] = True


class RequestSpec(ApiModel):
    """What is asked for."""

    rules = (
        forbidden("v1beta1", "this API serves v1beta2 alone: write the v1beta2 fields instead of a v1beta1 envelope"),
        RANGE_NEEDS_PARETO,
    )

    model_ref: Annotated[ModelRef, REQUIRED]
    """The model."""
    backends: Annotated[
        list[Backend],
        REQUIRED,
        Field(min_length=1, max_length=3, examples=[["vllm"]]),
        unique("name each backend once"),
    ]
    """The engines to consider."""
    image: Annotated[
        str | None, OPTIONAL, Field(min_length=1, max_length=1024, examples=["registry.example/planner:1.7.0"])
    ] = None
    """The sweeper's image; without it the operator's configuration says which."""
    hardware: Annotated[Hardware, REQUIRED]
    """What a candidate runs on."""
    workload: Annotated[Workload, OPTIONAL] = Workload(
        static=StaticWorkload(isl=DEFAULT_ISL, osl=DEFAULT_OSL, concurrency=DEFAULT_CONCURRENCY)
    )
    """What candidates are measured on."""
    objective: Annotated[Objective, OPTIONAL] = Objective(mode="Optimize", metric="Throughput")
    """What makes a candidate better."""
    search: Annotated[Search, OPTIONAL] = Search()
    """How candidates are searched for."""
    recommendation: Annotated[Recommendation, OPTIONAL] = Recommendation()
    """What is reported."""
    aisimulate: Annotated[AiSimulate, OPTIONAL] = AiSimulate()
    """What is handed to AISimulate as it is."""
    v1beta1: Annotated[V1Beta1Envelope | None, OPTIONAL] = None
    """Never set: where another server of this API shows a Request that was written as v1beta1."""


class RequestStatus(ApiModel):
    """What the operator has done about it."""

    observed_generation: Annotated[int | None, OPTIONAL, Field(ge=0, le=INT64_MAX, examples=[1])] = None
    """The generation that was last accepted, or rejected as invalid."""
    active_run_ref: Annotated[ObjectReference | None, OPTIONAL] = None
    """The one Run that is not done, or the name reserved for it."""
    recent_run_refs: Annotated[list[ObjectReference] | None, OPTIONAL, Field(max_length=HISTORY_MAX)] = None
    """Runs that are done, the newest first."""
    conditions: Annotated[list[Condition] | None, OPTIONAL, ListMap("type"), Field(max_length=16)] = None
    """`Accepted`."""


class Request(ApiModel):
    """A search for the best deployment of a model, or for the best router parameters on a recorded trace."""

    api_version: Annotated[Literal["nvidia.com/v1beta2"], REQUIRED] = "nvidia.com/v1beta2"
    kind: Annotated[Literal["DynamoGraphDeploymentRequest"], REQUIRED] = "DynamoGraphDeploymentRequest"
    metadata: Annotated[ObjectMeta, REQUIRED, KUBERNETES]
    spec: Annotated[RequestSpec, REQUIRED]
    """What is asked for."""
    status: Annotated[RequestStatus | None, OPTIONAL] = None
    """What the operator has done about it."""
