"""How a grid is split over Runs, and how long they take: one rule for the premise, the plan and the executor."""

from itertools import pairwise
from math import isfinite

from attrs import frozen

from dgdr_retune.sweep._errors import ShardPlanError

MAX_SHARD_POINTS = 100
"""A Run evaluates at most this many points."""
DEFAULT_MAX_SHARDS = 3
DEFAULT_PARALLELISM = 2
DEFAULT_STARTUP_SECONDS = 60.0
"""Allowance for a Run's Job to be scheduled and to start."""
DEFAULT_CANDIDATE_SECONDS = 15.0
"""Allowance for one evaluation; AISimulate's sweeper took 13 s for 8,006 requests at a parallelism of two."""


def balanced_shard_parts(points: int, max_shards: int) -> tuple[range, ...]:
    """The grid indices of each shard: consecutive ranges whose sizes differ by at most one, the larger ones first.

    There are `max_shards` shards, fewer where there are fewer points, more where a shard would exceed 100 points.

    Raises:
        ShardPlanError: fewer than one point or shard.
    """
    _at_least_one(points=points, max_shards=max_shards)
    shards = max(min(max_shards, points), -(-points // MAX_SHARD_POINTS))
    size, larger = divmod(points, shards)
    starts = [shard * size + min(shard, larger) for shard in range(shards + 1)]
    return tuple(range(*bounds) for bounds in pairwise(starts))


def largest_shard_points(points: int, max_shards: int) -> int:
    """Points of the largest shard; it decides when the sweep ends.

    Raises:
        ShardPlanError: fewer than one point or shard.
    """
    return len(balanced_shard_parts(points, max_shards)[0])


def dgdr_rounds(shard_points: int, parallelism: int) -> int:
    """Rounds of at most `parallelism` evaluations at once that a shard of so many points takes.

    Raises:
        ShardPlanError: fewer than one point or evaluation at once.
    """
    _at_least_one(shard_points=shard_points, parallelism=parallelism)
    return -(-shard_points // parallelism)


def dgdr_need_seconds(rounds: int, *, startup_seconds: float, candidate_seconds: float) -> float:
    """Seconds that shards take which run side by side, the largest of them in so many rounds.

    Raises:
        ShardPlanError: a number is negative or not finite.
    """
    need = startup_seconds + rounds * candidate_seconds
    if not isfinite(need) or min(rounds, startup_seconds, candidate_seconds) < 0:
        raise ShardPlanError("rounds and allowances must be finite and not negative")
    return need


@frozen
class ShardPlan:
    """A grid's shards and the time they need.

    Attributes:
        parts: grid indices of each shard.
        max_shards: how many shards may run.
        largest: points of the largest shard.
        rounds: evaluations one after another in that shard.
        need_seconds: from the first Request to the last result.
    """

    parts: tuple[range, ...]
    max_shards: int
    largest: int
    rounds: int
    need_seconds: float

    def fits(self, timeout_seconds: float) -> bool:
        """Premise P13: no more shards than may run, and ready within the timeout."""
        return len(self.parts) <= self.max_shards and self.need_seconds <= timeout_seconds


def plan_shards(
    points: int,
    *,
    max_shards: int = DEFAULT_MAX_SHARDS,
    parallelism: int = DEFAULT_PARALLELISM,
    startup_seconds: float = DEFAULT_STARTUP_SECONDS,
    candidate_seconds: float = DEFAULT_CANDIDATE_SECONDS,
) -> ShardPlan:
    """Split a grid of so many points.

    Args:
        points: of the grid, at least 1.
        max_shards: shards that may run side by side.
        parallelism: evaluations at once within a shard.
        startup_seconds: allowance before a shard's first evaluation.
        candidate_seconds: allowance for one evaluation, all its replications included.

    Raises:
        ShardPlanError: a number is out of its range.
    """
    largest = largest_shard_points(points, max_shards)
    rounds = dgdr_rounds(largest, parallelism)
    return ShardPlan(
        parts=balanced_shard_parts(points, max_shards),
        max_shards=max_shards,
        largest=largest,
        rounds=rounds,
        need_seconds=dgdr_need_seconds(rounds, startup_seconds=startup_seconds, candidate_seconds=candidate_seconds),
    )


def _at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ShardPlanError(f"{name} is {count}; it must be at least 1")
