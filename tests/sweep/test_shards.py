"""How a grid is split over Runs, and how long they take."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.sweep import (
    ShardPlanError,
    balanced_shard_parts,
    dgdr_need_seconds,
    dgdr_rounds,
    largest_shard_points,
    plan_shards,
)

POINTS = st.integers(1, 2000)
SHARDS = st.integers(1, 50)


def need(points: int, max_shards: int, parallelism: int, candidate_seconds: float = 15) -> float:
    return plan_shards(
        points, max_shards=max_shards, parallelism=parallelism, startup_seconds=60, candidate_seconds=candidate_seconds
    ).need_seconds


@settings(deadline=None)
@given(points=POINTS, max_shards=SHARDS)
def test_shards_are_a_partition_into_consecutive_parts(points: int, max_shards: int) -> None:
    parts = balanced_shard_parts(points, max_shards)
    assert [index for part in parts for index in part] == list(range(points))


@settings(deadline=None)
@given(points=POINTS, max_shards=SHARDS)
def test_shards_differ_by_one_point_at_most_and_the_largest_is_what_is_said(points: int, max_shards: int) -> None:
    sizes = [len(part) for part in balanced_shard_parts(points, max_shards)]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) == largest_shard_points(points, max_shards) == -(-points // len(sizes))
    assert min(sizes) >= 1
    assert max(sizes) <= 100


@settings(deadline=None)
@given(points=POINTS, max_shards=SHARDS)
def test_there_are_as_many_shards_as_may_run_unless_points_are_too_few_or_too_many(
    points: int, max_shards: int
) -> None:
    assert len(balanced_shard_parts(points, max_shards)) == max(min(max_shards, points), -(-points // 100))


@settings(deadline=None)
@given(shard_points=POINTS, parallelism=st.integers(1, 64))
def test_rounds_are_just_enough(shard_points: int, parallelism: int) -> None:
    rounds = dgdr_rounds(shard_points, parallelism)
    assert (rounds - 1) * parallelism < shard_points <= rounds * parallelism


@settings(deadline=None)
@given(max_shards=SHARDS, parallelism=st.integers(1, 8), points=POINTS, more=st.integers(0, 300))
def test_more_points_never_take_less_time_where_the_shards_may_run(
    max_shards: int, parallelism: int, points: int, more: int
) -> None:
    largest = 100 * max_shards  # beyond it the plan has more shards than may run, and does not fit
    fewer, many = min(points, largest), min(points + more, largest)
    assert need(fewer, max_shards, parallelism) <= need(many, max_shards, parallelism)


@settings(deadline=None)
@given(points=POINTS, max_shards=SHARDS, parallelism=st.integers(1, 8), candidate_seconds=st.floats(0, 1e6))
def test_more_shards_or_parallelism_or_faster_candidates_never_take_more_time(
    points: int, max_shards: int, parallelism: int, candidate_seconds: float
) -> None:
    now = need(points, max_shards, parallelism, candidate_seconds)
    assert need(points, max_shards + 1, parallelism, candidate_seconds) <= now
    assert need(points, max_shards, parallelism + 1, candidate_seconds) <= now
    assert need(points, max_shards, parallelism, candidate_seconds / 2) <= now


def test_the_default_grid_is_three_shards_of_36_in_18_rounds() -> None:
    plan = plan_shards(108, max_shards=3, parallelism=2, startup_seconds=60, candidate_seconds=15)
    assert [len(part) for part in plan.parts] == [36, 36, 36]
    assert (plan.largest, plan.rounds, plan.need_seconds) == (36, 18, 330)
    assert plan.fits(timeout_seconds=330)
    assert not plan.fits(timeout_seconds=329)


def test_two_points_are_two_shards_though_three_may_run() -> None:
    assert balanced_shard_parts(2, 3) == (range(1), range(1, 2))


def test_a_plan_of_more_shards_than_may_run_does_not_fit() -> None:
    plan = plan_shards(301, max_shards=3, parallelism=2)
    assert len(plan.parts) == 4
    assert not plan.fits(timeout_seconds=1e9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: balanced_shard_parts(0, 3),
        lambda: largest_shard_points(5, 0),
        lambda: dgdr_rounds(5, 0),
        lambda: dgdr_rounds(0, 1),
        lambda: dgdr_need_seconds(3, startup_seconds=-1, candidate_seconds=1),
        lambda: dgdr_need_seconds(3, startup_seconds=1, candidate_seconds=float("nan")),
        lambda: dgdr_need_seconds(3, startup_seconds=float("inf"), candidate_seconds=1),
    ],
)
def test_numbers_that_describe_no_plan_are_refused(call: object) -> None:
    with pytest.raises(ShardPlanError):
        call()  # type: ignore[operator]
