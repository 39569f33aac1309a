"""The operator in a simulated cluster: what its scenarios come to, with crashes at every write and with faults."""

import functools
from collections import Counter

import pytest

from dgdr_retune.testing import SCENARIOS, Fault, Scenario, simulate, undisturbed
from dgdr_retune.testing._simulate import Tally, tally

SEEDS = 500
SHARDS = 10
AT_LEAST = 50
RARE = {"delete dynamographdeploymentruns"}  # of the history alone; the test above crashes after each
BY_NAME = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


@BY_NAME
def test_a_scenario_comes_to_what_it_says(scenario: Scenario) -> None:
    outcome = undisturbed(scenario)
    assert not outcome.problems, str(outcome)


@BY_NAME
def test_a_crash_after_any_write_changes_nothing_in_the_end(scenario: Scenario) -> None:
    wanted = undisturbed(scenario)
    for number in range(1, wanted.writes.total() + 1):
        outcome = simulate(scenario, 0, dies_after=number, wanted=wanted.state)
        assert not outcome.problems, f"after write {number}: {outcome}"
        assert outcome.crashes.total() == 1


@functools.cache
def shard_of_seeds(number: int) -> Tally:
    size = SEEDS // SHARDS
    return tally(range(number * size, (number + 1) * size))


@pytest.mark.parametrize("number", range(SHARDS))
def test_faults_break_no_invariant_and_change_nothing_in_the_end(number: int) -> None:
    failures = shard_of_seeds(number).failures
    assert not failures, "\n\n".join(map(str, failures[:3]))


@pytest.mark.timeout(1800)  # seconds: alone, it plays all seeds
def test_every_kind_of_fault_happened_and_a_crash_after_every_kind_of_write() -> None:
    fired: Counter[Fault] = Counter()
    crashes: Counter[str] = Counter()
    writes: Counter[str] = Counter()
    for total in map(shard_of_seeds, range(SHARDS)):
        fired.update(total.fired)
        crashes.update(total.crashes)
        writes.update(total.writes)
    assert {fault: fired[fault] for fault in Fault if fired[fault] < AT_LEAST} == {}
    assert {"create jobs", "delete jobs", "patch persistentvolumeclaims"} <= writes.keys()
    assert set(writes) - set(crashes) <= RARE
