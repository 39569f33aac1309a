"""The contract table: what an API server with our CRDs accepts and refuses, and with which message."""

from tests.contract import candidate_rows, ratchet_rows, spec_rows, status_rows, update_rows
from tests.contract.row import Row

ROWS: tuple[Row, ...] = tuple(
    row for part in (spec_rows, update_rows, candidate_rows, status_rows, ratchet_rows) for row in part.rows()
)
