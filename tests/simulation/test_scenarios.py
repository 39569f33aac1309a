"""The operator in a simulated cluster: what its scenarios come to, with crashes at every write and with faults."""

import pytest

from dgdr_retune.testing import SCENARIOS, Fault, Scenario, simulate, undisturbed
from dgdr_retune.testing._simulate import tally

SEEDS = 500
SHARDS = 10
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


@pytest.fixture(scope="module")
def counted() -> dict[Fault, int]:
    return dict.fromkeys(Fault, 0)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_faults_break_no_invariant_and_change_nothing_in_the_end(shard: int, counted: dict[Fault, int]) -> None:
    size = SEEDS // SHARDS
    total = tally(range(shard * size, (shard + 1) * size))
    assert not total.failures, "\n\n".join(map(str, total.failures[:3]))
    for fault, count in total.fired.items():
        counted[fault] += count


def test_every_kind_of_fault_happened(counted: dict[Fault, int]) -> None:
    assert {fault: count for fault, count in counted.items() if count < 50} == {}
