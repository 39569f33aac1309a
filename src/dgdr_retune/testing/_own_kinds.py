"""What kube-apiserver itself does to Kubernetes' own kinds, beside judging them, which is not simulated."""

from typing import Final

from attrs import frozen

from dgdr_retune.testing._json import Json
from dgdr_retune.testing._resources import NAMESPACES, Resource

JOB_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
NAMESPACE_FINALIZER: Final = "kubernetes"
_DEFAULT_GRACE_S: Final = 30


@frozen
class Grace:
    """How an object leaves that has no finalizers.

    Attributes:
        at_once: whether the deletion removes it.
        seconds: else, after how long its node should have done with it.
    """

    at_once: bool = True
    seconds: int = 0


def prepared(resource: Resource, made: dict[str, Json]) -> dict[str, Json]:
    """A new object as it is stored."""
    match resource.key:
        case "/namespaces":
            labels = {**made["metadata"].get("labels", {}), "kubernetes.io/metadata.name": made["metadata"]["name"]}
            made = {**made, "metadata": {**made["metadata"], "labels": labels}}
            return {**made, "spec": {"finalizers": [NAMESPACE_FINALIZER]}, "status": {"phase": "Active"}}
        case "/persistentvolumeclaims":
            finalizers = made["metadata"].get("finalizers", [])
            held = finalizers if CLAIM_PROTECTION in finalizers else [*finalizers, CLAIM_PROTECTION]
            return {**made, "metadata": {**made["metadata"], "finalizers": held}, "status": {"phase": "Pending"}}
        case "/pods":
            spec = {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": _DEFAULT_GRACE_S,
                **made.get("spec", {}),
            }
            return {**made, "spec": spec, "status": {"phase": "Pending"}}
        case "batch/jobs":
            return _prepared_job(made)
    return made


def grace(resource: Resource, value: dict[str, Json], asked_s: int | None) -> Grace:
    """How an object leaves when its deletion asks for a time, or leaves it to the object."""
    if resource is NAMESPACES:
        return Grace(at_once=not value["spec"]["finalizers"])
    if resource.key != "/pods":
        return Grace()
    spec, phase = value["spec"], value["status"]["phase"]
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return Grace()
    seconds = spec["terminationGracePeriodSeconds"] if asked_s is None else asked_s
    return Grace() if seconds == 0 else Grace(at_once=False, seconds=max(seconds, 1))


def may_go(resource: Resource, value: dict[str, Json]) -> bool:
    """Whether an object that is being deleted is held by nothing any more."""
    metadata = value["metadata"]
    if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return False
    return resource is not NAMESPACES or not value["spec"]["finalizers"]


def _prepared_job(made: dict[str, Json]) -> dict[str, Json]:
    """A Job with its defaults, and with the selector by which it finds its pods."""
    metadata, spec = made["metadata"], made.get("spec", {})
    uid, name = metadata["uid"], metadata["name"]
    template = spec.get("template", {})
    below = template.get("metadata", {})
    given = below.get("labels", {})
    labels = {**given, JOB_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    filled = {
        "backoffLimit": 6,
        "completions": 1,
        "parallelism": 1,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {JOB_UID: uid}},
        **spec,
        "template": {**template, "metadata": {**below, "labels": labels}},
    }
    return {**made, "metadata": {**metadata, "labels": metadata.get("labels") or given}, "spec": filled}
