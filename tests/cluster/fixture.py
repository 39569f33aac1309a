"""The fixtures ``cluster`` and ``namespace``: one real cluster for a test session, a namespace for a test."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.audit import FORBIDDEN, asked
from tests.cluster.cluster import Cluster, running
from tests.cluster.installation import Installation, install_rights
from tests.cluster.namespace import Namespace
from tests.cluster.observer import Observer
from tests.cluster.operator import Operator
from tools.cluster.image import write_project_image

GET = Path(__file__).parents[2] / "tools" / "controlplane" / "get.py"
DEBIAN = {  # a file of each package that the node takes from Debian
    "runc": ("runc",),
    "mmdebstrap": ("mmdebstrap",),
    "iproute2": ("ip",),
    "containernetworking-plugins": ("/usr/lib/cni/ptp", "/usr/lib/cni/host-local", "/usr/lib/cni/loopback"),
}


def _missing() -> list[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [name for name, files in DEBIAN.items() if not all(shutil.which(file, path=path) for file in files)]


@pytest.fixture(scope="session")
def node_programs(request: pytest.FixtureRequest) -> Path:
    """The directory with every program of a cluster; a first build shows its progress."""
    if sys.platform != "linux":
        pytest.skip("a node that runs pods needs Linux")
    if missing := _missing():
        pytest.skip(f"a node that runs pods needs {', '.join(missing)}: apt-get install {' '.join(missing)}")
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        got = subprocess.run([sys.executable, str(GET), "--node"], stdout=subprocess.PIPE, text=True, check=False)
    if got.returncode != 0:
        pytest.fail(f"there is no cluster: `python tools/controlplane/{GET.name} --node` says why", pytrace=False)
    return Path(got.stdout.strip())


@pytest.fixture(scope="session")
def cluster(node_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a Ready node that has the project's image; its logs stay as long as pytest's other files."""
    directory = tmp_path_factory.mktemp("cluster")
    archive = tmp_path_factory.mktemp("image") / "image.tar"
    write_project_image(archive)
    with running(node_programs, directory) as started:
        started.import_image(archive)
        archive.unlink()
        yield started


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace of this test's own that enforces the restricted pod security standard."""
    with Namespace.made(cluster, request.node.name, tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def installation(cluster: Cluster) -> Installation:
    """Our kinds, the operator's account and its rights, as they are shipped."""
    return install_rights(cluster)


@pytest.fixture(scope="session")
def observer(installation: Installation) -> Iterator[Observer]:
    """Who sees every write of claims, Pods, Jobs and Runs."""
    with Observer.watching(installation.cluster) as watching:
        yield watching


@pytest.fixture
def operator(namespace: Namespace, installation: Installation, observer: Observer) -> Iterator[Operator]:
    """An operator for the test's namespace, not started yet; no test may break an invariant or exceed its rights."""
    prepared = Operator.prepared(namespace)
    try:
        yield prepared
    finally:
        if prepared.process is not None and not prepared.process.ended():
            prepared.stop()
    assert observer.violations() == []
    assert [each for each in asked(namespace.cluster, installation.user) if each.status == FORBIDDEN] == []
