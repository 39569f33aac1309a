"""Improvements and their intervals."""

from math import inf, nan, sqrt

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dgdr_retune.sweep import Rules
from dgdr_retune.sweep._comparison import Comparison, Floats, Scores, compare
from dgdr_retune.sweep._student import t_quantile

RULES = Rules()
STAGES = 4  # 4, 8, 16, 32
SCORES = arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(2, 9)), elements=st.floats(50, 150))


def compared(table: Floats, *, minimised: bool = True, paired: bool = True, rules: Rules = RULES) -> Comparison:
    """Compare the rows of a table to its first."""
    return compare(Scores(values=np.array(table, dtype=float), baseline=0, minimised=minimised, paired=paired), rules)


def tail(candidates: int) -> float:
    return 0.05 / (2 * candidates * STAGES)


@pytest.mark.parametrize("minimised", [True, False])
@settings(deadline=None)
@given(table=SCORES)
def test_both_ends_are_ratios_that_a_paired_t_test_just_rejects(table: Floats, *, minimised: bool) -> None:
    result = compared(table, minimised=minimised)
    n = table.shape[1]
    t = t_quantile(tail(len(table) - 1), n - 1)
    for row in range(1, len(table)):
        if not np.isfinite(result.lower[row]):
            continue
        for end in (result.lower[row], result.upper[row]):
            ratio = 1 - end / 100 if minimised else 1 + end / 100
            gaps = table[row] - ratio * table[0]
            error = gaps.std(ddof=1) / sqrt(n)
            assert abs(gaps.mean()) == pytest.approx(t * error, rel=1e-6, abs=1e-6)


@settings(deadline=None)
@given(table=SCORES)
def test_both_ends_are_ratios_that_an_unpaired_t_test_just_rejects(table: Floats) -> None:
    result = compared(table, paired=False)
    n = table.shape[1]
    variances = table.var(axis=1, ddof=1) / n
    for row in range(1, len(table)):
        if not np.isfinite(result.lower[row]):
            continue
        own, shared = variances[row], (table[row].mean() / table[0].mean()) ** 2 * variances[0]
        # Welch and Satterthwaite, both samples of n
        freedom = (n - 1) * (own + shared) ** 2 / (own**2 + shared**2) if own + shared else 2 * n - 2
        t = t_quantile(tail(len(table) - 1), int(freedom + 1e-9))
        for end in (result.lower[row], result.upper[row]):
            ratio = 1 - end / 100
            error = sqrt(own + ratio**2 * variances[0])
            gap = abs(table[row].mean() - ratio * table[0].mean())
            assert gap == pytest.approx(t * error, rel=1e-6, abs=1e-6)


@settings(deadline=None)
@given(table=SCORES, paired=st.booleans(), minimised=st.booleans())
def test_the_estimate_is_the_improvement_in_percent_and_lies_in_its_interval(
    table: Floats, *, paired: bool, minimised: bool
) -> None:
    result = compared(table, paired=paired, minimised=minimised)
    means = table.mean(axis=1)
    expected = 100 * (means[0] - means) / means[0] * (1 if minimised else -1)
    assert result.improvement == pytest.approx(expected, abs=1e-9)
    assert (result.lower <= result.improvement).all()
    assert (result.improvement <= result.upper).all()


@pytest.mark.parametrize("paired", [True, False])
def test_without_any_noise_an_interval_has_no_width(*, paired: bool) -> None:
    result = compared([[100.0] * 8, [99.0] * 8, [112.5] * 8], paired=paired)
    assert result.improvement.tolist() == result.lower.tolist() == result.upper.tolist() == [0, 1, -12.5]


def test_noise_that_all_candidates_share_cancels() -> None:
    noise = np.array([1.0, 1.02, 0.97, 1.01, 1.03, 0.99, 1, 0.98])
    result = compared([100 * noise, 75 * noise])
    assert (result.lower[1], result.upper[1]) == pytest.approx((25, 25), abs=1e-9)
    apart = compared([100 * noise, 75 * noise], paired=False)
    assert apart.lower[1] < 24
    assert apart.upper[1] > 26


