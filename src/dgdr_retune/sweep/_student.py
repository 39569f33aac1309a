"""Quantiles of Student's t distribution, far into the tail where many candidates share one error probability."""

from functools import lru_cache
from math import exp, lgamma, log

_TINY = 1e-300  # keeps a continued fraction's terms off zero
_PRECISION = 1e-15


@lru_cache(maxsize=4096)
def t_quantile(tail: float, degrees_of_freedom: int) -> float:
    """The t that a Student variable exceeds with probability `tail`.

    The upper tail of t is half the regularised incomplete beta I_x(df/2, 1/2) at x = df / (df + t²) (NIST Digital
    Library of Mathematical Functions 8.17; Abramowitz and Stegun 26.7.1), inverted by bisection.

    Args:
        tail: upper tail probability, above 0 and at most 0.5.
        degrees_of_freedom: at least 1.
    """
    low, high = 0.0, 1.0
    while _upper_tail(high, degrees_of_freedom) > tail:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if _upper_tail(middle, degrees_of_freedom) > tail:
            low = middle
        else:
            high = middle
    return high


def _upper_tail(t: float, degrees_of_freedom: int) -> float:
    square = t * t
    whole = degrees_of_freedom + square
    return _incomplete_beta(degrees_of_freedom / 2, 0.5, degrees_of_freedom / whole, square / whole) / 2


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """I_x(a, b), given `rest` = 1 - x as well, which is exact where x is close to 1."""
    if rest <= 0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, rest, x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest))
    return front * _continued_fraction(a, b, x) / a


def _continued_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of DLMF 8.17.22, from the front by the modified Lentz method (Thompson, Barnett 1986)."""
    numerator, denominator = 1.0, 1 / _off_zero(1 - (a + b) * x / (a + 1))
    value = denominator
    step = 0
    change = 0.0
    while abs(change - 1) > _PRECISION:
        step += 1
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        change = 1.0
        for term in (even, odd):
            denominator = 1 / _off_zero(1 + term * denominator)
            numerator = _off_zero(1 + term / numerator)
            change *= denominator * numerator
        value *= change
    return value


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
