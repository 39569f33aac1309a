"""One test's namespace: objects in it, claims on directories of the machine, and waiting for what must come."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
from attrs import frozen
from tests.cluster.cluster import Cluster

Json = Any
T = TypeVar("T")

GROUPS = {
    "dynamographdeploymentrequests": "/apis/nvidia.com/v1beta2",
    "dynamographdeploymentruns": "/apis/nvidia.com/v1beta2",
    "dynamographdeploymentcandidates": "/apis/nvidia.com/v1beta2",
    "jobs": "/apis/batch/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
}
LOOK_EVERY_S = 0.1


@frozen
class Namespace:
    """A namespace and how a test uses it.

    Attributes:
        cluster: where it is.
        name: of the namespace.
        client: an administrator's HTTP client.
        volumes: a directory of the machine below which the claims' volumes are.
    """

    cluster: Cluster
    name: str
    client: httpx.Client
    volumes: Path

    @classmethod
    @contextmanager
    def made(cls, cluster: Cluster, purpose: str, volumes: Path) -> Iterator["Namespace"]:
        """A new namespace that enforces the restricted pod security standard; deleted on leaving, without waiting."""
        words = re.sub(r"[^a-z0-9]+", "-", purpose.lower())[:40].strip("-")
        name = f"{words}-{hashlib.sha256(purpose.encode()).hexdigest()[:6]}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        with cluster.client() as client:
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            client.post("/api/v1/namespaces", json=document).raise_for_status()
            made = cls(cluster, name, client, volumes)
            made.wait("its service account", lambda: made.get("serviceaccounts", "default"))
            try:
                yield made
            finally:
                client.delete(f"/api/v1/namespaces/{name}").raise_for_status()

    def path(self, plural: str, name: str = "", subresource: str = "") -> str:
        """The address of a kind or an object of this namespace."""
        parts = (GROUPS.get(plural, "/api/v1"), "namespaces", self.name, plural, name, subresource)
        return "/".join(part for part in parts if part)

    def get(self, plural: str, name: str) -> dict[str, Json] | None:
        """An object, or None."""
        answer = self.client.get(self.path(plural, name))
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        answer.raise_for_status()
        found: dict[str, Json] = answer.json()
        return found

    def every(self, plural: str, labels: str = "") -> list[dict[str, Json]]:
        """All objects of a kind, or those that a label selector chooses."""
        answer = self.client.get(self.path(plural), params={"labelSelector": labels})
        answer.raise_for_status()
        found: list[dict[str, Json]] = answer.json()["items"]
        return found

    def create(self, plural: str, document: dict[str, Json]) -> dict[str, Json]:
        """Create an object, strictly; as the server answers."""
        answer = self.client.post(self.path(plural), json=document, params={"fieldValidation": "Strict"})
        assert answer.is_success, answer.text
        created: dict[str, Json] = answer.json()
        return created

    def patch(self, plural: str, name: str, patch: dict[str, Json], subresource: str = "") -> dict[str, Json]:
        """Merge a patch into an object; as the server answers."""
        answer = self.client.patch(
            self.path(plural, name, subresource),
            content=json.dumps(patch),
            headers={"content-type": "application/merge-patch+json"},
        )
        assert answer.is_success, answer.text
        patched: dict[str, Json] = answer.json()
        return patched

    def delete(self, plural: str, name: str, propagation: str = "Background") -> None:
        """Delete an object, without waiting until it is gone."""
        self.client.delete(self.path(plural, name), params={"propagationPolicy": propagation}).raise_for_status()

    def wait(self, what: str, look: Callable[[], T | None], within_s: float = 60.0) -> T:
        """What ``look`` gives once it gives something true; a failure of the test when it takes too long."""
        deadline = time.monotonic() + within_s
        while True:
            if found := look():
                return found
            assert time.monotonic() < deadline, f"no {what} within {within_s:.0f} s in {self.name}\n{self.describe()}"
            time.sleep(LOOK_EVERY_S)

    def wait_gone(self, plural: str, name: str, within_s: float = 60.0) -> None:
        """Wait until there is no such object."""
        self.wait(f"end of {plural}/{name}", lambda: self.get(plural, name) is None, within_s)

    def describe(self) -> str:
        """What a failure has to show: every object that matters, as the server has it."""
        kinds = "dgdr,dgdrrun,jobs,pods,pvc,events" if self._has_our_kinds() else "jobs,pods,pvc,events"
        shown = self.cluster.kubectl("--namespace", self.name, "get", kinds, "-o", "wide").stdout
        details = [self.get("dynamographdeploymentruns", name) for name in self._names("dynamographdeploymentruns")]
        return shown + "\n".join(json.dumps(each.get("status")) for each in details if each)

    def _has_our_kinds(self) -> bool:
        return self.client.get(GROUPS["dynamographdeploymentruns"]).is_success

    def _names(self, plural: str) -> list[str]:
        if not self._has_our_kinds():
            return []
        return [each["metadata"]["name"] for each in self.every(plural)]

    def make_claim(self, name: str, directory: str = "") -> Path:
        """A ReadWriteMany claim that is bound to a new directory of the machine; the directory."""
        path = self.volumes / (directory or name)
        path.mkdir()
        volume = f"{self.name}-{directory or name}"
        spec = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        document = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "hostPath": {"path": str(path), "type": "Directory"},
                "claimRef": {"namespace": self.name, "name": name},
            },
        }
        answer = self.client.post("/api/v1/persistentvolumes", json=document)
        assert answer.is_success, answer.text
        self.create(
            "persistentvolumeclaims",
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec},
        )
        self.wait(f"bound claim {name}", lambda: self.claim(name)["status"].get("phase") == "Bound")
        return path

    def claim(self, name: str) -> dict[str, Json]:
        """A claim that is there."""
        found = self.get("persistentvolumeclaims", name)
        assert found is not None, f"there is no claim {name}"
        return found
