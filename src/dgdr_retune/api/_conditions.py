"""Conditions, their reasons, and how a new one joins those that stand."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import Field

from dgdr_retune.api._choices import INT64_MAX
from dgdr_retune.api._declare import OPTIONAL, REQUIRED, ApiModel
from dgdr_retune.api._rules import matches

ConditionStatus = Literal["True", "False", "Unknown"]

ACCEPTED: Final = "Accepted"
"""The condition type of a Request."""
COMPLETED: Final = "Completed"
"""The condition type of a Run."""
EVALUATED: Final = "Evaluated"
"""The condition type of a Candidate."""


class _Reason(StrEnum):
    """A reason as conditions hold it; `meaning` is for people: the condition's status, and when it is so."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        reason = str.__new__(cls, word)
        reason._value_ = word
        reason.meaning = meaning
        return reason


class RequestReason(_Reason):
    """Why a Request is or is not `Accepted`."""

    RUN_CREATED = "RunCreated", "True: the Run of this generation exists."
    INVALID_SPEC = "InvalidSpec", "False: the API server refused the Run as invalid; a new generation is needed."
    RUN_NAME_CONFLICT = (
        "RunNameConflict",
        "False: the Run's name is taken by an object that is not ours; looked at again.",
    )


class RunReason(_Reason):
    """Why a Run is or is not `Completed`."""

    PENDING = "Pending", "False: there is no Job yet."
    EVALUATING_CANDIDATES = "EvaluatingCandidates", "False: the Job is running."
    TRACE_SOURCE_MISSING = "TraceSourceMissing", "False: the claim is absent and no Job was created yet."
    CONTAINER_WAITING = "ContainerWaiting", "False: a container of the Job waits for something worth telling."
    JOB_NAME_CONFLICT = "JobNameConflict", "False: the Job's name is taken by a Job that is not ours; looked at again."
    STOPPING = "Stopping", "False: the Job is being stopped and is not gone yet."
    SEARCH_SUCCEEDED = "SearchSucceeded", "True: the Job completed."
    SEARCH_FAILED = "SearchFailed", "True: the Job failed, or the Request cannot be lowered."
    SUPERSEDED = "Superseded", "True: a newer generation of the Request took its place."
    TRACE_SOURCE_DELETED = "TraceSourceDeleted", "True: the claim was deleted and the Job is confirmed gone."
    TRACE_SOURCE_UNAVAILABLE = "TraceSourceUnavailable", "True: the claim is a block volume or lost."
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded", "True: the containers did not start in time."


class CandidateReason(_Reason):
    """Why a Candidate is `Evaluated`."""

    EVALUATED = "Evaluated", "True: its metrics are written."


Reason = RequestReason | RunReason | CandidateReason


Time = Annotated[
    str,
    Field(max_length=64, examples=["2026-10-01T12:00:00Z"]),
    matches(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})",
        "a time is written as in RFC 3339, such as 2026-10-01T12:00:00Z",
    ),
]


class Condition(ApiModel):
    """One aspect of an object's state, as Kubernetes' own conditions are shaped."""

    type: Annotated[
        str,
        REQUIRED,
        Field(min_length=1, max_length=316, examples=["Accepted"]),
        matches(
            r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]",
            "a condition type is a qualified name such as Accepted or example.com/Ready",
        ),
    ]
    """What the condition is about."""
    status: Annotated[ConditionStatus, REQUIRED, Field(examples=["True"])]
    """Whether it holds."""
    reason: Annotated[
        str,
        REQUIRED,
        Field(min_length=1, max_length=1024, examples=["RunCreated"]),
        matches(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", "a reason is one CamelCase word"),
    ]
    """Why, as one CamelCase word."""
    message: Annotated[str, REQUIRED, Field(max_length=32768, examples=["run qwen-run-1 created"])]
    """Why, for people; no program reads it."""
    last_transition_time: Annotated[Time, REQUIRED]
    """When `status` changed last."""
    observed_generation: Annotated[int | None, OPTIONAL, Field(ge=0, le=INT64_MAX, examples=[1])] = None
    """The object's generation that this was observed on."""


def timestamp(now: datetime) -> str:
    """An RFC 3339 time in UTC with whole seconds, as Kubernetes writes them."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge_condition(standing: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """The conditions, one of each type, with `new` in the place of the one of its type, or at the end.

    Of several of one type the first stands.
    `new.last_transition_time` is kept only if the status differs from the standing one's; else that one's time stays.
    """
    merged: dict[str, Condition] = {}
    for condition in standing:
        merged.setdefault(condition.type, condition)
    stood = merged.get(new.type)
    if stood is not None and stood.status == new.status:
        new = new.model_copy(update={"last_transition_time": stood.last_transition_time})
    merged[new.type] = new
    return tuple(merged.values())
