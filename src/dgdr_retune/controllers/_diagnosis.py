"""What a Run's Job and Pods tell people. Nothing here decides anything but the words."""

from collections.abc import Iterable
from typing import Final

from dgdr_retune.controllers._job import PUBLISHER, SWEEPER
from dgdr_retune.controllers._observation import ContainerState, JobEnd, JobState, PodState

_ORDINARY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons for which every container waits while it starts."""

_NAMED_MAX: Final = 10
"""Objects that a message names; of more it gives the number."""

_EXITS: Final = {
    SWEEPER: {
        1: "no feasible candidate, or an error while evaluating",
        2: "its input or its trace was refused",
        3: "stopped by a limit on its resources",
        124: "it did not start, or stop, in time",
        130: "interrupted",
        137: "killed",
        143: "terminated",
    },
    PUBLISHER: {
        1: "candidates or status could not be written",
        3: "the sweeper's snapshots break the protocol",
        4: "the sweeper reported a failure",
        137: "killed",
        143: "terminated",
    },
}
"""Exit codes other than 0; beyond the two programs' own, 128 and a signal's number."""


def containers(job: JobState, pods: Iterable[PodState]) -> tuple[ContainerState, ...]:
    """The sweepers and publishers of the Job's own Pods, each Pod's sweeper first."""
    return tuple(
        container
        for pod in pods
        if pod.controller_uid == job.ref.uid
        for name in (SWEEPER, PUBLISHER)
        for container in pod.containers
        if container.name == name
    )


def has_started(job: JobState, pods: Iterable[PodState]) -> bool:
    """Whether a sweeper and a publisher of the Job run or have run; of a Pod that is gone the Job alone tells."""
    return job.has_ended_pods or {each.name for each in containers(job, pods) if each.started} == {SWEEPER, PUBLISHER}


def has_any_started(job: JobState | None, pods: Iterable[PodState]) -> bool:
    """Whether a container of the Job runs or has run."""
    return job is not None and any(each.started for each in containers(job, pods))


def waits_for(job: JobState, pods: Iterable[PodState]) -> str:
    """Why the first container waits that does not just start, in the kubelet's words; empty if none does."""
    for each in containers(job, pods):
        if each.waiting_reason not in _ORDINARY:
            return ": ".join(part for part in (each.name, each.waiting_reason, each.waiting_message) if part)
    return ""


def left(jobs: Iterable[JobState], pods: Iterable[PodState]) -> str:
    """The Jobs and Pods that a stop waits for, with the Pods' nodes: one that is lost never reports an end."""
    named = [f"job {job.ref.name}" for job in jobs]
    named += [f"pod {pod.ref.name}" + (f" on node {pod.node}" if pod.node else "") for pod in pods]
    more = len(named) - _NAMED_MAX
    return ", ".join(named[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def why_failed(job: JobState, end: JobEnd, pods: Iterable[PodState], said: str) -> str:
    """Why the Job failed.

    Args:
        job: the Job.
        end: how it ended.
        pods: of the Run; a Pod that is gone tells nothing.
        said: the publisher's last message in the Run's status.
    """
    parts = [f"job {job.ref.name} failed" + (f": {end.message}" if end.message else "")]
    parts += [_exit(each) for each in containers(job, pods) if each.exit_code]
    if said:
        parts.append(f"the sweeper's last word: {said}")
    return "; ".join(parts)


def _exit(container: ContainerState) -> str:
    meaning = _EXITS[container.name].get(container.exit_code or 0, "")
    details = [part for part in (meaning, container.exit_reason, container.exit_message) if part and part != "Error"]
    return f"{container.name} exited with {container.exit_code}" + (f" ({': '.join(details)})" if details else "")
