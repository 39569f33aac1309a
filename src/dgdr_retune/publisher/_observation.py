"""What the publisher knows in one pass, as it read it from objects. Pure."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from dgdr_retune.api import API_VERSION, RUN, RUN_UID_LABEL, label_value
from dgdr_retune.publisher._errors import HopelessError

Json = Any


@frozen
class OwnPod:
    """The pod that sweeper and publisher share.

    Attributes:
        run_label: by which the pod says the UID of its Run.
        sweeper_exit: the sweeper's exit code; None until it has ended.
        terminating: whether its deletion was asked for.
    """

    run_label: str
    sweeper_exit: int | None
    terminating: bool = False


@frozen
class ObservedRun:
    """The Run that is published for.

    Attributes:
        name: its name.
        uid: its UID.
        resource_version: fences the write of its status.
        status: as stored.
    """

    name: str
    uid: str
    resource_version: str
    status: Mapping[str, Json]


@frozen
class Existing:
    """A Candidate object that is there.

    Attributes:
        name: its name.
        uid: its UID.
        ours: whether the Run controls it.
        evaluated: whether its status was written.
        terminating: whether its deletion was asked for.
    """

    name: str
    uid: str
    ours: bool
    evaluated: bool
    terminating: bool = False


@frozen
class Observation:
    """Run and Candidates of one moment: those with the Run's label, and others whose names the Run wants."""

    run: ObservedRun
    candidates: tuple[Existing, ...]


def read_own_pod(pod: Mapping[str, Json], sweeper: str) -> OwnPod:
    """The own pod from its object.

    Errors: `HopelessError` if it names no Run or has no container of the sweeper's name.
    """
    metadata = pod["metadata"]
    label = metadata.get("labels", {}).get(RUN_UID_LABEL, "")
    if not label:
        cause = f"the pod {metadata['name']} has no label {RUN_UID_LABEL}; it is no pod of a Run's Job"
        raise HopelessError("PodWithoutRun", cause)
    if not any(each["name"] == sweeper for each in pod["spec"]["containers"]):
        cause = f"the pod {metadata['name']} has no container {sweeper}; name the sweeper's with --sweeper-container"
        raise HopelessError("NoSuchContainer", cause)
    return OwnPod(run_label=label, sweeper_exit=_exit_code(pod, sweeper), terminating="deletionTimestamp" in metadata)


def read_run(run: Mapping[str, Json], run_label: str) -> ObservedRun:
    """The Run from its object.

    Errors: `HopelessError` for a Run that is not the pod's, or that is being deleted: nothing is made for it any more.
    """
    metadata = run["metadata"]
    if label_value(metadata["uid"]) != run_label:
        cause = f"the Run {metadata['name']} is another one than this pod was made for ({run_label})"
        raise HopelessError("RunReplaced", cause)
    if "deletionTimestamp" in metadata:
        raise HopelessError("RunTerminating", f"the Run {metadata['name']} is being deleted")
    return ObservedRun(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        status=run.get("status", {}),
    )


def read_existing(candidate: Mapping[str, Json], run_uid: str) -> Existing:
    """A Candidate from its object."""
    metadata = candidate["metadata"]
    return Existing(
        name=metadata["name"],
        uid=metadata["uid"],
        ours=any(_is_control(each, run_uid) for each in metadata.get("ownerReferences") or ()),
        evaluated=bool(candidate.get("status")),
        terminating="deletionTimestamp" in metadata,
    )


def _exit_code(pod: Mapping[str, Json], container: str) -> int | None:
    for each in pod.get("status", {}).get("containerStatuses") or ():
        if each["name"] == container and (terminated := each.get("state", {}).get("terminated")):
            code: int = terminated["exitCode"]
            return code
    return None


def _is_control(owner: Mapping[str, Json], run_uid: str) -> bool:
    return (
        owner.get("uid") == run_uid
        and owner.get("controller") is True
        and owner.get("kind") == RUN.name
        and owner.get("apiVersion") == API_VERSION
    )
