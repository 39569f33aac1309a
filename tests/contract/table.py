"""The contract table: what an API server with our CRDs accepts and refuses, and with which message."""

from tests.contract import spec_rows, update_rows
from tests.contract.row import Row

ROWS: tuple[Row, ...] = (*spec_rows.rows(), *update_rows.rows())
