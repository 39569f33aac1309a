"""Sees the server's truth after every write, and every call of the operator, and says what must never be."""

from collections.abc import Callable, Iterator
from typing import Final

from attrs import define, frozen

from dgdr_retune.api import (
    ACCEPTED,
    COMPLETED,
    GROUP,
    RUN_UID_LABEL,
    RunReason,
    claim_finalizer,
    is_claim_finalizer,
    label_value,
    run_name,
)
from dgdr_retune.testing._exchange import Exchange
from dgdr_retune.testing._jobs import is_finished
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._part import CLAIMS, JOBS, PODS, REQUESTS, RUNS, claims_of, controller_uid
from dgdr_retune.testing._store import Key, Store, Write

STOPS: Final = (RunReason.TRACE_SOURCE_DELETED, RunReason.SUPERSEDED, RunReason.START_DEADLINE_EXCEEDED)
FRESH_S: Final = 65.0
"""How long an answer about a claim may be relied on: the client repeats one create for up to a minute."""
STOP_WITHIN_S: Final = 300.0
"""How long an operator that works may take to stop a Job whose claim is going."""
_PREFIX: Final = claim_finalizer("x").removesuffix("x")


@frozen
class Problem:
    """Something that must never be.

    Attributes:
        rule: in one word, such as ``early-release``.
        at_s: when, on the loop's clock.
        message: for people.
    """

    rule: str
    at_s: float
    message: str

    def __str__(self) -> str:
        """For people."""
        return f"{self.rule} at {self.at_s:.2f} s: {self.message}"


@define
class _Overdue:
    """A Job that should be stopped, and for how long an operator has had the time."""

    name: str
    seconds: float = 0.0


