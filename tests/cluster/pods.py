"""Pods of tests, as the restricted pod security standard wants them."""

from typing import Any

from tools.cluster.image import NAME as IMAGE

Json = Any

POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsUser": 65532,
}


def python_container(script: str, **fields: Json) -> dict[str, Json]:
    """A container that runs a Python script with the project's image."""
    return {
        "name": "python",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python", "-c", script],
        "securityContext": CONTAINER_SECURITY,
        **fields,
    }


def pod_spec(container: dict[str, Json], **fields: Json) -> dict[str, Json]:
    """A pod's specification that the restricted standard admits."""
    return {"restartPolicy": "Never", "securityContext": POD_SECURITY, "containers": [container], **fields}
