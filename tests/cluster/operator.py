"""The operator as a process on this machine, with the rights of its service account and nothing more."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
from attrs import define, field
from tests.cluster.installation import OPERATOR, OPERATOR_NAMESPACE
from tests.cluster.namespace import Namespace
from tests.cluster.programs import write_kubeconfig
from tests.controlplane.processes import Process
from tools.cluster.image import NAME as IMAGE

Json = Any

END_WITHIN_S = 10.0
HELD = "hold"

LATE = "late"

# A Request for the model HELD gets a sweeper that waits until it is told to end, one for LATE the real sweeper after a
# while, any other one the real sweeper at once.
SWEEPER = f"""
import json, os, runpy, signal, sys, time
model = json.loads(os.environ["DGDR_RETUNE_INPUT"])["engine"]["model"]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
if model == "{HELD}":
    signal.pause()
if model == "{LATE}":
    time.sleep(3)
runpy.run_module("dgdr_retune.sweeper", run_name="__main__", alter_sys=True)
"""
SETTINGS = {
    "sweeper_image": IMAGE,
    "publisher_image": IMAGE,
    "runtime_image": "registry.invalid/vllm-runtime:1.6.1",
    "sweeper_command": json.dumps(["python", "-c", SWEEPER, "--snapshot-dir", "/var/run/dgdr-run"]),
    "sweeper_cpu_request": "10m",
    "sweeper_memory_request": "64Mi",
    "publisher_cpu_request": "10m",
    "publisher_memory_request": "64Mi",
    "snapshot_interval_seconds": "0.5",
    "http_port": "off",
    "lease_duration_seconds": "3",
    "renew_deadline_seconds": "2",
    "retry_period_seconds": "0.3",
}


@define
class Operator:
    """An operator for one namespace.

    Attributes:
        namespace: whose Requests it serves.
        kubeconfig: with a token of that account.
        log: what it says.
        process: while it runs.
    """

    namespace: Namespace
    kubeconfig: Path
    log: Path
    process: Process | None = field(default=None)

    @classmethod
    def prepared(cls, namespace: Namespace) -> "Operator":
        """An operator that does not run yet."""
        address = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/serviceaccounts/{OPERATOR}/token"
        answer = namespace.client.post(address, json={"spec": {"expirationSeconds": 3600}}).raise_for_status()
        cluster = namespace.cluster
        kubeconfig = namespace.volumes / "operator.kubeconfig"
        user = {"token": answer.json()["status"]["token"]}
        write_kubeconfig(kubeconfig, cluster.url, cluster.certificates, user)
        return cls(namespace, kubeconfig, cluster.directory / "logs" / f"operator-{namespace.name}.log")

    def start(self, **settings: str) -> None:
        """Start it and wait until it leads."""
        assert self.process is None
        chosen = {
            **SETTINGS,
            "operator_namespace": OPERATOR_NAMESPACE,
            "namespace": self.namespace.name,
            **settings,
        }
        flags = [word for name, value in chosen.items() for word in (f"--{name.replace('_', '-')}", value)]
        environment = (f"KUBECONFIG={self.kubeconfig}", "PYTHONUNBUFFERED=1")
        command = ["/usr/bin/env", *environment, sys.executable, "-m", "dgdr_retune.operator", *flags]
        before = self.leader()
        self.process = Process(command, log=self.log)
        self.namespace.wait("operator that leads", lambda: self._leads(before), within_s=30)

    def _leads(self, before: str) -> bool:
        assert self.process is not None
        assert not self.process.ended(), self.process.tail(40)
        return self.leader() not in ("", before)

    def leader(self) -> str:
        """Who holds the Lease, or nobody."""
        address = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR_NAMESPACE}/leases/{OPERATOR}"
        answer = self.namespace.client.get(address)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return ""
        return str(answer.raise_for_status().json()["spec"].get("holderIdentity") or "")

    def kill(self) -> None:
        """End it as a lost machine would: it does not learn of it."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.end()
        self.process = None

    def stop(self) -> None:
        """Ask it to end, which it does by itself and in time."""
        assert self.process is not None
        status = self.process.stop(END_WITHIN_S)
        assert status == 0, self.process.tail(40)
        self.process = None
