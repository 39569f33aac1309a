"""What the caches keep of objects: what the controllers read of them, and nothing else."""

from collections.abc import Mapping
from typing import Any, Final

from dgdr_retune.api import COMPLETED

Json = Any
Object = Mapping[str, Json]

_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
    "finalizers",
)


def is_completed(run: Object) -> bool:
    """Whether a Run has its terminal condition."""
    conditions = (run.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == COMPLETED and each.get("status") == "True" for each in conditions)


def kept_request(of: Object) -> dict[str, Json]:
    """All of a Request but the server's book-keeping: its Run is a copy of it."""
    return {**of, "metadata": _without_field_managers(of)}


def kept_run(of: Object) -> dict[str, Json]:
    """All of a Run; of one that is done only what says whose it is and how it ended.

    Thousands of those are kept as history.
    """
    if not is_completed(of):
        return {**of, "metadata": _without_field_managers(of)}
    trace = ((of.get("spec") or {}).get("workload") or {}).get("trace") or {}
    return {
        **_head(of),
        "metadata": _without_field_managers(of),
        "spec": {"workload": {"trace": _some(trace, "source")}} if trace else {},
        "status": _some(of["status"], "phase", "jobRef", "startTime", "completionTime", "conditions", "message"),
    }


def kept_claim(of: Object) -> dict[str, Json]:
    """What a Run depends on."""
    return {
        **_head(of),
        "metadata": _some(of["metadata"], *_METADATA),
        "spec": _some(of.get("spec") or {}, "volumeMode"),
        "status": _some(of.get("status") or {}, "phase"),
    }


def kept_job(of: Object) -> dict[str, Json]:
    """Whose it is, how it ended, and the claim that its Pods mount."""
    return {
        **_head(of),
        "metadata": _some(of["metadata"], *_METADATA, "annotations"),
        "spec": {"template": {"spec": _claims_of(((of.get("spec") or {}).get("template") or {}).get("spec") or {})}},
        "status": _some(of.get("status") or {}, "conditions", "succeeded", "failed", "uncountedTerminatedPods"),
    }


def kept_pod(of: Object) -> dict[str, Json]:
    """What the diagnostic reads, and the claim that it mounts."""
    spec = of.get("spec") or {}
    return {
        **_head(of),
        "metadata": _some(of["metadata"], *_METADATA),
        "spec": {**_some(spec, "nodeName"), **_claims_of(spec)},
        "status": {
            "containerStatuses": [
                _some(each, "name", "state", "lastState")
                for each in (of.get("status") or {}).get("containerStatuses") or ()
            ]
        },
    }


def mounted_claims(pod_spec: Object) -> tuple[str, ...]:
    """Names of the claims that a Pod mounts."""
    volumes = (each.get("persistentVolumeClaim") or {} for each in pod_spec.get("volumes") or ())
    return tuple(claim["claimName"] for claim in volumes if claim)


def _claims_of(pod_spec: Object) -> dict[str, Json]:
    volumes = [_some(each, "persistentVolumeClaim") for each in pod_spec.get("volumes") or ()]
    return {"volumes": [each for each in volumes if each]}


def _head(of: Object) -> dict[str, Json]:
    return _some(of, "apiVersion", "kind")


def _without_field_managers(of: Object) -> dict[str, Json]:
    return {name: value for name, value in of["metadata"].items() if name != "managedFields"}


def _some(of: Object, *names: str) -> dict[str, Json]:
    return {name: of[name] for name in names if name in of}