class Observer:
    """Checks the invariants.

    Attributes:
        problems: what was seen that must never be.
        foreign: UIDs of objects that the operator has no business with.

    Args:
        store: the server's truth.
        time_s: the loop's clock.
        is_operator: whether an actor is a process of the operator.
    """

    def __init__(self, store: Store, time_s: Callable[[], float], is_operator: Callable[[str], bool]) -> None:
        self.problems: list[Problem] = []
        self.foreign: dict[str, str] = {}
        self._store = store
        self._time_s = time_s
        self._is_operator = is_operator
        self._seen_alive: dict[tuple[str, str], float] = {}  # by client and claim UID: when it last was told so
        self._overdue: dict[str, _Overdue] = {}  # by Job UID
        self._succeeded: set[str] = set()  # UIDs of Runs of which a Job was seen complete: it may be gone by now
        self._completed_until_s: dict[str, float] = {}  # by the UID of a Run that was, and is gone

    def saw(self, write: Write, actor: str) -> None:
        """Look at a write by an actor."""
        if write.key.resource == RUNS:
            self._check_run(write)
        self._remember(write)
        if not self._is_operator(actor):
            return
        value = write.old if write.new is None else write.new
        if value["metadata"]["uid"] in self.foreign:
            self._report("foreign-object", f"{actor} wrote {write.key.resource} {write.key.name}, which is not ours")
        match write.key.resource, write.type:
            case "batch/jobs", "ADDED":
                self._check_new_job(write.new, actor)
            case "batch/jobs", _:
                self._check_stopped_job(write)
            case ("/persistentvolumeclaims", "MODIFIED" | "DELETED"):
                self._check_claim(write)
            case (resource, "ADDED") if resource == RUNS:
                self._check_new_run(write.new)
            case (resource, "MODIFIED") if resource in (REQUESTS, RUNS):
                self._check_adoption(write.new, JOBS if resource == RUNS else RUNS)

    def heard(self, exchange: Exchange) -> None:
        """Look at a call of the operator."""
        action, body = exchange.action, exchange.body
        where = f"{exchange.client}: {action.kind} {action.name}"
        if action.verb == "delete" and not body.get("preconditions", {}).get("uid"):
            self._report("unguarded-delete", f"{where} without the UID of what is meant")
        if action.verb == "delete" and not body.get("propagationPolicy"):
            self._report("unguarded-delete", f"{where} leaves to the server what becomes of dependents")
        if action.resource == CLAIMS and action.verb in ("create", "update", "delete"):
            self._report("claim-write", f"{where}: a claim is only ever patched")
        if action.resource == PODS and action.is_write:
            self._report("pod-write", f"{where}: pods are the Job controller's")
        is_fenced_kind = action.resource == CLAIMS or (action.subresource == "status" and GROUP in action.resource)
        if action.is_write and is_fenced_kind and not _is_fenced(body):
            self._report("unfenced-write", f"{where} without a resourceVersion")
        if action.resource == CLAIMS and action.name and exchange.is_done:
            metadata = exchange.answer.body["metadata"]
            if "deletionTimestamp" not in metadata:
                self._seen_alive[exchange.client, metadata["uid"]] = self._time_s()

    def pass_time(self, seconds: float) -> None:
        """An operator has worked undisturbed for some time: what was due is to have happened."""
        left = {}
        for job in self._all(JOBS):
            if self._should_be_stopped(job):
                uid = job["metadata"]["uid"]
                left[uid] = self._overdue.get(uid, _Overdue(job["metadata"]["name"]))
                left[uid].seconds += seconds
        self._overdue = left
        for each in left.values():
            if STOP_WITHIN_S < each.seconds <= STOP_WITHIN_S + seconds:
                self._report("not-stopped", f"the claim of Job {each.name} is going, and it runs on")

    def _remember(self, write: Write) -> None:
        if write.key.resource == RUNS and write.new is None and is_terminal(write.old):
            self._completed_until_s[write.old["metadata"]["uid"]] = self._time_s()
        if write.key.resource == JOBS and _is_complete(write.new):
            self._succeeded |= {controller_uid(write.new), _label(write.new)}

    def _check_run(self, write: Write) -> None:
        old, new = completed(write.old), completed(write.new)
        name = write.key.name
        if old is not None and old["status"] == "True" and write.new is not None and new != old:
            self._report("terminal-changed", f"Run {name} was {old['reason']} and is {(new or {}).get('reason')}")
        if new is None or new["status"] != "True" or (old is not None and old["status"] == "True"):
            return
        uid = write.new["metadata"]["uid"]
        if new["reason"] in STOPS and not all(map(is_finished, self._jobs_of(uid))):
            self._report("completed-early", f"Run {name} is {new['reason']} while its Job is there")
        if new["reason"] == RunReason.SEARCH_SUCCEEDED and not self._succeeded & {uid, label_value(uid)}:
            self._report("completed-early", f"Run {name} succeeded, and no Job of it did")

    def _check_new_run(self, run: Json) -> None:
        request = controller_uid(run)
        uid = run["metadata"]["uid"]
        others = [
            each for each in self._all(RUNS) if controller_uid(each) == request and each["metadata"]["uid"] != uid
        ]
        for each in others:
            if not is_terminal(each) and "deletionTimestamp" not in each["metadata"]:
                name = run["metadata"]["name"]
                self._report("second-run", f"Run {name} was created while {each['metadata']['name']} is open")

    def _check_adoption(self, value: Json, resource: str) -> None:
        """What a Request or a Run calls its own is its own, or was until somebody took its owner reference away."""
        metadata = value["metadata"]
        name, uid = _claimed(value), metadata["uid"]
        owned = self._store.get(Key(resource, metadata["namespace"], name)) if name else None
        if owned is not None and (controller_uid(owned) or _label(owned)) not in (uid, label_value(uid)):
            self._report("adopted", f"{metadata['name']} says that {resource} {name} is its own, and it is not")

    def _check_new_job(self, job: Json, actor: str) -> None:
        name, namespace, uid = job["metadata"]["name"], job["metadata"]["namespace"], controller_uid(job)
        for claim_name in claims_of(job["spec"]["template"]["spec"]):
            claim = self._store.get(Key(CLAIMS, namespace, claim_name))
            if claim is None or claim_finalizer(uid) not in claim["metadata"].get("finalizers", ()):
                self._report("no-finalizer", f"Job {name} was created without a hold on the claim {claim_name}")
                continue
            if "deletionTimestamp" not in claim["metadata"]:
                continue
            told_s = self._seen_alive.get((actor, claim["metadata"]["uid"]))
            if told_s is None or self._time_s() - told_s > FRESH_S:
                self._report("dead-claim", f"Job {name} was created on {claim_name}, which nobody had said to be alive")

    def _check_stopped_job(self, write: Write) -> None:
        """A Job that the operator deletes is not finished, or its Run is gone."""
        was_going = "deletionTimestamp" in write.old["metadata"]
        is_going = write.new is None or "deletionTimestamp" in write.new["metadata"]
        if was_going or not is_going or not is_finished(write.old):
            return
        run = self._run(controller_uid(write.old))
        if run is not None and "deletionTimestamp" not in run["metadata"]:
            self._report("stale-stop", f"Job {write.key.name} had finished and was deleted")

    def _check_claim(self, write: Write) -> None:
        old, new = write.old["metadata"], (write.old if write.new is None else write.new)["metadata"]
        before = old.get("finalizers", [])
        after = [] if write.new is None else new.get("finalizers", [])
        if _apart_from_finalizers(write.old) != _apart_from_finalizers(write.new or write.old):
            self._report("claim-write", f"more than finalizers was changed on {write.key.name}")
        for finalizer in before:
            if finalizer in after:
                continue
            if is_claim_finalizer(finalizer):
                self._check_release(finalizer.removeprefix(_PREFIX), write.key.name)
            else:
                self._report("foreign-finalizer", f"{finalizer} was taken off {write.key.name}")
        for finalizer in after:
            if finalizer not in before and not is_claim_finalizer(finalizer):
                self._report("foreign-finalizer", f"{finalizer} was put on {write.key.name}")

    def _check_release(self, run_uid: str, claim: str) -> None:
        """No Job of the Run may read from the claim any more; of a Run that is gone, nothing may be there at all.

        No write to a claim is fenced by a Run: a release of one that was completed and then deleted a moment ago may
        have been on its way.
        """
        jobs = self._jobs_of(run_uid)
        was_completed_s = self._completed_until_s.get(run_uid)
        is_recent = was_completed_s is not None and self._time_s() - was_completed_s <= FRESH_S
        if is_recent or self._run(run_uid) is not None:
            left = [job for job in jobs if not is_finished(job)]
        else:
            left = jobs + [each for each in self._all(PODS) if _is_labelled(each, run_uid)]
        if left:
            names = ", ".join(each["metadata"]["name"] for each in left)
            self._report("early-release", f"{claim} was let go while there was {names} of the Run {run_uid}")

    def _should_be_stopped(self, job: Json) -> bool:
        if is_finished(job) or "deletionTimestamp" in job["metadata"] or job["metadata"]["uid"] in self.foreign:
            return False
        names = claims_of(job["spec"]["template"]["spec"])
        claims = [self._store.get(Key(CLAIMS, job["metadata"]["namespace"], name)) for name in names]
        return any(claim is None or "deletionTimestamp" in claim["metadata"] for claim in claims)

    def _jobs_of(self, run_uid: str) -> list[Json]:
        return [job for job in self._all(JOBS) if controller_uid(job) == run_uid or _is_labelled(job, run_uid)]

    def _run(self, uid: str) -> Json:
        return next((run for run in self._all(RUNS) if run["metadata"]["uid"] == uid), None)

    def _all(self, resource: str) -> Iterator[Json]:
        return (value for _, value in self._store.items(resource))

    def _report(self, rule: str, message: str) -> None:
        self.problems.append(Problem(rule, self._time_s(), message))


