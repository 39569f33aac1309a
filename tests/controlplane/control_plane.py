"""A real control plane on 127.0.0.1: etcd and kube-apiserver, with ports, certificates and a directory of their own."""

import json
import os
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from attrs import frozen
from tests.controlplane.certificates import Certificates
from tests.controlplane.processes import Process, free_ports

READY_WITHIN_S = 90.0
LOOK_EVERY_S = 0.05
ATTEMPTS = 3  # a port that was free may be taken before its program listens


class ControlPlaneError(Exception):
    """The control plane did not come up; the message holds the end of the log that says why."""


@frozen
class ControlPlane:
    """What a client needs to talk to it as an administrator.

    Attributes:
        url: of kube-apiserver.
        certificates: its authority, and the administrator's pair.
        kubeconfig: for programs that read one.
        kubectl_path: the kubectl that goes with this server.
        directory: where its data and logs are.
        processes: what runs, in the order it was started.
    """

    url: str
    certificates: Certificates
    kubeconfig: Path
    kubectl_path: Path
    directory: Path
    processes: tuple[Process, ...]

    def client(self) -> httpx.Client:
        """An HTTP client with the administrator's certificate and the server's address as its base."""
        context = ssl.create_default_context(cafile=self.certificates.authority)
        context.load_cert_chain(self.certificates.administrator, self.certificates.administrator_key)
        return httpx.Client(base_url=self.url, verify=context, timeout=30, trust_env=False)

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl against this server; its exit status is the caller's to judge."""
        environment = {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.directory / "kubectl-cache"),
            "HOME": str(self.directory),
            "PATH": os.environ.get("PATH", ""),
        }
        return subprocess.run(
            [str(self.kubectl_path), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )


def _start(programs: Path, directory: Path, certificates: Certificates) -> tuple[str, tuple[Process, ...]]:
    client_port, peer_port, secure_port = free_ports(3)
    store = f"http://127.0.0.1:{client_port}"
    peer = f"http://127.0.0.1:{peer_port}"
    etcd = Process(
        [
            str(programs / "etcd"),
            f"--data-dir={directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ],
        log=directory / "etcd.log",
    )
    apiserver = Process(
        [
            str(programs / "kube-apiserver"),
            f"--etcd-servers={store}",
            "--bind-address=127.0.0.1",
            f"--secure-port={secure_port}",
            "--advertise-address=198.51.100.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={certificates.server}",
            f"--tls-private-key-file={certificates.server_key}",
            f"--client-ca-file={certificates.authority}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            f"--service-account-key-file={certificates.service_accounts}",
            f"--service-account-signing-key-file={certificates.service_accounts}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=203.0.113.0/24",
            "--kubelet-preferred-address-types=Hostname",
        ],
        log=directory / "kube-apiserver.log",
    )
    return f"https://127.0.0.1:{secure_port}", (etcd, apiserver)


def _write_kubeconfig(path: Path, url: str, certificates: Certificates) -> None:
    name = "test"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": url, "certificate-authority": str(certificates.authority)}},
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate": str(certificates.administrator),
                    "client-key": str(certificates.administrator_key),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    path.write_text(json.dumps(document))  # JSON is YAML
    path.chmod(0o600)


def _wait_until_ready(plane: ControlPlane) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    with plane.client() as client:
        while True:
            try:
                answer = client.get("/readyz")
                if answer.status_code == httpx.codes.OK:
                    return
                if answer.status_code == httpx.codes.UNAUTHORIZED:
                    raise ControlPlaneError(
                        f"it refuses its administrator's certificate:\n{plane.processes[-1].tail()}"
                    )
            except httpx.TransportError:
                pass  # it does not listen yet
            for process in plane.processes:
                if process.ended():
                    raise ControlPlaneError(f"{process.name} ended before it was ready:\n{process.tail()}")
            if time.monotonic() > deadline:
                tails = "\n".join(f"{process.name}:\n{process.tail()}" for process in plane.processes)
                raise ControlPlaneError(f"not ready within {READY_WITHIN_S:.0f} s\n{tails}")
            time.sleep(LOOK_EVERY_S)


@contextmanager
def running(programs: Path, directory: Path) -> Iterator[ControlPlane]:
    """A control plane that is ready, ended on leaving.

    Args:
        programs: where etcd, kube-apiserver and kubectl are.
        directory: an existing directory for its data, certificates and logs.

    Raises:
        ControlPlaneError: it did not become ready.
    """
    for attempt in range(1, ATTEMPTS + 1):
        home = directory / f"attempt-{attempt}"
        certificates = Certificates(home / "certificates")
        url, processes = _start(programs, home, certificates)
        kubeconfig = home / "kubeconfig"
        _write_kubeconfig(kubeconfig, url, certificates)
        plane = ControlPlane(url, certificates, kubeconfig, programs / "kubectl", home, processes)
        try:
            try:
                _wait_until_ready(plane)
            except ControlPlaneError as error:
                if attempt == ATTEMPTS or "address already in use" not in str(error):
                    raise
                continue
            yield plane
            return
        finally:
            for process in reversed(processes):
                process.end()
