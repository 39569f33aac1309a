"""Generated objects: Python, the simulated and the real API server give one verdict on each."""

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.conftest import STORED_UPDATES
from tests.contract.generator import near_the_bounds, shown
from tests.contract.judges import Answer, PythonJudge, ServerJudge
from tests.contract.row import Row

from dgdr_retune.api import KINDS, Kind

EXAMPLES = 400
LEAST_SHARE = 0.3


def compare(row: Row, expected: Answer, answer: Answer) -> None:
    """The simulated server says what the real one says."""
    assert answer.accepted is expected.accepted, f"{shown(row.object)}\n{expected.message}\n{answer.message}"
    if "invalid data" not in expected.message + answer.message:  # which fault is met first is then left to chance
        assert answer.causes == expected.causes
    assert answer.object == expected.object


def test_all_judges_agree_on_objects_near_the_bounds(
    python: PythonJudge, simulated: ServerJudge, real: ServerJudge
) -> None:
    verdicts: Counter[bool] = Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(
        random=st.randoms(use_true_random=True),
        kind=st.sampled_from(KINDS),
        part=st.sampled_from(("spec", "spec", "spec", "status")),
    )
    def agree(random: Random, kind: Kind, part: str) -> None:
        thing = near_the_bounds(random, kind, part)
        row = Row(id="generated", kind=kind, operation="create", object=thing)
        expected, ours = real.ask(row), python.ask(row)
        compare(row, expected, simulated.ask(row))
        assert ours.accepted is expected.accepted, f"{shown(thing)}\n{expected.message}\n{ours.message}"
        verdicts[expected.accepted] += 1

    agree()
    assert verdicts.total() >= EXAMPLES
    assert min(verdicts[True], verdicts[False]) >= LEAST_SHARE * verdicts.total()


@pytest.mark.parametrize("row", STORED_UPDATES, ids=lambda row: row.id)
def test_the_servers_agree_on_updates_of_what_was_stored_before(
    row: Row, simulated: ServerJudge, real: ServerJudge
) -> None:
    compare(row, real.ask(row), simulated.ask(row))


def test_python_agrees_on_updates_of_what_was_stored_before(python: PythonJudge, real: ServerJudge) -> None:
    answers = {row.id: (real.ask(row), python.ask(row)) for row in STORED_UPDATES}
    differing = {
        row_id: (expected.message, answer.message)
        for row_id, (expected, answer) in answers.items()
        if answer.accepted is not expected.accepted
    }
    assert differing == {}