def completed(run: Json) -> Json:
    """The condition Completed of a Run, None without one."""
    conditions = ((run or {}).get("status") or {}).get("conditions", ())
    return next((each for each in conditions if each["type"] == COMPLETED), None)


def is_terminal(run: Json) -> bool:
    """Whether a Run is completed."""
    condition = completed(run)
    return condition is not None and condition["status"] == "True"


def _claimed(value: Json) -> str:
    """The Run that a Request says it created, or a Run's Job; empty for none."""
    status = value.get("status", {})
    if "jobRef" in status:
        return str(status["jobRef"]["name"])
    for condition in status.get("conditions", ()):
        if condition["type"] == ACCEPTED and condition["status"] == "True":
            return run_name(value["metadata"]["name"], condition["observedGeneration"])
    return ""


def _is_complete(job: Json) -> bool:
    conditions = (job or {}).get("status", {}).get("conditions", ())
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


def _is_labelled(value: Json, run_uid: str) -> bool:
    return _label(value) == label_value(run_uid)


def _label(value: Json) -> str:
    return str(value["metadata"].get("labels", {}).get(RUN_UID_LABEL, ""))


def _is_fenced(body: Json) -> bool:
    match body:
        case {"metadata": {"resourceVersion": str()}}:
            return True
        case [*operations]:
            return any(each["op"] == "test" and each["path"] == "/metadata/resourceVersion" for each in operations)
    return False


def _apart_from_finalizers(claim: Json) -> Json:
    metadata = {name: item for name, item in claim["metadata"].items() if name not in ("finalizers", "resourceVersion")}
    return {**claim, "metadata": metadata}
