"""The operator's manifests as they are shipped: what of them a test installs, and whom they grant what."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from attrs import frozen
from tests.cluster.cluster import Cluster

Json = Any

DEPLOY = Path(__file__).parents[2] / "deploy"
OPERATOR_NAMESPACE = "dgdr-retune"
OPERATOR = "dgdr-retune-operator"
PUBLISHER = "dgdr-retune-publisher"


@frozen
class Installation:
    """The operator's account and what it may do.

    Attributes:
        cluster: where it is.
        documents: every manifest of it.
    """

    cluster: Cluster
    documents: tuple[dict[str, Json], ...]

    @property
    def user(self) -> str:
        """The account as the API server calls it."""
        return f"system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR}"

    def rules(self, account: str) -> Iterator[dict[str, Json]]:
        """The rules of every role that is bound to an account."""
        for binding in self.of_kind("RoleBinding", "ClusterRoleBinding"):
            if any(subject["name"] == account for subject in binding["subjects"]):
                yield from self.role(binding["roleRef"]["name"], binding["roleRef"]["kind"])["rules"]

    def role(self, name: str, kind: str = "ClusterRole") -> dict[str, Json]:
        """A role by its name."""
        return next(each for each in self.of_kind(kind) if each["metadata"]["name"] == name)

    def of_kind(self, *kinds: str) -> Iterator[dict[str, Json]]:
        """The manifests of some kinds."""
        return (each for each in self.documents if each["kind"] in kinds)


def apply(cluster: Cluster, *arguments: str, stdin: str = "") -> None:
    """kubectl apply, which must succeed."""
    done = cluster.kubectl("apply", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr


def install_rights(cluster: Cluster) -> Installation:
    """Install the definitions, and of the operator all but what runs."""
    apply(cluster, "--server-side", "-f", str(DEPLOY / "crds"))
    established = cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    assert established.returncode == 0, established.stderr
    with cluster.client() as client:
        while client.get("/apis/nvidia.com/v1beta2/dynamographdeploymentruns").is_error:
            time.sleep(0.05)  # it is established, and not served yet
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": OPERATOR_NAMESPACE, "labels": labels}
    apply(cluster, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
    apply(cluster, "-n", OPERATOR_NAMESPACE, "-f", str(DEPLOY / "operator" / "access.yaml"))
    files = sorted((DEPLOY / "operator").glob("*.yaml"))
    documents = (each for file in files for each in yaml.safe_load_all(file.read_text()) if each)
    return Installation(cluster, tuple(documents))
