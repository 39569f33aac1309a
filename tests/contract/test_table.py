"""Every row of the contract table, asked of every judge."""

import pytest
from tests.contract.conftest import SERVED
from tests.contract.judges import Answer, PythonJudge, ServerJudge
from tests.contract.row import Row
from tests.contract.table import ROWS

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
each_row_of_a_server = pytest.mark.parametrize("row", SERVED, ids=lambda row: row.id)


def check(answer: Answer, row: Row) -> None:
    assert answer.accepted is not bool(row.refused), answer.message
    assert row.refused in answer.message
    if row.field:
        assert row.field in answer.fields
    if answer.object is not None:
        for part, expected in row.stored.items():
            assert answer.object.get(part) == expected


@each_row
def test_python_judges_as_the_table_says(row: Row, python: PythonJudge) -> None:
    answer = python.ask(row)
    check(answer, row)
    assert row.warned in answer.message


@each_row_of_a_server
def test_the_simulated_server_judges_as_the_table_says(row: Row, simulated: ServerJudge) -> None:
    check(simulated.ask(row), row)


@each_row_of_a_server
def test_the_real_server_judges_as_the_table_says(row: Row, real: ServerJudge) -> None:
    check(real.ask(row), row)


@each_row_of_a_server
def test_the_simulated_server_says_what_the_real_one_says(row: Row, real: ServerJudge, simulated: ServerJudge) -> None:
    expected, answer = real.ask(row), simulated.ask(row)
    assert answer.causes == expected.causes
    assert answer.object == expected.object
    if not expected.causes:
        assert answer.message == expected.message
