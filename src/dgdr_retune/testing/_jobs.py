"""The Job controller: a pod from a Job's template, and what its end means for the Job."""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from dgdr_retune.testing._errors import ApiError
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._own_kinds import JOB_NAME
from dgdr_retune.testing._part import JOBS, PODS, SERVICE_ACCOUNTS, Access, Part, controller_uid, key_of, without
from dgdr_retune.testing._store import Key, Write

TRACKING: Final = "batch.kubernetes.io/job-tracking"
_SUCCEEDING: Final = ("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
_FAILING: Final = ("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_FINAL: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
_RETRY_S: Final = 5.0
_UNCOUNTED: Final = "uncountedTerminatedPods"


class JobController(Part):
    """Runs Jobs of one pod that is not tried again.

    Args:
        access: what it uses.
        loop: whose time it lives in.
        rng: how long it takes to notice, and how pods are called.
        now: the clock.
        pace: how slow it is.
    """

    def __init__(
        self,
        access: Access,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        *,
        now: Callable[[], datetime],
        pace: float = 1.0,
    ) -> None:
        super().__init__(access, loop, rng, pace=pace)
        self._now = now

    def saw(self, write: Write) -> None:
        """Look at a Job that changed, or whose pod did."""
        if write.key.resource == JOBS:
            self.look(write.key)
        elif write.key.resource == PODS:
            value = write.old if write.new is None else write.new
            if name := value["metadata"].get("labels", {}).get(JOB_NAME):
                self.look(Key(JOBS, write.key.namespace, name))

    def sync(self, key: Key) -> None:
        """Do the next thing that is due for a Job."""
        job = self.access.get(key)
        pods = [each for each in self.access.all(PODS, key.namespace) if _job_name(each) == key.name]
        own = [each for each in pods if job is not None and controller_uid(each) == job["metadata"]["uid"]]
        if self._release([each for each in pods if each not in own]) or job is None:
            return
        if _condition(job, *_FINAL.values()):
            self._release(own)
            return
        counted = _uncounted(job)
        if new := [each for each in own if _is_tracked(each) and _end(each) and _uid(each) not in counted]:
            self._count(key, job, own, new)
        elif self._release([each for each in own if _uid(each) in counted or "deletionTimestamp" in job["metadata"]]):
            return
        elif counted or _condition(job, *_FINAL):
            self._conclude(key, job, own)
        elif not own and "deletionTimestamp" not in job["metadata"]:
            self._create_pod(key, job)
        else:
            self._write(key, job, own)

    def _release(self, pods: list[Json]) -> bool:
        """Take the finalizer off the first pod that has it; whether there was one."""
        for pod in filter(_is_tracked, pods):
            metadata = pod["metadata"]
            self.access.patch(key_of(pod, PODS), without(metadata["finalizers"], TRACKING, metadata["resourceVersion"]))
            return True
        return False

    def _count(self, key: Key, job: Json, own: list[Json], new: list[Json]) -> None:
        """Note which pods ended, before they may go; the first one of a kind decides the Job's end."""
        status = job.get("status", {})  # there is none yet if the pod went right after it came
        noted = {end: list(status.get(_UNCOUNTED, {}).get(end, ())) for end in ("succeeded", "failed")}
        for pod in new:
            noted[_end(pod)].append(_uid(pod))
        conditions = status.get("conditions", [])
        if not _condition(job, *_FINAL):
            conditions = [*conditions, self._condition(*(_FAILING if noted["failed"] else _SUCCEEDING))]
        self._write(key, job, own, {_UNCOUNTED: noted, "conditions": conditions})

    def _conclude(self, key: Key, job: Json, own: list[Json]) -> None:
        """Count the pods that were noted; the Job has ended when none of them runs any more."""
        status = job["status"]
        noted = status.get(_UNCOUNTED, {})
        change: Json = {end: status.get(end, 0) + len(noted.get(end, ())) for end in ("succeeded", "failed")}
        change[_UNCOUNTED] = {"succeeded": [], "failed": []}
        interim = _condition(job, *_FINAL)
        if not any(map(_is_left, own)):
            end = self._condition(_FINAL[interim["type"]], interim["reason"], interim["message"])
            change["conditions"] = [*status["conditions"], end]
            if end["type"] == "Complete":
                change["completionTime"] = self._timestamp()
        self._write(key, job, own, change)

    def _create_pod(self, key: Key, job: Json) -> None:
        template, metadata = job["spec"]["template"], job["metadata"]
        account = template["spec"].get("serviceAccountName", "default")
        if account != "default" and self.access.get(Key(SERVICE_ACCOUNTS, key.namespace, account)) is None:
            self.look(key, _RETRY_S)
            return
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": key.name, "uid": metadata["uid"]}
        pod = {
            "metadata": {
                **template["metadata"],
                "name": f"{key.name}-{self.rng.randrange(16**5):05x}",
                "finalizers": [TRACKING],
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": template["spec"],
        }
        try:
            self.access.create(PODS, key.namespace, pod)
        except ApiError:
            self.look(key, _RETRY_S)  # the namespace is going

    def _write(self, key: Key, job: Json, own: list[Json], change: Json | None = None) -> None:
        """Write the Job's status, if anything in it is new."""
        status = {
            "startTime": job.get("status", {}).get("startTime", self._timestamp()),
            "active": sum(_is_left(each) and "deletionTimestamp" not in each["metadata"] for each in own),
            "ready": sum(each["status"]["phase"] == "Running" for each in own),
            "terminating": sum(_is_left(each) and "deletionTimestamp" in each["metadata"] for each in own),
            **(change or {}),
        }
        self.access.patch(key, {"status": status}, "status")

    def _condition(self, type_: str, reason: str, message: str) -> Json:
        now = self._timestamp()
        times = {"lastProbeTime": now, "lastTransitionTime": now}
        return {"type": type_, "status": "True", "reason": reason, "message": message, **times}

    def _timestamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_finished(job: Json) -> bool:
    """Whether a Job has ended: nothing of it runs any more."""
    return _condition(job, *_FINAL.values()) is not None


def _condition(job: Json, *types: str) -> Json:
    for each in job.get("status", {}).get("conditions", ()):
        if each["type"] in types and each["status"] == "True":
            return each
    return None


def _uncounted(job: Json) -> list[str]:
    noted = job.get("status", {}).get(_UNCOUNTED, {})
    return [*noted.get("succeeded", ()), *noted.get("failed", ())]


def _end(pod: Json) -> str:
    """How a pod counts; empty while it does not. One that is being deleted counts as failed."""
    phase = pod["status"]["phase"]
    if phase == "Succeeded":
        return "succeeded"
    return "failed" if phase == "Failed" or "deletionTimestamp" in pod["metadata"] else ""


def _is_left(pod: Json) -> bool:
    return pod["status"]["phase"] not in ("Succeeded", "Failed")


def _is_tracked(pod: Json) -> bool:
    return TRACKING in pod["metadata"].get("finalizers", ())


def _job_name(pod: Json) -> str:
    return str(pod["metadata"].get("labels", {}).get(JOB_NAME, ""))


def _uid(pod: Json) -> str:
    return str(pod["metadata"]["uid"])
