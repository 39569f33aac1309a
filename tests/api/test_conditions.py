"""Conditions and how a new one joins those that stand."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.api import (
    CandidateReason,
    Condition,
    ConditionStatus,
    RequestReason,
    RunReason,
    merge_condition,
    timestamp,
)

EARLIER, LATER = "2026-10-01T12:00:00Z", "2026-10-01T13:00:00Z"


def condition(
    of: str = "Completed",
    *,
    status: ConditionStatus = "False",
    reason: str = RunReason.PENDING,
    message: str = "",
    time: str = EARLIER,
    generation: int = 1,
) -> Condition:
    return Condition(
        type=of,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=time,
        observed_generation=generation,
    )


CONDITIONS = st.builds(
    condition,
    of=st.sampled_from(["Accepted", "Completed", "Other"]),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["A", "B"]),
    message=st.sampled_from(["", "x"]),
    time=st.sampled_from([EARLIER, LATER]),
    generation=st.integers(1, 3),
)
LISTS = st.lists(CONDITIONS, unique_by=lambda each: each.type)


def test_every_reason_of_the_api_has_its_word() -> None:
    assert {str(reason) for reason in RequestReason} == {"RunCreated", "InvalidSpec", "RunNameConflict"}
    assert {str(reason) for reason in RunReason} == {
        "Pending",
        "EvaluatingCandidates",
        "TraceSourceMissing",
        "ContainerWaiting",
        "JobNameConflict",
        "Stopping",
        "SearchSucceeded",
        "SearchFailed",
        "Superseded",
        "TraceSourceDeleted",
        "TraceSourceUnavailable",
        "StartDeadlineExceeded",
    }
    assert {str(reason) for reason in CandidateReason} == {"Evaluated"}


def test_a_changed_status_brings_its_time() -> None:
    new = condition(status="True", reason=RunReason.SEARCH_SUCCEEDED, time=LATER)
    assert merge_condition([condition()], new) == (new,)


def test_an_unchanged_status_keeps_the_time_whatever_else_changes() -> None:
    new = condition(reason=RunReason.CONTAINER_WAITING, message="ErrImagePull", time=LATER, generation=2)
    (merged,) = merge_condition([condition()], new)
    assert merged.last_transition_time == EARLIER
    assert (merged.reason, merged.message, merged.observed_generation) == ("ContainerWaiting", "ErrImagePull", 2)


def test_a_condition_of_a_type_that_does_not_stand_comes_last() -> None:
    assert merge_condition([condition("Other")], condition()) == (condition("Other"), condition())


def test_of_several_of_one_type_one_is_left() -> None:
    first, second = condition(time=EARLIER), condition(time=LATER)
    other = condition("Other")
    assert merge_condition([first, second, other, other], second) == (first, other)


@settings(deadline=None)
@given(LISTS, CONDITIONS)
def test_only_the_condition_of_the_new_ones_type_changes(standing: list[Condition], new: Condition) -> None:
    merged = merge_condition(standing, new)
    before, after = {each.type: each for each in standing}, {each.type: each for each in merged}
    assert list(after) == list(before | {new.type: new})
    assert all(after[name] == before[name] for name in before if name != new.type)
    stood = before.get(new.type)
    moved = stood is None or stood.status != new.status
    assert after[new.type].last_transition_time == (new if moved else before[new.type]).last_transition_time


@settings(deadline=None)
@given(LISTS, CONDITIONS)
def test_merging_twice_is_merging_once(standing: list[Condition], new: Condition) -> None:
    once = merge_condition(standing, new)
    assert merge_condition(once, new) == once


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (datetime(2026, 10, 1, 12, 0, 0, 999999, tzinfo=UTC), "2026-10-01T12:00:00Z"),
        (datetime(2026, 10, 1, 12, 0, 0, tzinfo=timezone(timedelta(hours=2))), "2026-10-01T10:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc_with_whole_seconds(now: datetime, text: str) -> None:
    assert timestamp(now) == text
