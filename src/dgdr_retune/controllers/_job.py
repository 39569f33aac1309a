"""A Run's Job, and the account under which its publisher writes. Pure: the same Run gives the same manifests."""

from typing import Any, Final

from dgdr_retune.api import (
    API_VERSION,
    INPUT_VARIABLE,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    REPLICATIONS_ANNOTATION,
    REPLICATIONS_VARIABLE,
    RUN,
    RUN_UID_LABEL,
    RequestSpec,
    canonical_json,
    label_value,
)
from dgdr_retune.controllers._configuration import SNAPSHOT_DIRECTORY, Configuration, Resources
from dgdr_retune.lowering import Lowered, TraceMount

Json = Any

SWEEPER: Final = "sweeper"
PUBLISHER: Final = "publisher"

MAX_VARIABLE_BYTES: Final = 128 * 1024 - 1
"""Linux starts no process with a longer `NAME=value`."""

TRACE_GROUP: Final = 65532
"""The group that frontends of the reference write traces as."""

_SWEEPER_USER: Final = 1000
_PUBLISHER_USER: Final = 65532
_TOKEN_DIRECTORY: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where clients look for it
_TOKEN_LIFETIME_S: Final = 3600
_GRACE_S: Final = 5
"""Both processes end at once when they are told to, but a container's first process hears nothing while it still loads
its code: a claim that is deleted then would be held for Kubernetes' 30 seconds."""

_HOME: Final = "/tmp"  # noqa: S108 - a volume of the container's own: the root file system is read-only


class JobError(ValueError):
    """A Run that no Job can be made for. `reason` is `InputTooLarge`; the message says what to change."""

    reason: Final = "InputTooLarge"


def run_labels(run_uid: str) -> dict[str, str]:
    """What a Run's Job and Pods are found by."""
    return {RUN_UID_LABEL: label_value(run_uid), MANAGED_BY_LABEL: MANAGED_BY}


def run_job(run: dict[str, Json], lowered: Lowered, configuration: Configuration) -> dict[str, Json]:
    """The Job of a Run.

    Args:
        run: the Run as the server holds it.
        lowered: what `lower` makes of it.
        configuration: images, commands and resources.

    Errors: `JobError`.
    """
    metadata = run["metadata"]
    labels = run_labels(metadata["uid"])
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": RUN.name,
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {
            "backoffLimit": 0,
            "template": {"metadata": {"labels": dict(labels)}, "spec": _pod(run, lowered, configuration)},
        },
    }


def publisher_account(namespace: str, configuration: Configuration) -> dict[str, Json]:
    """The ServiceAccount of a namespace's publishers."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": configuration.publisher_account,
            "namespace": namespace,
            "labels": {MANAGED_BY_LABEL: MANAGED_BY},
        },
        "automountServiceAccountToken": False,
    }


def publisher_binding(namespace: str, configuration: Configuration) -> dict[str, Json]:
    """The RoleBinding that gives a namespace's publishers their rights in it."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": configuration.publisher_account,
            "namespace": namespace,
            "labels": {MANAGED_BY_LABEL: MANAGED_BY},
        },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": configuration.publisher_role,
        },
        "subjects": [{"kind": "ServiceAccount", "name": configuration.publisher_account, "namespace": namespace}],
    }


def _pod(run: dict[str, Json], lowered: Lowered, configuration: Configuration) -> dict[str, Json]:
    trace = lowered.trace
    return {
        "restartPolicy": "Never",
        "serviceAccountName": configuration.publisher_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **({} if trace is None else {"supplementalGroups": [TRACE_GROUP]}),
        },
        "containers": [_sweeper(run, lowered, configuration), _publisher(run, configuration)],
        "volumes": [
            {"name": "snapshot", "emptyDir": {}},
            {"name": "sweeper-tmp", "emptyDir": {}},
            {"name": "publisher-tmp", "emptyDir": {}},
            {"name": "publisher-token", "projected": {"sources": _token_sources()}},
            *([] if trace is None else [_trace_volume(trace)]),
        ],
    }


