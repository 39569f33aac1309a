"""The contract table asks about everything that the CRDs state, from both sides."""

from collections import Counter

import pytest
from tests.contract.constraints import constraints
from tests.contract.row import Row
from tests.contract.table import ROWS

from dgdr_retune.api import KINDS, Kind, custom_resource_definition


def rows_on(kind: Kind, constraint: str) -> list[Row]:
    """The rows that ask a server about a statement; a row may name a rule by the start of its message."""
    return [
        row
        for row in ROWS
        if row.kind == kind
        and not (row.validate_alone or row.overlooked)
        and ":" in row.constraint[1:]
        and constraint.startswith(row.constraint)
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
def test_every_statement_of_a_crd_has_rows_on_both_sides(kind: Kind) -> None:
    one_sided = {
        constraint
        for constraint in constraints(custom_resource_definition(kind))
        if not constraint.endswith(":default") and len({not row.refused for row in rows_on(kind, constraint)}) < 2
    }
    assert one_sided == set()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
def test_every_default_of_a_crd_is_seen_in_what_a_server_stores(kind: Kind) -> None:
    unseen = {
        constraint
        for constraint in constraints(custom_resource_definition(kind))
        if constraint.endswith(":default") and not any(row.stored for row in rows_on(kind, constraint))
    }
    assert unseen == set()


def test_every_row_has_an_id_of_its_own() -> None:
    assert [row_id for row_id, times in Counter(row.id for row in ROWS).items() if times > 1] == []


def test_every_structural_rule_of_a_request_has_a_carrier_row_on_both_sides() -> None:
    carried = {(row.constraint, bool(row.refused)) for row in ROWS if row.id.startswith("carrier ")}
    native = {
        (row.constraint, bool(row.refused))
        for row in ROWS
        if row.kind.short == "dgdr"
        and row.constraint.startswith(("spec.", "status."))
        and "v1beta1" not in row.constraint
    }
    assert native - carried == set()