def test_the_baseline_compares_to_itself_as_exactly_nothing() -> None:
    for paired in (True, False):
        result = compared([[1.0, 3.0, 2.5], [1.0, 3.0, 2.5]], paired=paired)
        assert (result.improvement[0], result.lower[0], result.upper[0], result.gain[0]) == (0, 0, 0, 0)


def test_one_replication_has_an_estimate_but_no_interval() -> None:
    result = compared([[100.0], [90.0]])
    assert (result.improvement[1], result.lower[1], result.upper[1]) == (10, -inf, inf)


def test_candidates_are_compared_over_the_replications_that_both_have() -> None:
    result = compared([[100.0, 200, 300, nan], [90.0, 180, nan, nan], [nan] * 4, [50.0, 100, 150, 1]])
    assert result.replications.tolist() == [3, 2, 0, 3]
    assert result.improvement[[1, 3]].tolist() == [10, 50]
    assert np.isnan(result.improvement[2])
    assert (result.lower[2], result.upper[2]) == (-inf, inf)


def test_a_baseline_of_zero_gives_no_percentage_but_an_order() -> None:
    result = compared([[0.0] * 8, [5.0] * 8, [7.0] * 8], minimised=False)
    assert np.isnan(result.improvement[1:]).all()
    assert (result.lower[1:] == -inf).all()
    assert result.gain.tolist() == [0, 5, 7]


def test_a_baseline_that_may_as_well_be_zero_has_no_interval() -> None:
    noise = np.array([-1.0, 1.1, -0.9, 1.0])
    assert compared([noise, noise + 5]).lower[1] == -inf


def test_a_negative_baseline_improves_towards_less_where_less_is_better() -> None:
    table = [[-10.0, -10.5, -9.5, -10], [-11.0, -11.25, -10.75, -11]]
    down, up = compared(table), compared(table, minimised=False)
    assert down.improvement[1] == pytest.approx(10)
    assert up.improvement[1] == pytest.approx(-10)
    assert down.lower[1] < 10 < down.upper[1]
    assert (up.lower[1], up.upper[1]) == pytest.approx((-down.upper[1], -down.lower[1]))


@settings(deadline=None)
@given(arrays(np.float64, (3, 4), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_numbers_out_of_all_proportion_prove_nothing_and_are_never_nan(table: Floats) -> None:
    for paired in (True, False):
        result = compared(table, paired=paired)
        assert not np.isnan(result.lower).any()
        assert not np.isnan(result.upper).any()


def test_more_candidates_or_stages_widen_the_intervals() -> None:
    table = np.array([[100.0, 101, 99, 100], [95, 97, 93, 94]])
    alone = compared(table)
    crowded = compared(np.vstack((table, table[1:])))
    once = compared(table, rules=evolve(RULES, initial_replications=32))
    assert crowded.lower[1] < alone.lower[1] < once.lower[1] < once.upper[1] < alone.upper[1] < crowded.upper[1]


@pytest.mark.parametrize("paired", [True, False])
def test_all_intervals_hold_together_at_every_stage_as_often_as_they_say(*, paired: bool) -> None:
    random = np.random.default_rng(5)
    truth = np.linspace(0.8, 1.2, 21)[:, None]
    sweeps, misses = 400, 0
    for _ in range(sweeps):
        shared = 0.05 * random.standard_normal((1, 32)) if paired else 0
        table = 100 * truth * (1 + shared + 0.03 * random.standard_normal((21, 32)))
        missed = False
        for stage in RULES.stages:
            result = compared(table[:, :stage], paired=paired)
            improvement = 100 * (1 - truth[:, 0] / truth[0, 0])
            missed |= bool(((result.lower > improvement) | (result.upper < improvement)).any())
        misses += missed
    assert misses <= 0.05 * sweeps
