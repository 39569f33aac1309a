"""Objects of the API server, or what a cache keeps of them, as the controllers' decisions see them."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from dgdr_retune.api import (
    REQUEST,
    REQUEST_GENERATION_ANNOTATION,
    RUN_FAILURE_ANNOTATION,
    RUN_UID_LABEL,
    Condition,
    InvalidObjectError,
    RunReason,
)
from dgdr_retune.controllers._actions import CLAIM_UID_ANNOTATION
from dgdr_retune.controllers._observation import (
    ClaimState,
    ContainerState,
    Failure,
    JobEnd,
    JobState,
    PodState,
    Ref,
    RequestState,
    RunState,
    RunStatus,
)

Json = Any
Object = Mapping[str, Json]

_RUN_REASONS: Final = {str(reason): reason for reason in RunReason}
_GENERATION_DIGITS: Final = 19
"""Of an int64; Python reads no number of thousands of digits, and anybody may write an annotation."""


def ref(of: Object) -> Ref:
    """Which object, in which version."""
    metadata = of["metadata"]
    return Ref(metadata.get("namespace", ""), metadata["name"], metadata["uid"], metadata["resourceVersion"])


def controller(of: Object) -> Object:
    """The owner reference with `controller: true`; empty if there is none."""
    owners = of["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller") is True), {})


def controller_uid(of: Object) -> str:
    """UID of the owner with `controller: true`, empty if there is none."""
    return str(controller(of).get("uid", ""))


def run_uid_label(of: Object) -> str:
    """The Run-UID label, empty if there is none."""
    return str((of["metadata"].get("labels") or {}).get(RUN_UID_LABEL, ""))


def trace_claim(run: Object) -> str:
    """The claim of a Run's trace, empty for a static workload."""
    trace = ((run.get("spec") or {}).get("workload") or {}).get("trace") or {}
    return str(trace.get("source", {}).get("persistentVolumeClaim", {}).get("claimName", ""))


def copied_generation(run: Object) -> int:
    """The Request's generation that a Run copies, by its annotation; 0 if that is missing or no number."""
    text = (run["metadata"].get("annotations") or {}).get(REQUEST_GENERATION_ANNOTATION, "")
    return int(text) if len(text) <= _GENERATION_DIGITS and text.isascii() and text.isdecimal() else 0


def is_deleting(of: Object) -> bool:
    """Whether its deletion was asked for."""
    return bool(of["metadata"].get("deletionTimestamp"))


def request_state(of: Object) -> RequestState:
    """A DynamoGraphDeploymentRequest."""
    status = of.get("status") or {}
    return RequestState(
        ref=ref(of),
        object=of,
        deleting=is_deleting(of),
        generation=of["metadata"].get("generation", 1),
        observed_generation=status.get("observedGeneration") or 0,
        active_run=(status.get("activeRunRef") or {}).get("name", ""),
        recent_runs=tuple(each["name"] for each in status.get("recentRunRefs") or ()),
        conditions=_conditions(status),
    )


def run_state(of: Object) -> RunState:
    """A DynamoGraphDeploymentRun."""
    annotations = of["metadata"].get("annotations") or {}
    owner = controller(of)
    return RunState(
        ref=ref(of),
        object=of,
        deleting=is_deleting(of),
        request_uid=str(owner.get("uid", "")) if owner.get("kind") == REQUEST.name else "",
        generation=copied_generation(of),
        claim_name=trace_claim(of),
        failure=_failure(annotations.get(RUN_FAILURE_ANNOTATION, "")),
        status=_run_status(of.get("status") or {}),
    )


def claim_state(of: Object) -> ClaimState:
    """A PersistentVolumeClaim."""
    return ClaimState(
        ref=ref(of),
        deleting=is_deleting(of),
        block=(of.get("spec") or {}).get("volumeMode") == "Block",
        lost=(of.get("status") or {}).get("phase") == "Lost",
        finalizers=tuple(of["metadata"].get("finalizers") or ()),
    )


def job_state(of: Object) -> JobState:
    """A Job."""
    metadata = of["metadata"]
    deleted = metadata.get("deletionTimestamp")
    return JobState(
        ref=ref(of),
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        controller_uid=controller_uid(of),
        run_uid=run_uid_label(of),
        claim_uid=(metadata.get("annotations") or {}).get(CLAIM_UID_ANNOTATION, ""),
        deleted_at=datetime.fromisoformat(deleted) if deleted else None,
        has_ended_pods=_has_ended_pods(of.get("status") or {}),
        end=job_end(of),
    )


def _has_ended_pods(status: Object) -> bool:
    """The Job controller notes a Pod before it lets it go, and counts it later."""
    noted = status.get("uncountedTerminatedPods") or {}
    return any(status.get(end) or noted.get(end) for end in ("succeeded", "failed"))


def job_end(of: Object) -> JobEnd | None:
    """How a Job ended, None while it has not."""
    for condition in (of.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            said = (condition.get("reason"), condition.get("message"))
            return JobEnd(
                succeeded=condition["type"] == "Complete",
                message=": ".join(each for each in said if each),
            )
    return None


def pod_state(of: Object) -> PodState:
    """A Pod of a Run's Job."""
    return PodState(
        ref=ref(of),
        controller_uid=controller_uid(of),
        run_uid=run_uid_label(of),
        deleting=is_deleting(of),
        node=(of.get("spec") or {}).get("nodeName", ""),
        containers=tuple(map(_container, (of.get("status") or {}).get("containerStatuses") or ())),
    )


def _container(status: Object) -> ContainerState:
    state = status.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    before = (status.get("lastState") or {}).get("terminated")
    return ContainerState(
        name=status["name"],
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        started=bool("running" in state or "terminated" in state or before),
        exit_code=ended.get("exitCode"),
        exit_reason=ended.get("reason", ""),
        exit_message=ended.get("message", ""),
    )


def _run_status(status: Object) -> RunStatus:
    job = status.get("jobRef") or {}
    return RunStatus(
        phase=status.get("phase", ""),
        job_name=job.get("name", ""),
        job_uid=job.get("uid", ""),
        input=(status.get("aisimulate") or {}).get("input"),
        start_time=status.get("startTime", ""),
        completion_time=status.get("completionTime", ""),
        conditions=_conditions(status),
        message=status.get("message", ""),
    )


def _conditions(status: Object) -> tuple[Condition, ...]:
    return tuple(map(_condition, status.get("conditions") or ()))


def _condition(stored: Object) -> Condition:
    """A condition; one that breaks our rules, which definitions of another release may allow, as it is."""
    try:
        return Condition.read(stored)
    except InvalidObjectError:
        empty = {"type": "", "status": "Unknown", "reason": "", "message": "", "lastTransitionTime": ""}
        return Condition.model_construct(**{**empty, **stored})


def _failure(text: str) -> Failure | None:
    """What the marker says; one that is none of ours says nothing."""
    try:
        said = json.loads(text)
        message = str(said["message"])
        message.encode()  # half a surrogate pair, which JSON can spell, is in no condition
        return Failure(_RUN_REASONS[said["reason"]], message)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
