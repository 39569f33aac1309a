"""Every candidate against the baseline: improvement in percent, with intervals that hold for all of them together.

The improvement is a ratio of means, 1 - E[candidate] / E[baseline] where less is better, and its interval is Fieller's
(E. C. Fieller, "Some problems in interval estimation", 1954): all ratios that a t test on candidate - ratio * baseline
does not reject. Replications under common random numbers are compared pair by pair; without them the two variances
add, with the degrees of freedom of Welch (1947) and Satterthwaite (1946), rounded down. The error probability is
split evenly (Bonferroni) over both ends, all candidates and all stages, so the intervals hold together whichever
candidates the stages keep and whenever the sweep ends.
"""

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.sweep._rules import Rules
from dgdr_retune.sweep._student import t_quantile

Floats = NDArray[np.float64]

_ROUNDING = 1e-9  # whole degrees of freedom stay whole


@frozen(eq=False)
class Scores:
    """The scores that a comparison rests on.

    Attributes:
        values: float64[candidates, replications], the baseline among the candidates; NaN where there is no replication.
            A row's replications are its first columns; a candidate that failed or has a score that is not finite has
            none.
        baseline: the baseline's row.
        minimised: whether less is better.
        paired: whether a column's scores come from the same random numbers.
    """

    values: Floats
    baseline: int
    minimised: bool
    paired: bool

    @property
    def replications(self) -> NDArray[np.int64]:
        """int64[candidates]: replications of each."""
        counts: NDArray[np.int64] = np.isfinite(self.values).sum(axis=1, dtype=np.int64)
        return counts


@frozen(eq=False)
class Comparison:
    """Arrays over the candidates of `Scores`, the baseline included, which compares to itself as 0.

    Attributes:
        replications: int64, those that count: where scores are paired, only those that the baseline has too.
        score: mean score; NaN without replications.
        gain: the improvement as a fraction, or where the baseline's mean is 0, as a difference: larger is better, for
            ranking; NaN without replications.
        improvement: percent of the absolute mean of the baseline; NaN without replications or where that mean is 0.
        lower: lower end of the improvement's interval; minus infinity where there is no interval.
        upper: upper end; plus infinity where there is no interval.
    """

    replications: NDArray[np.int64]
    score: Floats
    gain: Floats
    improvement: Floats
    lower: Floats
    upper: Floats


@frozen(eq=False)
class _Moments:
    """Per candidate: both means, the variance of the mean residual, its covariance with the baseline's, and t."""

    mean: Floats
    baseline_mean: Floats
    residual: Floats
    covariance: Floats
    baseline_variance: Floats
    t: Floats


def compare(scores: Scores, rules: Rules) -> Comparison:
    """Compare every candidate to the baseline."""
    return intervals(scores, (1 - rules.confidence) / (2 * max(1, len(scores.values) - 1) * len(rules.stages)))


def intervals(scores: Scores, tail: float) -> Comparison:
    """Compare every candidate to the baseline; `tail` is the error probability of one end of one interval."""
    counts = scores.replications
    if scores.paired:
        counts = np.minimum(counts, counts[scores.baseline])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        moments = (_paired if scores.paired else _unpaired)(scores, counts, tail)
        return _improvements(scores, counts, moments)


def _improvements(scores: Scores, counts: NDArray[np.int64], moments: _Moments) -> Comparison:
    base, t = moments.baseline_mean, moments.t
    difference = base - moments.mean if scores.minimised else moments.mean - base
    gain = difference / np.where(base == 0, 1.0, np.abs(base))
    improvement = np.where(base == 0, np.nan, 100 * gain)
    # Fieller's quadratic in the deviation of the ratio from its estimate: written in residuals, so that two candidates
    # without noise have an interval of exactly no width.
    lead = base**2 - t**2 * moments.baseline_variance
    middle = -(t**2) * moments.covariance
    root = t * np.sqrt(t**2 * moments.covariance**2 + lead * moments.residual)
    ends = 100 * np.stack((middle - root, middle + root)) / lead * np.sign(base) * (-1 if scores.minimised else 1)
    bounded = (counts > 1) & (lead > 0) & np.isfinite(ends).all(axis=0)
    lower = np.where(bounded, improvement + ends.min(axis=0), -np.inf)
    upper = np.where(bounded, improvement + ends.max(axis=0), np.inf)
    own = np.arange(len(counts)) == scores.baseline
    if counts[scores.baseline]:
        gain[own] = 0.0
        improvement[own] = lower[own] = upper[own] = 0.0
    return Comparison(
        replications=counts, score=moments.mean, gain=gain, improvement=improvement, lower=lower, upper=upper
    )


def _paired(scores: Scores, counts: NDArray[np.int64], tail: float) -> _Moments:
    """Moments over the replications that a candidate and the baseline both have."""
    used = np.arange(scores.values.shape[1]) < counts[:, None]
    values = np.where(used, scores.values, 0.0)
    baseline = np.where(used, scores.values[scores.baseline], 0.0)
    mean, baseline_mean = values.sum(axis=1) / counts, baseline.sum(axis=1) / counts
    pairs = counts * (counts - 1.0)
    residual = np.where(used, values - (mean / baseline_mean)[:, None] * baseline, 0.0)
    deviation = np.where(used, baseline - baseline_mean[:, None], 0.0)
    quantiles = {n: t_quantile(tail, n - 1) if n > 1 else np.nan for n in dict.fromkeys(counts.tolist())}
    return _Moments(
        mean=mean,
        baseline_mean=baseline_mean,
        residual=(residual**2).sum(axis=1) / pairs,
        covariance=(residual * deviation).sum(axis=1) / pairs,
        baseline_variance=(deviation**2).sum(axis=1) / pairs,
        t=np.array([quantiles[n] for n in counts.tolist()]),
    )


def _unpaired(scores: Scores, counts: NDArray[np.int64], tail: float) -> _Moments:
    """Moments of two independent samples, each with all replications it has."""
    used = np.arange(scores.values.shape[1]) < counts[:, None]
    values = np.where(used, scores.values, 0.0)
    mean = values.sum(axis=1) / counts
    variance = (np.where(used, values - mean[:, None], 0.0) ** 2).sum(axis=1) / (counts * (counts - 1.0))
    n, own_mean, own_variance = counts[scores.baseline], mean[scores.baseline], variance[scores.baseline]
    ratio = mean / own_mean
    shared = ratio**2 * own_variance
    freedom = (variance + shared) ** 2 / (variance**2 / (counts - 1) + shared**2 / (n - 1))
    freedom = np.where(np.isfinite(freedom), freedom, counts + n - 2)
    return _Moments(
        mean=mean,
        baseline_mean=np.full_like(mean, own_mean),
        residual=variance + shared,
        covariance=-ratio * own_variance,
        baseline_variance=np.full_like(mean, own_variance),
        t=np.array([t_quantile(tail, max(1, int(degrees + _ROUNDING))) for degrees in freedom.tolist()]),
    )
