"""Which candidates are replayed next, and how often: a function of the scores so far and of what is affordable.

Sequential halving (Z. Karnin, T. Koren, O. Somekh, "Almost optimal exploration in multi-armed bandits", 2013): every
candidate gets the initial replications; then the better half gets twice as many, and so on up to the maximum, but the
last few are not halved further: a small grid is cheap. A candidate also leaves when its interval has no room for the
margin, or when it is behind the leader by more than the noise between the two. Who leaves affects what is known of
him, never whether an interval holds: see `_comparison`.
"""

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.sweep._comparison import Comparison, Scores
from dgdr_retune.sweep._rules import Rules
from dgdr_retune.sweep._student import t_quantile

BEHIND_TAIL = 0.01
"""Error probability of dropping a contender that is in truth level with the leader."""

SPARED = 8
"""As many contenders are never dropped for being in the worse half alone."""


@frozen
class Batch:
    """The next replays: replications `start` to `stop` - 1 of the baseline and of each contender.

    Attributes:
        contenders: positions of candidates in ascending order, the baseline not among them.
        start: replications that they have.
        stop: replications that they shall have.
        curtailed: whether contenders were left out because the budget does not reach for them.
    """

    contenders: tuple[int, ...]
    start: int
    stop: int
    curtailed: bool = False


def next_batch(scores: Scores, comparison: Comparison, rules: Rules, affordable: float) -> Batch | None:
    """The next batch, or None when more replays would not change the decision.

    Args:
        scores: what has been replayed; all of an earlier batch.
        comparison: of these scores.
        rules: fixed in advance.
        affordable: replays that the budget still reaches for; infinite before the first, whose cost is not known.
    """
    done = int(scores.replications[scores.baseline])
    if not done:
        first = np.delete(np.arange(len(scores.values)), scores.baseline)
        return Batch(contenders=tuple(first.tolist()), start=0, stop=1)
    if done >= rules.maximum_replications:
        return None
    standing = np.flatnonzero(scores.replications == done)
    standing = standing[standing != scores.baseline]
    contenders = _contenders(standing, scores, comparison, rules) if done >= rules.initial_replications else standing
    if not len(contenders) or _settled(contenders, comparison, rules):
        return None
    kept = _affordable(len(contenders), done, rules, affordable)
    best = sorted(contenders.tolist(), key=lambda candidate: (-comparison.gain[candidate], candidate))[:kept]
    return Batch(
        contenders=tuple(sorted(best)),
        start=done,
        stop=_stage_end(done, rules),
        curtailed=kept < len(contenders),
    )


def planned_replays(contenders: int, done: int, rules: Rules) -> int:
    """Replays from here to the end if nobody leaves but the worse half of each stage."""
    replays = 0
    while contenders and done < rules.maximum_replications:
        stop = _stage_end(done, rules)
        replays += (contenders + 1) * (stop - done)
        done = stop
        if done >= rules.initial_replications:
            contenders = _better_part(contenders)
    return replays


def proven(comparison: Comparison, rules: Rules) -> NDArray[np.bool_]:
    """bool[candidates]: better than the baseline by more than the margin, at the lower end, on enough replications."""
    enough = comparison.replications >= rules.proof_replications
    return enough & (comparison.lower > rules.min_improvement_percentage)


def _stage_end(done: int, rules: Rules) -> int:
    """One replication first, which shows what a replay costs; then the stages."""
    return next(stop for stop in (1, *rules.stages) if stop > done)


def _contenders(standing: NDArray[np.intp], scores: Scores, comparison: Comparison, rules: Rules) -> NDArray[np.intp]:
    """The better half of those still standing, less those who cannot win."""
    if not len(standing):
        return standing
    order = np.lexsort((standing, -comparison.gain[standing]))
    better = standing[order][: _better_part(len(standing))]
    open_ended = comparison.upper[better] > rules.min_improvement_percentage
    return better[open_ended & ~_behind(better, scores)]


def _better_part(contenders: int) -> int:
    return min(contenders, max(SPARED, (contenders + 1) // 2))


def _behind(ranked: NDArray[np.intp], scores: Scores) -> NDArray[np.bool_]:
    """Who is behind the first of the ranked by more than the noise between the two."""
    values = scores.values[ranked][:, : scores.replications[ranked[0]]]
    n = values.shape[1]
    if n == 1:
        return np.zeros(len(ranked), dtype=bool)
    lag = (values - values[0]) * (1 if scores.minimised else -1)
    if scores.paired:
        variance = lag.var(axis=1, ddof=1) / n
        degrees = n - 1
    else:
        own = values.var(axis=1, ddof=1) / n
        variance, degrees = own + own[0], 2 * (n - 1)
    behind: NDArray[np.bool_] = lag.mean(axis=1) > t_quantile(BEHIND_TAIL, degrees) * np.sqrt(variance)
    return behind


def _settled(contenders: NDArray[np.intp], comparison: Comparison, rules: Rules) -> bool:
    """Whether the one contender left has proven itself already."""
    return len(contenders) == 1 and bool(proven(comparison, rules)[contenders[0]])


def _affordable(contenders: int, done: int, rules: Rules, affordable: float) -> int:
    """How many contenders the budget takes to the end: one at least, who goes on as far as it reaches."""
    while contenders > 1 and planned_replays(contenders, done, rules) > affordable:
        contenders -= 1
    return contenders
