"""The judges, ready: the definitions are in force and what the rows update is stored."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from attrs import evolve
from tests.contract.generator import updates
from tests.contract.judges import PythonJudge, ServerJudge, definitions
from tests.contract.table import ROWS
from tests.controlplane.control_plane import ControlPlane, running

from dgdr_retune.testing import SimulatedApiServer, transport

SERVED = [evolve(row, refused="", field="") if row.overlooked else row for row in ROWS if not row.validate_alone]
STORED_UPDATES = updates(count=400, seed=20261001)


@pytest.fixture(scope="session")
def other_plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A second control plane, for tests that change what is installed."""
    with running(programs, tmp_path_factory.mktemp("other-control-plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def real(control_plane: ControlPlane) -> Iterator[ServerJudge]:
    """kube-apiserver."""
    with control_plane.client() as client:
        client.headers["Content-Type"] = "application/json"
        judge = ServerJudge(client)
        judge.prepare([*SERVED, *STORED_UPDATES], definitions())
        yield judge


@pytest.fixture(scope="session")
def simulated() -> Iterator[ServerJudge]:
    """The simulated API server."""
    with httpx.Client(base_url="http://simulated", transport=transport(SimulatedApiServer())) as client:
        client.headers["Content-Type"] = "application/json"
        judge = ServerJudge(client)
        judge.prepare([*SERVED, *STORED_UPDATES], definitions())
        yield judge


@pytest.fixture(scope="session")
def python() -> PythonJudge:
    """`validate()`."""
    return PythonJudge()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"contract table: {len(ROWS)} rows, {len(SERVED)} of them for API servers too")
