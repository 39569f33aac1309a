"""Which candidates are replayed next."""

from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.sweep import Rules
from dgdr_retune.sweep._allocation import Batch, next_batch, planned_replays, proven
from dgdr_retune.sweep._comparison import Comparison, Floats, Scores, compare

RULES = Rules()


def after(table: Floats, counts: list[int], *, affordable: float = inf, paired: bool = True) -> Batch | None:
    """The next batch when row r of the table, the baseline first, was replayed so many times."""
    values = np.where(np.arange(table.shape[1]) < np.array(counts)[:, None], table, np.nan)
    scores = Scores(values=values, baseline=0, minimised=True, paired=paired)
    return next_batch(scores, compare(scores, RULES), RULES, affordable)


def played(table: Floats, rules: Rules = RULES, *, paired: bool = True) -> tuple[Comparison, int]:
    """Play a sweep of this table to its end: the last comparison, and how many replays it took."""
    values = np.full_like(table, np.nan)
    replays = 0
    while True:
        scores = Scores(values=values, baseline=0, minimised=True, paired=paired)
        comparison = compare(scores, rules)
        batch = next_batch(scores, comparison, rules, inf)
        if batch is None:
            return comparison, replays
        rows = [0, *batch.contenders]
        values[rows, batch.start : batch.stop] = table[rows, batch.start : batch.stop]
        replays += len(rows) * (batch.stop - batch.start)


def noisy(candidates: int, seed: int = 1, noise: float = 3.0) -> Floats:
    return 100 + noise * np.random.default_rng(seed).standard_normal((candidates + 1, 32))


def test_all_are_replayed_once_and_then_to_the_initial_number() -> None:
    table = noisy(6)
    assert after(table, [0] * 7) == Batch(contenders=(1, 2, 3, 4, 5, 6), start=0, stop=1)
    assert after(table, [1] * 7) == Batch(contenders=(1, 2, 3, 4, 5, 6), start=1, stop=4)


def test_then_the_better_half_is_replayed_twice_as_often() -> None:
    table = noisy(20)
    table[2:21:2] -= 5
    best = tuple(range(2, 21, 2))
    assert after(table, [4] * 21) == Batch(contenders=best, start=4, stop=8)
    counts = [8 if row in {0, *best} else 4 for row in range(21)]
    batch = after(table, counts)
    assert batch is not None
    assert (batch.start, batch.stop) == (8, 16)
    assert len(batch.contenders) == 8
    assert set(batch.contenders) < set(best)


def test_the_last_eight_are_not_halved() -> None:
    table = np.full((9, 32), 100.0)
    table[1:] = 95 + np.arange(1, 9)[:, None] * np.resize([1, -1], 32)
    for done, stop in ((4, 8), (8, 16), (16, 32)):
        assert after(table, [done] * 9) == Batch(contenders=tuple(range(1, 9)), start=done, stop=stop)


def test_nothing_is_replayed_more_often_than_the_maximum() -> None:
    assert after(noisy(1), [32, 32]) is None


def test_who_is_clearly_behind_the_leader_leaves_before_his_half() -> None:
    table = noisy(4, noise=0.1)
    table[1] -= 10
    table[2] -= 20
    assert after(table, [4] * 5) == Batch(contenders=(2,), start=4, stop=8)


def test_who_has_no_room_for_the_margin_leaves() -> None:
    table = np.full((5, 32), 100.0)
    table[1] = 99.5
    assert after(table, [4] * 5) is None


def test_a_single_contender_that_is_proven_needs_no_more_replays() -> None:
    table = noisy(4, noise=0.1)
    table[2] -= 20
    assert after(table, [4] * 5) is not None
    assert after(table, [8, 4, 8, 4, 4]) is None


def test_a_candidate_that_failed_is_not_replayed_again() -> None:
    table = noisy(4)
    table[2] = np.nan
    batch = after(table, [1] * 5)
    assert batch is not None
    assert batch.contenders == (1, 3, 4)


def test_when_all_have_failed_nothing_is_replayed() -> None:
    table = noisy(2)
    for replications in (1, 4):
        assert after(table, [replications, 0, replications - 1]) is None


def test_after_a_single_replication_the_better_part_goes_on_by_its_score_alone() -> None:
    table = noisy(20)
    values = np.where(np.arange(32) < 1, table, np.nan)
    rules = Rules(initial_replications=1, maximum_replications=2)
    scores = Scores(values=values, baseline=0, minimised=True, paired=True)
    best = 1 + np.argsort(table[1:, 0])[:10]
    batch = next_batch(scores, compare(scores, rules), rules, inf)
    assert batch == Batch(contenders=tuple(sorted(best.tolist())), start=1, stop=2)


