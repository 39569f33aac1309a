"""DynamoGraphDeploymentRun: one execution of one generation of a Request."""

from typing import Annotated, Literal

from pydantic import Field

from dgdr_retune.api._choices import INT32_MAX, MAX_CANDIDATES
from dgdr_retune.api._conditions import Condition, Time
from dgdr_retune.api._declare import KUBERNETES, OPTIONAL, REQUIRED, ApiModel, FreeObject, ListMap
from dgdr_retune.api._object import ObjectMeta, ObjectReference
from dgdr_retune.api._request import RequestSpec
from dgdr_retune.api._rules import immutable
from dgdr_retune.api._workload import Workload

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]

Total = Annotated[int | None, Field(ge=0, le=INT32_MAX, examples=[4])]
"""A count that starts at 0."""


class RunSpec(RequestSpec):
    """The Request's specification as it was admitted: a full copy, which never changes."""

    workload: Annotated[Workload, REQUIRED]
    """What candidates are measured on; a Run always says it."""


class JobReference(ApiModel):
    """The Run's Job."""

    name: Annotated[str, REQUIRED, Field(min_length=1, max_length=253, examples=["qwen-run-1"])]
    """Its name."""
    uid: Annotated[str | None, OPTIONAL, Field(max_length=128, examples=["0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"])] = (
        None
    )
    """Its UID."""


class RunInput(ApiModel):
    """What the sweeper got."""

    input: Annotated[FreeObject | None, OPTIONAL, Field(examples=[{"engine": {"model": "Qwen/Qwen3-0.6B"}}])] = None
    """The lowered specification after the overrides."""


class Rounds(ApiModel):
    """Rounds of a search."""

    completed: Annotated[Total, OPTIONAL] = None
    """Rounds done."""
    total: Annotated[Total, OPTIONAL] = None
    """Rounds planned."""


class Branch(ApiModel):
    """One branch of a search."""

    name: Annotated[str, REQUIRED, Field(min_length=1, max_length=253, examples=["aggregated"])]
    """Its name."""
    rounds: Annotated[Rounds | None, OPTIONAL] = None
    """How far it is."""


class Evaluations(ApiModel):
    """Evaluations by their state."""

    scheduled: Annotated[Total, OPTIONAL] = None
    """Not started yet."""
    running: Annotated[Total, OPTIONAL] = None
    """Started and not done."""
    feasible: Annotated[Total, OPTIONAL] = None
    """Done, within every constraint."""
    infeasible: Annotated[Total, OPTIONAL] = None
    """Done, outside a constraint."""
    failed: Annotated[Total, OPTIONAL] = None
    """Ended by an error or by time."""
    unsupported: Annotated[Total, OPTIONAL] = None
    """Not possible on this engine."""
    cache_hits: Annotated[Total, OPTIONAL] = None
    """Answered from an earlier evaluation."""


class CandidateCounts(ApiModel):
    """Candidates by what they are."""

    pareto_front: Annotated[Total, OPTIONAL] = None
    """On the Pareto front."""
    published: Annotated[Total, OPTIONAL] = None
    """Written as objects."""


class Progress(ApiModel):
    """How far the search is."""

    branches: Annotated[list[Branch] | None, OPTIONAL, ListMap("name"), Field(max_length=100)] = None
    """Branches of the search."""
    evaluations: Annotated[Evaluations | None, OPTIONAL] = None
    """Evaluations by their state."""
    candidates: Annotated[CandidateCounts | None, OPTIONAL] = None
    """Candidates by what they are."""
    round: Annotated[Total, OPTIONAL] = None
    """The round that the sweeper is in."""
    evaluated: Annotated[Total, OPTIONAL] = None
    """Evaluations of this round that are done."""


class Provenance(ApiModel):
    """What computed the result."""

    sweeper_version: Annotated[str | None, OPTIONAL, Field(max_length=128, examples=["0.13.0"])] = None
    """The sweeper's version."""
    replay_version: Annotated[str | None, OPTIONAL, Field(max_length=128, examples=["1.6.1"])] = None
    """The replay engine's version."""


class RunStatus(ApiModel):
    """How the Run is doing. The conditions decide; the phase is for people."""

    phase: Annotated[Phase | None, OPTIONAL, Field(examples=["Running"])] = None
    """Where the Run is, in one word."""
    job_ref: Annotated[JobReference | None, OPTIONAL] = None
    """The Run's Job."""
    aisimulate: Annotated[RunInput | None, OPTIONAL] = None
    """What the sweeper got."""
    progress: Annotated[Progress | None, OPTIONAL] = None
    """How far the search is."""
    message: Annotated[str | None, OPTIONAL, Field(max_length=32768, examples=["4 of 6 candidates evaluated"])] = None
    """What the sweeper says, for people."""
    candidate_refs: Annotated[list[ObjectReference] | None, OPTIONAL, Field(max_length=MAX_CANDIDATES)] = None
    """The Candidates, the best first."""
    provenance: Annotated[Provenance | None, OPTIONAL] = None
    """What computed the result."""
    start_time: Annotated[Time | None, OPTIONAL, Field(examples=["2026-10-01T12:00:00Z"])] = None
    """When the Job was created."""
    completion_time: Annotated[Time | None, OPTIONAL, Field(examples=["2026-10-01T12:10:00Z"])] = None
    """When the Run was done."""
    last_progress_time: Annotated[Time | None, OPTIONAL, Field(examples=["2026-10-01T12:05:00Z"])] = None
    """When the sweeper last reported."""
    conditions: Annotated[list[Condition] | None, OPTIONAL, ListMap("type"), Field(max_length=16)] = None
    """`Completed`."""


class Run(ApiModel):
    """One execution of one generation of a Request, as a Job."""

    rules = (immutable("spec"),)

    api_version: Annotated[Literal["nvidia.com/v1beta2"], REQUIRED] = "nvidia.com/v1beta2"
    kind: Annotated[Literal["DynamoGraphDeploymentRun"], REQUIRED] = "DynamoGraphDeploymentRun"
    metadata: Annotated[ObjectMeta, REQUIRED, KUBERNETES]
    spec: Annotated[RunSpec, REQUIRED]
    """What is executed."""
    status: Annotated[RunStatus | None, OPTIONAL] = None
    """How it is doing."""
