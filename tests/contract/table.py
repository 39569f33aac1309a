"""The contract table: what an API server with our CRDs accepts and refuses, and with which message."""

from tests.contract import candidate_rows, carrier_rows, ratchet_rows, spec_rows, status_rows, update_rows, whole_rows
from tests.contract.row import Row

_NATIVE = tuple(
    row
    for part in (whole_rows, spec_rows, update_rows, candidate_rows, status_rows, ratchet_rows)
    for row in part.rows()
)

ROWS: tuple[Row, ...] = (*_NATIVE, *carrier_rows.rows(_NATIVE))
