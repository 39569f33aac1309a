"""DynamoGraphDeploymentCandidate: one deployment that a Run recommends."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dgdr_retune.api._conditions import Condition
from dgdr_retune.api._declare import KUBERNETES, OPTIONAL, REQUIRED, ApiModel, FreeObject, ListMap
from dgdr_retune.api._object import ObjectMeta
from dgdr_retune.api._request import Backend
from dgdr_retune.api._rules import immutable


class CandidateSpec(ApiModel):
    """A DynamoGraphDeployment's specification and, beside it, the parameters that it was made from.

    Only the deployment's own API judges its fields; those named here are the ones that a DynamoGraphDeployment of
    today has at its top, so that a change of any of them is seen. Other fields are kept as they are; that one of them
    is replaced by another one is refused by the webhook alone, for the rules of a CRD cannot see it.
    """

    open_ended: ClassVar[bool] = True

    parameters: Annotated[FreeObject, REQUIRED, Field(examples=[{"tp": 1, "replicas": 2}])]
    """What was evaluated, resolved."""
    backend_framework: Annotated[Backend | None, OPTIONAL, Field(examples=["vllm"])] = None
    """The engine of the deployment."""
    annotations: Annotated[FreeObject | None, OPTIONAL, Field(examples=[{"nvidia.com/enable-grove": "false"}])] = None
    """Annotations of everything that the deployment makes."""
    labels: Annotated[FreeObject | None, OPTIONAL, Field(examples=[{"team": "search"}])] = None
    """Labels of everything that the deployment makes."""
    env: Annotated[
        list[FreeObject] | None,
        OPTIONAL,
        Field(max_length=1000, examples=[[{"name": "DYN_ROUTER_MODE", "value": "kv"}]]),
    ] = None
    """Environment of every component."""
    components: Annotated[
        list[FreeObject] | None,
        OPTIONAL,
        Field(max_length=25, examples=[[{"name": "Frontend", "type": "frontend", "replicas": 1}]]),
    ] = None
    """Frontends, workers and the rest."""
    priority_class_name: Annotated[str | None, OPTIONAL, Field(max_length=253, examples=["batch"])] = None
    """The PriorityClass of the deployment's pods."""
    provider_override: Annotated[FreeObject | None, OPTIONAL, Field(examples=[{"target": "PodCliqueSet"}])] = None
    """Settings of the resource that the workload provider makes."""
    topology_constraint: Annotated[FreeObject | None, OPTIONAL, Field(examples=[{"packDomain": "rack"}])] = None
    """Where the components are placed."""
    restart: Annotated[FreeObject | None, OPTIONAL, Field(examples=[{"id": "1"}])] = None
    """Which restart is asked for, and how it is done."""
    experimental: Annotated[FreeObject | None, OPTIONAL, Field(examples=[{"componentGroups": []}])] = None
    """What the deployment's API does not promise to keep."""


class CandidateStatus(ApiModel):
    """How the deployment did."""

    metrics: Annotated[FreeObject | None, OPTIONAL, Field(examples=[{"score": 12.5}])] = None
    """What the replay measured; written once."""
    conditions: Annotated[list[Condition] | None, OPTIONAL, ListMap("type"), Field(max_length=16)] = None
    """`Evaluated`."""


class Candidate(ApiModel):
    """One deployment that a Run recommends, ready to be created as a DynamoGraphDeployment."""

    rules = (immutable("spec", open_ended=True),)

    api_version: Annotated[Literal["nvidia.com/v1beta2"], REQUIRED] = "nvidia.com/v1beta2"
    kind: Annotated[Literal["DynamoGraphDeploymentCandidate"], REQUIRED] = "DynamoGraphDeploymentCandidate"
    metadata: Annotated[ObjectMeta, REQUIRED, KUBERNETES]
    spec: Annotated[CandidateSpec, REQUIRED]
    """The deployment."""
    status: Annotated[CandidateStatus | None, OPTIONAL] = None
    """How it did."""
