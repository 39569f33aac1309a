"""A real Kubernetes of one node that runs pods, on this machine and apart from it."""

import json
import os
import select
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
from attrs import frozen
from tests.cluster.programs import DATA, PAUSE_IMAGE, programs, write_kubeconfig
from tests.controlplane.certificates import Certificates
from tools.cluster.image import write_program_image

KEEPER = Path(__file__).with_name("keeper.py")
READY_WITHIN_S = 120.0
END_WITHIN_S = 60.0
LOOK_EVERY_S = 0.05


class ClusterError(Exception):
    """The cluster did not come up, or a program that it needs is missing; the message says what to do."""


@frozen
class Cluster:
    """What a client needs to use it as an administrator.

    Attributes:
        url: of kube-apiserver, from this machine.
        certificates: its authority, and the administrator's pair.
        kubeconfig: for programs that read one.
        programs: where kubectl and ctr are.
        directory: what it writes; the logs are below ``logs`` and stay.
        first_process: the process whose namespaces it lives in.
    """

    url: str
    certificates: Certificates
    kubeconfig: Path
    programs: Path
    directory: Path
    first_process: int

    def client(self) -> httpx.Client:
        """An HTTP client with the administrator's certificate and the server's address as its base."""
        context = ssl.create_default_context(cafile=self.certificates.authority)
        context.load_cert_chain(self.certificates.administrator, self.certificates.administrator_key)
        return httpx.Client(base_url=self.url, verify=context, timeout=30, trust_env=False)

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; its exit status is the caller's to judge."""
        environment = {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
            "HOME": str(self.directory),
            "PATH": os.environ.get("PATH", ""),
        }
        return subprocess.run(
            [str(self.programs / "kubectl"), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )

    def inside(self, *command: str) -> str:
        """Run a command on the node, in its network and with its mounts; what it printed.

        Raises:
            ClusterError: it failed; the message holds what it said.
        """
        enter = ("nsenter", f"--target={self.first_process}", "--net", "--mount", "--pid", "--ipc", "--")
        done = subprocess.run([*enter, *command], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise ClusterError(f"`{' '.join(command)}` on the node: {done.stdout}{done.stderr}")
        return done.stdout

    def ctr(self, *arguments: str) -> str:
        """Run containerd's client on the images and containers that kubelet sees; what it printed."""
        socket = f"--address={DATA / 'containerd.sock'}"
        return self.inside(str(self.programs / "ctr"), socket, "--namespace=k8s.io", *arguments)

    def import_image(self, archive: Path) -> None:
        """Make an image in an archive of OCI layout known to the node."""
        self.ctr("images", "import", "--local", str(archive))


def logs(directory: Path, lines: int = 15) -> str:
    """The end of every program's log."""
    parts = []
    for path in sorted((directory / "logs").glob("*.log")):
        tail = "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
        parts.append(f"--- {path.name}\n{tail}")
    return "\n".join(parts)


def _wait(what: str, keeper: subprocess.Popen[str], directory: Path, deadline: float) -> None:
    if keeper.poll() is not None:
        raise ClusterError(f"the cluster ended while waiting for {what}\n{logs(directory)}")
    if time.monotonic() > deadline:
        raise ClusterError(f"no {what} within {READY_WITHIN_S:.0f} s\n{logs(directory)}")
    time.sleep(LOOK_EVERY_S)


def _wait_until_ready(cluster: Cluster, keeper: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    with cluster.client() as client:

        def answers(path: str) -> httpx.Response | None:
            try:
                return client.get(path)
            except httpx.TransportError:
                return None  # nobody listens yet

        while (answer := answers("/readyz")) is None or answer.status_code != httpx.codes.OK:
            _wait("API server", keeper, cluster.directory, deadline)
        while not _containerd_serves(cluster):
            _wait("containerd", keeper, cluster.directory, deadline)
        pause = cluster.directory / "pause.tar"
        write_program_image(pause, PAUSE_IMAGE, cluster.programs / "pause")
        cluster.import_image(pause)
        while not _node_is_ready(answers("/api/v1/nodes/localhost")):
            _wait("Ready node", keeper, cluster.directory, deadline)
        while (account := answers("/api/v1/namespaces/default/serviceaccounts/default")) is None or account.is_error:
            _wait("service account in the default namespace", keeper, cluster.directory, deadline)


def _containerd_serves(cluster: Cluster) -> bool:
    try:
        cluster.ctr("version")
    except ClusterError:
        return False
    return True


def _node_is_ready(answer: httpx.Response | None) -> bool:
    if answer is None or answer.is_error:
        return False
    conditions: list[dict[str, Any]] = answer.json()["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@contextmanager
def running(found: Path, directory: Path) -> Iterator[Cluster]:
    """A cluster with a Ready node, ended on leaving, and also when this process is killed.

    Args:
        found: where the programs are.
        directory: an existing directory for what it writes; on leaving only ``logs`` is left in it.

    Raises:
        ClusterError: it did not become ready.
    """
    (directory / "logs").mkdir()
    certificates = Certificates(directory / "certificates")
    control_group = f"dgdr-retune-{os.getpid()}-{directory.name}"
    started = [attrs.asdict(program) for program in programs(found, directory, certificates, control_group)]
    plan = directory / "plan.json"
    plan.write_text(
        json.dumps(
            {
                "directory": str(directory),
                "control_group": control_group,
                "programs": started,
            }
        )
    )
    with (directory / "logs" / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-I", str(KEEPER), str(plan)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    try:
        if not select.select([keeper.stdout], [], [], READY_WITHIN_S)[0] or not (line := keeper.stdout.readline()):
            raise ClusterError(f"there are no namespaces for it\n{logs(directory)}")
        where = json.loads(line)
        url = f"https://127.0.0.1:{where['port']}"
        kubeconfig = directory / "kubeconfig"
        write_kubeconfig(kubeconfig, url, certificates)
        cluster = Cluster(url, certificates, kubeconfig, found, directory, where["first_process"])
        _wait_until_ready(cluster, keeper)
        yield cluster
    finally:
        keeper.stdin.close()  # which is how it hears of our death, too
        keeper.stdout.close()
        keeper.wait(END_WITHIN_S)
