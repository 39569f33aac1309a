"""The best candidate and the parameters in force, replayed for their latencies and judged by them."""

import asyncio
from math import isfinite

import numpy as np
import pytest
from attrs import evolve, field, frozen
from sweep_cases import BASELINE, GRID, steady, swept
from test_run import VirtualLoop
from test_traffic import latencies, window

from dgdr_retune.replay import RequestTimes, RouterParameters, Trace
from dgdr_retune.sweep import Objective, OverTime, Sweep, judge_over_time

BEST = GRID.points[1]
PROVEN = swept(steady(100), steady(50))
GENEROUS = evolve(PROVEN, budget_s=1000.0)


@frozen
class Timed:
    """Each replay takes so many seconds; the best candidate's latencies are half of those in force, with noise."""

    replay_s: float = 0.0
    failing: frozenset[tuple[RouterParameters, int]] = frozenset()
    trace: Trace = field(factory=window)
    asked: list[tuple[RouterParameters, int]] = field(factory=list)

    async def request_times(self, router: RouterParameters, replication: int) -> RequestTimes | None:
        await asyncio.sleep(self.replay_s)
        self.asked.append((router, replication))
        if (router, replication) in self.failing:
            return None
        rng = np.random.default_rng([replication, router == BEST])
        return latencies((50 if router == BEST else 100) * rng.lognormal(0, 0.3, len(self.trace)))


def judged(executor: Timed, sweep: Sweep = PROVEN) -> OverTime:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(judge_over_time(executor, sweep))


def test_both_are_judged_by_eight_replications_and_shown_by_the_first() -> None:
    executor = Timed()
    over_time = judged(executor)
    assert executor.asked == [(router, each) for each in range(8) for router in (BASELINE, BEST)]
    assert over_time.baseline is not None
    assert over_time.best is not None
    assert over_time.baseline.ttft_ms.mean() == pytest.approx(100 * np.exp(0.045), rel=0.05)
    assert over_time.best.ttft_ms.mean() == pytest.approx(50 * np.exp(0.045), rel=0.05)
    assert over_time.traffic is not None
    assert over_time.traffic.router == BEST
    assert over_time.traffic.interval is not None
    assert 48 < over_time.traffic.interval.lower < 50 < over_time.traffic.interval.upper < 52


@pytest.mark.parametrize(("replay_s", "replications"), [(3.75, 8), (7.0, 5), (29.0, 2), (31.0, 1), (499.0, 1)])
def test_where_replays_are_slow_the_interval_rests_on_what_both_have_and_on_one_at_least(
    replay_s: float, replications: int
) -> None:
    executor = Timed(replay_s)
    traffic = judged(executor, GENEROUS).traffic
    assert executor.asked.count((BEST, replications - 1)) == 1
    assert (BEST, replications) not in executor.asked
    assert traffic is not None
    assert traffic.interval is not None
    assert traffic == judged(Timed(failing=frozenset({(BEST, replications)}))).traffic


def test_replays_that_take_longer_than_the_sweep_was_given_are_not_waited_for() -> None:
    over_time = judged(Timed(501.0), GENEROUS)
    assert (over_time.baseline, over_time.best) == (None, None)
    assert over_time.traffic is not None
    assert over_time.traffic.interval is None


def test_of_a_replay_that_fails_nothing_is_shown_and_without_one_of_each_nothing_is_judged() -> None:
    over_time = judged(Timed(failing=frozenset({(BASELINE, 0)})))
    assert over_time.baseline is None
    assert over_time.best is not None
    assert over_time.traffic is not None
    assert (over_time.traffic.interval, over_time.traffic.blocks) == (None, 0)


def test_where_latencies_judge_nothing_one_replay_of_each_is_made_to_show() -> None:
    executor = Timed()
    throughput = judged(executor, evolve(PROVEN, objective=Objective.THROUGHPUT))
    assert executor.asked == [(BASELINE, 0), (BEST, 0)]
    assert throughput.traffic is None
    assert throughput.best is not None
    assert isfinite(throughput.best.ttft_ms.mean())


def test_without_a_candidate_only_the_parameters_in_force_are_replayed() -> None:
    executor = Timed()
    over_time = judged(executor, swept(steady(100)))
    assert executor.asked == [(BASELINE, 0)]
    assert over_time.baseline is not None
    assert (over_time.best, over_time.traffic) == (None, None)
