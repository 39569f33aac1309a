"""What the operator relies on in a cluster around the API server, asked of the simulated one and of a real one."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import httpx
import pytest
from attrs import frozen
from tests.cluster.namespace import Namespace
from tests.cluster.pods import pod_spec, python_container

from dgdr_retune.testing import Script, VirtualLoop, World, transport

Json = Any

WITHIN_S = 120.0
TRACKING = "batch.kubernetes.io/job-tracking"
PROTECTION = "kubernetes.io/pvc-protection"
_numbers = itertools.count()


class Waits(Protocol):
    def __call__(self, what: str, holds: Callable[[], Any]) -> None: ...


@frozen
class Place:
    """A namespace in a cluster.

    Attributes:
        client: asks its API server.
        name: of the namespace.
        wait: until something holds.
        script: says how long the pod of a Job runs, and how it ends.
        bind: makes a claim that is bound.
    """

    client: httpx.Client
    name: str
    wait: Waits
    script: Callable[[str, float, int], dict[str, Json]]
    bind: Callable[[str], None]

    def path(self, plural: str, name: str = "") -> str:
        root = {"jobs": "/apis/batch/v1"}.get(plural, "/api/v1")
        return f"{root}/namespaces/{self.name}/{plural}" + (f"/{name}" if name else "")

    def create(self, plural: str, kind: str, name: str, metadata: Json = None, **fields: Json) -> Json:
        version = "batch/v1" if plural == "jobs" else "v1"
        document = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **fields}
        answer = self.client.post(self.path(plural), json=document)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def get(self, plural: str, name: str) -> Json:
        answer = self.client.get(self.path(plural, name))
        return answer.json() if answer.status_code == 200 else None

    def delete(self, plural: str, name: str, policy: str) -> None:
        answer = self.client.delete(self.path(plural, name), params={"propagationPolicy": policy})
        assert answer.is_success, answer.text

    def release(self, plural: str, name: str) -> None:
        """Take every finalizer off an object."""
        answer = self.client.patch(
            self.path(plural, name),
            content=json.dumps({"metadata": {"finalizers": []}}),
            headers={"content-type": "application/merge-patch+json"},
        )
        assert answer.is_success, answer.text

    def job(self, name: str, *, seconds: float = 0.0, code: int = 0, claim: str = "") -> Json:
        spec = self.script(name, seconds, code)
        if claim:
            spec["volumes"] = [{"name": "traces", "persistentVolumeClaim": {"claimName": claim}}]
        return self.create("jobs", "Job", name, spec={"backoffLimit": 0, "template": {"spec": spec}})

    def pod_of(self, job: str) -> Json:
        pods = self.client.get(self.path("pods"), params={"labelSelector": f"batch.kubernetes.io/job-name={job}"})
        return next(iter(pods.json()["items"]), None)

    def phase_of(self, job: str) -> str:
        pod = self.pod_of(job)
        return "" if pod is None else str(pod["status"].get("phase"))

    def conditions_of(self, job: str) -> list[str]:
        conditions = self.get("jobs", job).get("status", {}).get("conditions", ())
        return [each["type"] for each in conditions if each["status"] == "True"]


@contextmanager
def simulated() -> Iterator[Place]:
    with VirtualLoop() as loop:
        world = World(loop, seed=next(_numbers))
        people = world.access("people")
        people.create("/namespaces", "", {"metadata": {"name": "place"}})

        def wait(what: str, holds: Callable[[], Any]) -> None:
            async def until() -> None:
                end = loop.time() + WITHIN_S
                while not holds():
                    assert loop.time() < end, f"not within {WITHIN_S} s: {what}"
                    await asyncio.sleep(0.05)

            loop.run(until())

        def script(name: str, seconds: float, code: int) -> dict[str, Json]:
            world.scripts[name] = Script(sweeper_s=seconds, sweeper_exit=code)
            return {"restartPolicy": "Never", "containers": [{"name": "sweeper", "image": "any"}]}

        def bind(name: str) -> None:
            place.create("persistentvolumeclaims", "PersistentVolumeClaim", name)
            url = f"{place.path('persistentvolumeclaims', name)}/status"
            place.client.patch(
                url,
                content=json.dumps({"status": {"phase": "Bound"}}),
                headers={"content-type": "application/merge-patch+json"},
            ).raise_for_status()

        with httpx.Client(base_url="http://simulated", transport=transport(world.server)) as client:
            place = Place(client, "place", wait, script, bind)
            yield place


@contextmanager
def real(namespace: Namespace) -> Iterator[Place]:
    def wait(what: str, holds: Callable[[], Any]) -> None:
        namespace.wait(what, holds, within_s=WITHIN_S)

    def script(_: str, seconds: float, code: int) -> dict[str, Json]:
        ends_at_once = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(143))"
        source = f"{ends_at_once}; time.sleep({seconds}); sys.exit({code})"
        return pod_spec(python_container(source))

    def bind(name: str) -> None:
        namespace.make_claim(name)
        wait("a bound claim", lambda: place.get("persistentvolumeclaims", name)["status"]["phase"] == "Bound")

    place = Place(namespace.client, namespace.name, wait, script, bind)
    yield place


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.root)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    opened = simulated() if request.param == "simulated" else real(request.getfixturevalue("namespace"))
    with opened as found:
        yield found


def owned_by(owner: Json, **fields: Json) -> Json:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
    return {"ownerReferences": [{**reference, "uid": owner["metadata"]["uid"], **fields}]}


def test_what_is_owned_goes_after_its_owner(place: Place) -> None:
    owner = place.create("configmaps", "ConfigMap", "owner")
    place.create("configmaps", "ConfigMap", "owned", owned_by(owner))
    place.delete("configmaps", "owner", "Background")
    assert place.get("configmaps", "owner") is None
    place.wait("that it is gone", lambda: place.get("configmaps", "owned") is None)


def test_an_owner_that_goes_in_the_foreground_waits_for_what_blocks_it(place: Place) -> None:
    owner = place.create("configmaps", "ConfigMap", "owner")
    held = {"finalizers": ["example.com/held"]}
    place.create("configmaps", "ConfigMap", "blocks", {**owned_by(owner, blockOwnerDeletion=True), **held})
    place.create("configmaps", "ConfigMap", "does-not", {**owned_by(owner), **held})
    place.delete("configmaps", "owner", "Foreground")
    for name in ("blocks", "does-not"):
        place.wait("a deletion", lambda name=name: place.get("configmaps", name)["metadata"].get("deletionTimestamp"))
    assert place.get("configmaps", "owner")["metadata"]["finalizers"] == ["foregroundDeletion"]
    place.release("configmaps", "blocks")
    place.wait("that the owner is gone", lambda: place.get("configmaps", "owner") is None)
    assert place.get("configmaps", "does-not") is not None
    place.release("configmaps", "does-not")


def test_an_orphan_loses_its_owner_and_stays(place: Place) -> None:
    owner = place.create("configmaps", "ConfigMap", "owner")
    place.create("configmaps", "ConfigMap", "owned", owned_by(owner))
    place.delete("configmaps", "owner", "Orphan")
    place.wait("that the owner is gone", lambda: place.get("configmaps", "owner") is None)
    assert not place.get("configmaps", "owned")["metadata"].get("ownerReferences")


def test_what_has_another_owner_stays(place: Place) -> None:
    first = place.create("configmaps", "ConfigMap", "first")
    second = place.create("configmaps", "ConfigMap", "second")
    owners = [*owned_by(first)["ownerReferences"], *owned_by(second)["ownerReferences"]]
    place.create("configmaps", "ConfigMap", "owned", {"ownerReferences": owners})
    place.delete("configmaps", "first", "Background")

    def owner_names() -> list[str]:
        return [each["name"] for each in place.get("configmaps", "owned")["metadata"]["ownerReferences"]]

    place.wait("that it lets go of what is gone", lambda: owner_names() == ["second"])


def test_a_job_is_complete_after_its_pod_has_succeeded(place: Place) -> None:
    job = place.job("works")
    place.wait("a pod", lambda: place.pod_of("works"))
    pod = place.pod_of("works")["metadata"]
    (owner,) = pod["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Job", job["metadata"]["uid"])
    assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, True)
    place.wait("the end", lambda: "Complete" in place.conditions_of("works"))
    assert place.conditions_of("works") == ["SuccessCriteriaMet", "Complete"]
    assert place.phase_of("works") == "Succeeded"
    assert TRACKING not in place.pod_of("works")["metadata"].get("finalizers", ())


def test_a_job_has_failed_after_its_pod_has(place: Place) -> None:
    place.job("fails", code=2)
    place.wait("the end", lambda: "Failed" in place.conditions_of("fails"))
    assert place.conditions_of("fails") == ["FailureTarget", "Failed"]
    (container,) = place.pod_of("fails")["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 2


def test_a_job_that_is_stopped_in_the_foreground_goes_after_its_pod(place: Place) -> None:
    place.job("runs", seconds=3600)
    place.wait("a running pod", lambda: place.phase_of("runs") == "Running")
    assert TRACKING in place.pod_of("runs")["metadata"]["finalizers"]
    place.delete("jobs", "runs", "Foreground")
    order: list[tuple[bool, bool]] = []

    def gone() -> bool:
        order.append((place.get("jobs", "runs") is not None, place.pod_of("runs") is not None))
        return not any(order[-1])

    place.wait("the end of both", gone)
    assert (False, True) not in order  # asked for the Job first: one that is gone has no pod


def test_a_job_that_is_deleted_twice_in_the_foreground_goes_too(place: Place) -> None:
    place.job("runs", seconds=3600)
    place.wait("a running pod", lambda: place.phase_of("runs") == "Running")
    place.delete("jobs", "runs", "Foreground")
    place.delete("jobs", "runs", "Foreground")
    place.wait("its end", lambda: place.get("jobs", "runs") is None and place.pod_of("runs") is None)


def test_a_pod_that_runs_has_time_to_end_and_one_that_has_ended_none(place: Place) -> None:
    place.job("runs", seconds=3600)
    place.wait("a running pod", lambda: place.phase_of("runs") == "Running")
    running = place.pod_of("runs")["metadata"]["name"]
    place.delete("pods", running, "Background")
    metadata = place.get("pods", running)["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 30
    place.wait("that the pod is gone", lambda: place.get("pods", running) is None)
    place.wait("what the Job makes of it", lambda: "Failed" in place.conditions_of("runs"))
    place.job("works")
    place.wait("the end", lambda: "Complete" in place.conditions_of("works"))
    ended = place.pod_of("works")["metadata"]["name"]
    place.delete("pods", ended, "Background")
    assert place.get("pods", ended) is None


def test_a_claim_is_kept_as_long_as_a_pod_that_mounts_it_is_there(place: Place) -> None:
    place.bind("traces")
    assert place.get("persistentvolumeclaims", "traces")["metadata"]["finalizers"] == [PROTECTION]
    place.job("works", claim="traces")
    place.wait("the end", lambda: "Complete" in place.conditions_of("works"))
    place.delete("persistentvolumeclaims", "traces", "Background")
    place.job("later")
    place.wait("the end of a later Job", lambda: "Complete" in place.conditions_of("later"))
    assert place.get("persistentvolumeclaims", "traces")["metadata"]["finalizers"] == [PROTECTION]
    place.delete("jobs", "works", "Background")
    place.wait("that the claim is gone", lambda: place.get("persistentvolumeclaims", "traces") is None)


def test_a_pod_waits_for_its_claim(place: Place) -> None:
    place.job("waits", claim="traces")
    place.wait("why the pod waits", lambda: (place.pod_of("waits") or {}).get("status", {}).get("conditions"))
    assert place.phase_of("waits") == "Pending"
    (condition,) = place.pod_of("waits")["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    place.bind("traces")
    place.wait("the end", lambda: "Complete" in place.conditions_of("waits"))


def test_a_namespace_goes_after_all_that_is_in_it(place: Place) -> None:
    url = "/api/v1/namespaces"
    name = f"goes-{time.time_ns()}"
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    made = place.client.post(url, json=document).json()
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/held"]},
    }
    place.client.post(f"{url}/{name}/configmaps", json=held).raise_for_status()
    going = place.client.delete(f"{url}/{name}").json()
    assert going["status"]["phase"] == "Terminating"
    elsewhere = Place(place.client, name, place.wait, place.script, place.bind)
    place.wait("a deletion", lambda: elsewhere.get("configmaps", "held")["metadata"].get("deletionTimestamp"))
    refused = place.client.post(
        f"{url}/{name}/configmaps", json={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
    )
    assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")
    elsewhere.release("configmaps", "held")
    place.wait("that it is gone", lambda: place.client.get(f"{url}/{name}").status_code == 404)
