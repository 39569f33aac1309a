"""What the API server did, in its own order, and whether the invariants held after every write.

Every write has a revision that counts up over all kinds, so that events of several watches can be put in order. Checked
are invariants 1 to 3 of the requirements, on what the server stored and never on what a client believed.
"""

import json
import threading
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
from attrs import define, field, frozen
from tests.cluster.cluster import Cluster

from dgdr_retune.api import RUN_UID_LABEL, claim_finalizer, is_claim_finalizer

Json = Any

CLAIMS = "/api/v1/persistentvolumeclaims"
PODS = "/api/v1/pods"
JOBS = "/apis/batch/v1/jobs"
RUNS = "/apis/nvidia.com/v1beta2/dynamographdeploymentruns"
LOOK_EVERY_S = 0.1
WATCH_S = 2  # a watch is renewed this often, which is how soon a thread hears that it shall end
PATIENCE_S = 30.0


@frozen(order=True)
class Event:
    """One write.

    Attributes:
        revision: of the write, over all kinds.
        path: of the kind.
        gone: whether it was the object's end.
        body: the object as it was written.
    """

    revision: int
    path: str
    gone: bool = field(order=False)
    body: dict[str, Json] = field(order=False)

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(self.body["metadata"]["uid"])


@define
class _Follower:
    """The events of one kind, followed in a thread of its own."""

    cluster: Cluster
    path: str
    stop: threading.Event
    events: list[Event] = field(factory=list)
    revision: str = ""

    def follow(self) -> None:
        with self.cluster.client() as client:
            while not self.stop.is_set():
                with suppress(httpx.TransportError):  # the next watch begins where this one broke off
                    if self.revision:
                        self._watch(client)
                    else:
                        self._list(client)

    def _list(self, client: httpx.Client) -> None:
        answer = client.get(self.path)
        if answer.is_error:  # the kind is not served now: its definition was removed, and may come back
            time.sleep(LOOK_EVERY_S)
            return
        listed = answer.json()
        now = {item["metadata"]["uid"] for item in listed["items"]}
        for uid, body in self.known().items():
            if uid not in now:
                self.events.append(Event(int(listed["metadata"]["resourceVersion"]), self.path, True, body))
        for item in listed["items"]:
            self._saw(item, gone=False)
        self.revision = listed["metadata"]["resourceVersion"]

    def _watch(self, client: httpx.Client) -> None:
        asked = {"watch": "1", "resourceVersion": self.revision, "timeoutSeconds": str(WATCH_S)}
        with client.stream("GET", self.path, params=asked) as answer:
            if answer.is_error:
                self.revision = ""
                return
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    self.revision = ""
                    return
                self._saw(event["object"], gone=event["type"] == "DELETED")
                self.revision = event["object"]["metadata"]["resourceVersion"]

    def _saw(self, body: dict[str, Json], *, gone: bool) -> None:
        self.events.append(Event(int(body["metadata"]["resourceVersion"]), self.path, gone, body))

    def known(self) -> dict[str, dict[str, Json]]:
        """The objects that are there, by UID, as they were last seen."""
        known = {}
        for event in list(self.events):
            known[event.uid] = event.body
            if event.gone:
                del known[event.uid]
        return known

    def has_seen(self, client: httpx.Client) -> bool:
        """Whether every object is known as it is now."""
        answer = client.get(self.path)
        if answer.is_error:
            return False
        now = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in answer.json()["items"]}
        return now == {uid: body["metadata"]["resourceVersion"] for uid, body in self.known().items()}


@define
class Observer:
    """Follows claims, Pods, Jobs and Runs of all namespaces.

    Attributes:
        cluster: where.
        followers: one for each kind.
        by_hand: finalizers that a test removed itself, as an administrator might.
    """

    cluster: Cluster
    followers: list[_Follower] = field(factory=list)
    by_hand: set[str] = field(factory=set)

    @classmethod
    @contextmanager
    def watching(cls, cluster: Cluster) -> Iterator["Observer"]:
        """An observer at work until leaving."""
        stop = threading.Event()
        observer = cls(cluster, [_Follower(cluster, path, stop) for path in (CLAIMS, PODS, JOBS, RUNS)])
        threads = [threading.Thread(target=follower.follow) for follower in observer.followers]
        for thread in threads:
            thread.start()
        try:
            yield observer
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def events(self) -> list[Event]:
        """Everything until now, in the server's order; waits until all watches are that far."""
        deadline = time.monotonic() + PATIENCE_S
        with self.cluster.client() as client:
            for follower in self.followers:
                while not follower.has_seen(client):
                    assert time.monotonic() < deadline, f"the watch of {follower.path} is behind"
                    time.sleep(0.05)
        return sorted(event for follower in self.followers for event in list(follower.events))

    def violations(self) -> list[str]:
        """What broke an invariant, each with its revision."""
        return list(violations(self.events(), self.by_hand))


