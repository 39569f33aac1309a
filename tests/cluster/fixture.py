"""The fixtures ``cluster`` and ``namespace``: one real cluster for a test session, a namespace for a test."""

import os
import shutil
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
from tests.controlplane.fixture import get_programs
from tools.cluster.image import write_project_image

DEBIAN = {  # a file of each package that the node takes from Debian
    "runc": ("runc",),
    "mmdebstrap": ("mmdebstrap",),
    "iproute2": ("ip",),
    "containernetworking-plugins": ("/usr/lib/cni/ptp", "/usr/lib/cni/host-local", "/usr/lib/cni/loopback"),
}


def why_no_node() -> str:
    """What this machine lacks for a node that runs pods; nothing where it can have one."""
    if sys.platform != "linux":
        return "a node that runs pods needs Linux"
    if os.geteuid() != 0:
        return "a node that runs pods needs root"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name, files in DEBIAN.items() if not all(shutil.which(file, path=path) for file in files)]
    return f"a node that runs pods needs what `apt-get install {' '.join(missing)}` installs" if missing else ""


@pytest.fixture(scope="session")
def node_programs(pytestconfig: pytest.Config) -> Path:
    """The directory with every program of a cluster; a first build shows its progress."""
    if why := why_no_node():
        pytest.skip(why)
    found = get_programs(pytestconfig, "--node")
    if found is None:
        pytest.fail("there is no cluster: `python tools/controlplane/get.py --node` says why", pytrace=False)
    return found


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
