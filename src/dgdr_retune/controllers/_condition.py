"""How a condition changes, and when that is worth an Event."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from dgdr_retune.api import Condition, ConditionStatus, Reason, RequestReason, RunReason, merge_condition, timestamp
from dgdr_retune.controllers._actions import EmitEvent
from dgdr_retune.controllers._observation import RequestState, RunState

_MESSAGE_MAX: Final = 32768
"""Characters of a condition's message, by the schema."""

_WARNINGS: Final = frozenset(
    {
        RequestReason.INVALID_SPEC,
        RequestReason.RUN_NAME_CONFLICT,
        RunReason.TRACE_SOURCE_MISSING,
        RunReason.CONTAINER_WAITING,
        RunReason.JOB_NAME_CONFLICT,
        RunReason.SEARCH_FAILED,
        RunReason.TRACE_SOURCE_DELETED,
        RunReason.TRACE_SOURCE_UNAVAILABLE,
        RunReason.START_DEADLINE_EXCEEDED,
    }
)


def with_condition(
    standing: Iterable[Condition],
    kind: str,
    status: ConditionStatus,
    reason: Reason,
    message: str,
    *,
    now: datetime,
    generation: int | None = None,
) -> tuple[Condition, ...]:
    """The conditions with this one: equal to those that stand if it says what its predecessor says."""
    new = Condition(
        type=kind,
        status=status,
        reason=str(reason),
        message=message[:_MESSAGE_MAX],
        last_transition_time=timestamp(now),
        observed_generation=generation,
    )
    return merge_condition(standing, new)


def event_of_change(
    about: RequestState | RunState, kind: str, before: Iterable[Condition], after: Iterable[Condition]
) -> tuple[EmitEvent, ...]:
    """An Event if the condition of this type has another status or reason; another message alone is none."""
    old, new = (next((each for each in conditions if each.type == kind), None) for conditions in (before, after))
    if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
        return ()
    return (
        EmitEvent(
            kind="DynamoGraphDeploymentRequest" if isinstance(about, RequestState) else "DynamoGraphDeploymentRun",
            about=about.ref,
            reason=new.reason,
            message=new.message,
            type="Warning" if new.reason in _WARNINGS else "Normal",
        ),
    )