def test_level_candidates_stay_by_lowest_index() -> None:
    table = noisy(20)
    table[1:] = table[1] - 20
    batch = after(table, [4] * 21)
    assert batch is not None
    assert batch.contenders == tuple(range(1, 11))


def test_a_short_budget_keeps_as_many_contenders_as_it_takes_to_the_end() -> None:
    table = noisy(108)
    # 20 contenders to 4, 10 to 8, 8 to 16, 8 to 32, each time with the baseline
    cost = 21 * 3 + 11 * 4 + 9 * 8 + 9 * 16
    assert planned_replays(20, 1, RULES) == cost
    for affordable, kept in ((cost, 20), (cost - 1, 19), (0, 1), (-1, 1)):
        batch = after(table, [1] * 109, affordable=affordable)
        assert batch is not None
        best = 1 + np.argsort(table[1:, 0])[:kept]
        assert batch == Batch(contenders=tuple(sorted(best.tolist())), start=1, stop=4, curtailed=True)


@settings(deadline=None)
@given(candidates=st.integers(1, 40), seed=st.integers(0, 10**6), paired=st.booleans())
def test_a_sweep_never_takes_more_replays_than_planned(candidates: int, seed: int, *, paired: bool) -> None:
    _, replays = played(noisy(candidates, seed), paired=paired)
    assert replays <= planned_replays(candidates, 0, RULES)


@pytest.mark.parametrize(("initial", "maximum"), [(1, 1), (2, 2), (4, 10), (5, 32), (8, 8), (3, 4)])
def test_stages_double_up_to_the_maximum(initial: int, maximum: int) -> None:
    rules = Rules(initial_replications=initial, maximum_replications=maximum)
    stages = rules.stages
    assert (stages[0], stages[-1]) == (initial, maximum)
    assert all(later == min(2 * earlier, maximum) for earlier, later in pairwise(stages))
    comparison, _ = played(noisy(3), rules)
    assert comparison.replications.max() <= maximum


def test_fewer_than_eight_replications_prove_nothing_unless_there_are_never_more() -> None:
    table = np.full((2, 32), 100.0)
    table[1] = 50
    values = np.where(np.arange(32) < 7, table, np.nan)
    comparison = compare(Scores(values=values, baseline=0, minimised=True, paired=True), RULES)
    assert comparison.lower[1] == 50
    assert not proven(comparison, RULES).any()
    assert proven(comparison, Rules(maximum_replications=7)).tolist() == [False, True]


def test_the_margin_must_be_exceeded_not_met() -> None:
    table = np.full((3, 8), 100.0)
    table[1:] = [[99.0], [98.9]]
    comparison = compare(Scores(values=table, baseline=0, minimised=True, paired=True), RULES)
    assert comparison.improvement[1] == 1
    assert proven(comparison, RULES).tolist() == [False, False, True]


# What a sweep decides when nothing, or one candidate, is better: the same code as in production, on a table of scores.

NOISES = {
    "independent": lambda random, shape: 2.9 * random.standard_normal(shape),
    "mostly shared": lambda random, shape: 5 * random.standard_normal((1, 32)) + 0.5 * random.standard_normal(shape),
    "skewed": lambda random, shape: 100 * np.exp(0.3 * random.standard_normal(shape)),
    "of two levels": lambda random, shape: 10.0 * (random.random(shape) < 0.25),
    "of two blurred levels": lambda random, shape: 10.0 * (random.random(shape) < 0.25) + 0.1 * random.random(shape),
}


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("noise", NOISES)
def test_on_1000_sweeps_in_which_nothing_is_better_at_most_5_percent_apply(noise: str, *, paired: bool) -> None:
    random = np.random.default_rng(20)
    rules = Rules(min_improvement_percentage=0.0)  # harder than any margin
    applied = 0
    for _ in range(1000):
        comparison, _ = played(100 + NOISES[noise](random, (37, 32)), rules, paired=paired)
        applied += bool(proven(comparison, rules).any())
    assert applied <= 50


@pytest.mark.parametrize("paired", [True, False])
def test_one_of_36_candidates_that_is_5_percent_better_is_found_in_at_least_80_percent(*, paired: bool) -> None:
    random = np.random.default_rng(20)
    found, sweeps = 0, 1000
    for _ in range(sweeps):
        table = 100 * (1 + 0.029 * random.standard_normal((37, 32)))
        table[17] *= 0.95
        comparison, _ = played(table, paired=paired)
        found += proven(comparison, RULES).tolist() == [row == 17 for row in range(37)]
    assert found >= 0.8 * sweeps
