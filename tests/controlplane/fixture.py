"""The fixture ``control_plane``: one real control plane for a test session."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.controlplane.control_plane import ControlPlane, running

GET = Path(__file__).parents[2] / "tools" / "controlplane" / "get.py"


def get_programs(config: pytest.Config, *arguments: str) -> Path | None:
    """The directory with the programs that tools/controlplane/get.py gets; None, and said, where it gets none."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        got = subprocess.run([sys.executable, str(GET), *arguments], stdout=subprocess.PIPE, text=True, check=False)
    return Path(got.stdout.strip()) if got.returncode == 0 else None


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Path:
    """The directory with etcd, kube-apiserver and kubectl; a first build shows its progress."""
    found = get_programs(pytestconfig)
    if found is None:
        pytest.fail(f"there is no control plane: `python tools/controlplane/{GET.name}` says why", pytrace=False)
    return found


@pytest.fixture(scope="session")
def control_plane(
    programs: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver on 127.0.0.1; the logs of a session with a failure stay."""
    directory = tmp_path_factory.mktemp("control-plane")
    with running(programs, directory) as plane:
        yield plane
    if request.session.testsfailed:
        capture = request.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            sys.stderr.write(f"\nlogs of the control plane: {plane.directory}\n")
        return
    shutil.rmtree(directory)