def violations(events: list[Event], by_hand: Container[str] = ()) -> Iterator[str]:
    """Replay the events and say which write broke which invariant; who releases by hand is not judged."""
    stored: dict[str, dict[str, dict[str, Json]]] = {CLAIMS: {}, PODS: {}, JOBS: {}, RUNS: {}}
    for event in events:
        of_kind = stored[event.path]
        before = of_kind.get(event.uid)
        if event.gone:
            of_kind.pop(event.uid, None)
        else:
            of_kind[event.uid] = event.body
        if event.path == JOBS and before is None and not event.gone:
            yield from _unprotected_job(event, stored)
        if event.path == CLAIMS and before is not None:
            yield from _early_release(event, before, stored, by_hand)
        if event.path == RUNS and before is not None:
            yield from _changed_end(event, before)


def _unprotected_job(event: Event, stored: dict[str, dict[str, dict[str, Json]]]) -> Iterator[str]:
    uid = event.body["metadata"].get("labels", {}).get(RUN_UID_LABEL)
    run = stored[RUNS].get(uid)
    claim_name = _trace_claim(run) if run else None
    if claim_name is None:
        return
    namespace = event.body["metadata"]["namespace"]
    for claim in stored[CLAIMS].values():
        metadata = claim["metadata"]
        if (metadata["namespace"], metadata["name"]) == (namespace, claim_name):
            if "deletionTimestamp" in metadata:
                yield f"{event.revision}: Job of Run {uid} was created on a claim that is being deleted"
            if claim_finalizer(uid) not in metadata.get("finalizers", []):
                yield f"{event.revision}: Job of Run {uid} was created before its finalizer"
            return
    yield f"{event.revision}: Job of Run {uid} was created without a claim"


def _early_release(
    event: Event, before: dict[str, Json], stored: dict[str, dict[str, dict[str, Json]]], by_hand: Container[str]
) -> Iterator[str]:
    now = () if event.gone else event.body["metadata"].get("finalizers", ())
    for finalizer in before["metadata"].get("finalizers", ()):
        if not is_claim_finalizer(finalizer) or finalizer in now or finalizer in by_hand:
            continue

        def holds(each: dict[str, Json], finalizer: str = finalizer) -> bool:
            uid = each["metadata"].get("labels", {}).get(RUN_UID_LABEL)
            return uid is not None and claim_finalizer(uid) == finalizer

        exists = any(claim_finalizer(uid) == finalizer for uid in stored[RUNS])
        for job in filter(holds, stored[JOBS].values()):
            if not exists or not _is_finished(job):
                yield f"{event.revision}: {finalizer} was released, and Job {job['metadata']['name']} is left"
        for pod in filter(holds, stored[PODS].values()):
            if not exists:
                yield f"{event.revision}: {finalizer} was released, and Pod {pod['metadata']['name']} is left"


def _changed_end(event: Event, before: dict[str, Json]) -> Iterator[str]:
    was, now = _completed(before), _completed(event.body)
    if was is not None and was["status"] == "True" and was != now and not event.gone:
        yield f"{event.revision}: the end of Run {event.body['metadata']['name']} changed from {was} to {now}"


def _completed(run: dict[str, Json]) -> dict[str, Json] | None:
    for condition in run.get("status", {}).get("conditions", []):
        if condition["type"] == "Completed":
            return dict(condition)
    return None


def _is_finished(job: dict[str, Json]) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def _trace_claim(run: dict[str, Json]) -> str | None:
    trace = run["spec"].get("workload", {}).get("trace")
    return None if trace is None else str(trace["source"]["persistentVolumeClaim"]["claimName"])
