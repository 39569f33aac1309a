"""Quantiles of Student's t against closed forms and published tables."""

from math import pi, sqrt, tan
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.sweep._student import t_quantile

TAILS = st.floats(1e-9, 0.4999)


@settings(deadline=None)
@given(TAILS)
def test_with_one_degree_of_freedom_it_is_cauchys(tail: float) -> None:
    assert t_quantile(tail, 1) == pytest.approx(1 / tan(pi * tail), rel=1e-9)


@settings(deadline=None)
@given(TAILS)
def test_with_two_degrees_of_freedom_it_has_a_closed_form(tail: float) -> None:
    assert t_quantile(tail, 2) == pytest.approx((1 - 2 * tail) * sqrt(2 / (4 * tail * (1 - tail))), rel=1e-9)


@settings(deadline=None)
@given(TAILS)
def test_with_four_degrees_of_freedom_the_tail_has_a_closed_form(tail: float) -> None:
    t = t_quantile(tail, 4)
    x = t / sqrt(4 + t * t)
    # 1/2 - x (3 - x²) / 4 written without cancellation for x close to 1
    rest = 4 / ((4 + t * t) * (1 + x))
    assert rest * rest * (2 + x) / 4 == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize(
    ("tail", "degrees", "quantile"),
    [
        (0.05, 10, 1.812),
        (0.025, 3, 3.182),
        (0.025, 5, 2.571),
        (0.025, 30, 2.042),
        (0.005, 7, 3.499),
        (0.005, 120, 2.617),
        (0.001, 15, 3.733),
        (0.0005, 30, 3.646),
        (0.0005, 3, 12.924),
    ],
)
def test_it_is_the_value_of_the_printed_tables(tail: float, degrees: int, quantile: float) -> None:
    assert t_quantile(tail, degrees) == pytest.approx(quantile, abs=6e-4)


def test_half_of_the_distribution_lies_above_zero() -> None:
    assert t_quantile(0.5, 3) < 1e-9


@settings(deadline=None)
@given(st.floats(1e-6, 0.4999))
def test_with_many_degrees_of_freedom_it_is_the_normal_quantile(tail: float) -> None:
    assert t_quantile(tail, 10**7) == pytest.approx(-NormalDist().inv_cdf(tail), rel=1e-5, abs=1e-9)


@settings(deadline=None)
@given(TAILS, st.integers(1, 200))
def test_a_smaller_tail_or_fewer_degrees_of_freedom_lie_further_out(tail: float, degrees: int) -> None:
    assert t_quantile(tail / 2, degrees) > t_quantile(tail, degrees) > t_quantile(tail, degrees + 1)