def _sweeper(run: dict[str, Json], lowered: Lowered, configuration: Configuration) -> dict[str, Json]:
    spec = RequestSpec.read(run["spec"])
    document = {**lowered.document, "dgdr_run": _output_section(run, spec, configuration)}
    replications = run["metadata"].get("annotations", {}).get(REPLICATIONS_ANNOTATION)
    trace = lowered.trace
    return {
        "name": SWEEPER,
        "image": spec.image or configuration.sweeper_image,
        "command": list(configuration.sweeper_command),
        "env": [
            {"name": "HOME", "value": _HOME},
            # `$` starts a reference in a variable's value; in JSON it stands in strings alone and has another spelling
            _variable(INPUT_VARIABLE, canonical_json(document).replace("$", r"\u0024")),
            *([] if replications is None else [_variable(REPLICATIONS_VARIABLE, replications.replace("$", "$$"))]),
        ],
        "resources": _resources(configuration.sweeper_resources),
        "terminationMessagePolicy": "FallbackToLogsOnError",  # its last words, for the Run's message
        "securityContext": _container_security(_SWEEPER_USER),
        "volumeMounts": [
            {"name": "snapshot", "mountPath": SNAPSHOT_DIRECTORY},
            {"name": "sweeper-tmp", "mountPath": _HOME},
            *([] if trace is None else [_trace_mount(trace)]),
        ],
    }


def _output_section(run: dict[str, Json], spec: RequestSpec, configuration: Configuration) -> dict[str, Json]:
    return {
        "name": run["metadata"]["name"].replace(".", "-"),  # a DNS label, which a Run's name need not be
        "namespace": run["metadata"]["namespace"],
        "snapshot_dir": SNAPSHOT_DIRECTORY,
        "generator": spec.aisimulate.generator,
        "runtime_image": configuration.runtime_image,
        "num_gpus_per_node": configuration.num_gpus_per_node,
        "max_candidates": spec.recommendation.max_candidates,
        "snapshot_interval_seconds": configuration.snapshot_interval_s,
    }


def _publisher(run: dict[str, Json], configuration: Configuration) -> dict[str, Json]:
    return {
        "name": PUBLISHER,
        "image": configuration.publisher_image,
        "command": [
            *configuration.publisher_command,
            "--snapshot-dir",
            SNAPSHOT_DIRECTORY,
            "--run-name",
            run["metadata"]["name"],
            "--sweeper-container",
            SWEEPER,
        ],
        "env": [
            {"name": "HOME", "value": _HOME},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "resources": _resources(configuration.publisher_resources),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": _container_security(_PUBLISHER_USER),
        "volumeMounts": [
            {"name": "snapshot", "mountPath": SNAPSHOT_DIRECTORY, "readOnly": True},
            {"name": "publisher-tmp", "mountPath": _HOME},
            {"name": "publisher-token", "mountPath": _TOKEN_DIRECTORY, "readOnly": True},
        ],
    }


def _variable(name: str, value: str) -> dict[str, str]:
    size = len(f"{name}={value}".encode())
    if size > MAX_VARIABLE_BYTES:
        raise JobError(
            f"{name} would have {size} bytes, and a container starts with at most {MAX_VARIABLE_BYTES} in one variable:"
            " make spec.aisimulate.inputOverrides, or the annotations, smaller"
        )
    return {"name": name, "value": value}


def _container_security(user: int) -> dict[str, Json]:
    return {
        "runAsUser": user,
        "runAsGroup": user,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _resources(resources: Resources) -> dict[str, Json]:
    return {
        "requests": {"cpu": resources.cpu_request, "memory": resources.memory_request},
        "limits": {"cpu": resources.cpu_limit, "memory": resources.memory_limit},
    }


def _trace_volume(trace: TraceMount) -> dict[str, Json]:
    """The claim is not read-only here, for some drivers then attach it in another way; the mount is."""
    return {"name": "trace", "persistentVolumeClaim": {"claimName": trace.claim_name}}


def _trace_mount(trace: TraceMount) -> dict[str, Json]:
    return {"name": "trace", "mountPath": trace.mount_path, "subPath": trace.sub_path, "readOnly": True}


def _token_sources() -> list[Json]:
    """What in-cluster configuration reads, as Kubernetes itself would mount it in every container."""
    namespace = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_LIFETIME_S}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
