"""What parts of a simulated cluster have in common: each looks at one object at a time, some time after it changed."""

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from typing import Final

from dgdr_retune.api import CANDIDATE, GROUP, REQUEST, RUN
from dgdr_retune.testing._errors import ApiError
from dgdr_retune.testing._http import answer
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._patches import MERGE
from dgdr_retune.testing._requests import Request, Response
from dgdr_retune.testing._resources import Resource
from dgdr_retune.testing._server import SimulatedApiServer
from dgdr_retune.testing._store import Key, Write

CLAIMS: Final = "/persistentvolumeclaims"
EVENTS: Final = "/events"
CANDIDATES: Final = f"{GROUP}/{CANDIDATE.plural}"
REQUESTS: Final = f"{GROUP}/{REQUEST.plural}"
RUNS: Final = f"{GROUP}/{RUN.plural}"
JOBS: Final = "batch/jobs"
LEASES: Final = "coordination.k8s.io/leases"
NAMESPACES: Final = "/namespaces"
PODS: Final = "/pods"
SERVICE_ACCOUNTS: Final = "/serviceaccounts"


class Desk:
    """Where every request of the world goes through, so that each write has an author.

    Attributes:
        server: what answers.
        actor: who is being answered.
    """

    def __init__(self, server: SimulatedApiServer) -> None:
        self.server = server
        self.actor = "nobody"

    def handle(self, actor: str, request: Request) -> Response:
        """Answer a request of an actor."""
        self.actor = actor
        try:
            return answer(self.server, request)
        finally:
            self.actor = "nobody"


class Access:
    """The API as somebody inside the world uses it: without delay, and without faults."""

    def __init__(self, desk: Desk, actor: str) -> None:
        self.actor = actor
        self._desk = desk

    def get(self, key: Key) -> Json:
        """The object, which is not to be changed in place; None if it is not there."""
        return self._desk.server.store.get(key)

    def all(self, resource: str, namespace: str = "") -> Iterator[Json]:
        """The objects of a resource, by namespace and name; not to be changed in place."""
        return (value for _, value in self._desk.server.store.items(resource, namespace))

    def namespaced(self) -> list[str]:
        """The resources whose objects are in namespaces."""
        return [each.key for each in self._desk.server.resources() if each.namespaced]

    def create(self, resource: str, namespace: str, body: Mapping[str, Json]) -> Json:
        """Create an object; ``apiVersion`` and ``kind`` are added.

        Raises:
            ApiError: it is refused.
        """
        served = self._resource(resource)
        whole = {"apiVersion": served.api_version, "kind": served.kind, **body}
        return self._ask("POST", _path(served, namespace), whole)

    def patch(self, key: Key, patch: Json, subresource: str = "") -> Json:
        """Merge a patch into an object.

        Raises:
            ApiError: it is refused.
        """
        return self._ask("PATCH", self._path_of(key, subresource), patch)

    def put(self, key: Key, value: Json, subresource: str = "") -> Json:
        """Replace an object.

        Raises:
            ApiError: it is refused.
        """
        return self._ask("PUT", self._path_of(key, subresource), value)

    def delete(self, key: Key, policy: str = "", grace_s: int | None = None) -> None:
        """Delete the object that is there now.

        Raises:
            ApiError: it is refused.
        """
        options: dict[str, Json] = {"preconditions": {"uid": self.get(key)["metadata"]["uid"]}}
        if policy:
            options["propagationPolicy"] = policy
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        self._ask("DELETE", self._path_of(key), options)

    def _ask(self, method: str, path: str, body: Json) -> Json:
        content_type = MERGE if method == "PATCH" else "application/json"
        response = self._desk.handle(self.actor, Request(method, path, {}, content_type, json.dumps(body).encode()))
        if response.code >= 400:  # noqa: PLR2004 - HTTP's first code of a refusal
            raise ApiError(response.code, response.body.get("reason", ""), response.body["message"])
        return response.body

    def _path_of(self, key: Key, subresource: str = "") -> str:
        path = f"{_path(self._resource(key.resource), key.namespace)}/{key.name}"
        return f"{path}/{subresource}" if subresource else path

    def _resource(self, key: str) -> Resource:
        return next(each for each in self._desk.server.resources() if each.key == key)


class Part:
    """One controller of the cluster, such as the garbage collector.

    Args:
        access: what it uses; the actor's name is its own.
        loop: whose time it lives in.
        rng: how long it takes to notice.
        pace: how slow it is: 1 for a cluster with nothing else to do.
    """

    def __init__(
        self, access: Access, loop: asyncio.AbstractEventLoop, rng: random.Random, *, pace: float = 1.0
    ) -> None:
        self.access = access
        self.loop = loop
        self.rng = rng
        self.pace = pace
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def saw(self, write: Write) -> None:
        """Something was written: say with :meth:`look` what is to be looked at for that."""
        raise NotImplementedError

    def sync(self, key: Key) -> None:
        """Look at an object, and write at most once: others may write between two writes of a controller."""
        raise NotImplementedError

    def look(self, key: Key, after_s: float | None = None) -> None:
        """Look at an object after some seconds, or as soon as the part notices; the earliest time counts."""
        delay_s = self.pace * self.rng.uniform(0.005, 0.2) if after_s is None else after_s
        due = self.loop.time() + delay_s
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = self.loop.call_at(due, self._run, key)

    def _run(self, key: Key) -> None:
        del self._timers[key]
        self.sync(key)


def key_of(value: Json, resource: str) -> Key:
    """Where an object of a resource is."""
    return Key(resource, value["metadata"].get("namespace", ""), value["metadata"]["name"])


def controller_uid(value: Json) -> str:
    """The UID of the owner that controls an object; empty for none."""
    for owner in value["metadata"].get("ownerReferences", ()):
        if owner.get("controller") is True:
            return str(owner["uid"])
    return ""


def claims_of(pod_spec: Json) -> list[str]:
    """The names of the claims that a pod mounts."""
    volumes = (volume.get("persistentVolumeClaim") for volume in pod_spec.get("volumes", ()))
    return [volume["claimName"] for volume in volumes if volume]


def without(finalizers: list[str], finalizer: str, revision: str) -> Json:
    """The patch that takes a finalizer off an object of this revision."""
    kept = [each for each in finalizers if each != finalizer]
    return {"metadata": {"finalizers": kept, "resourceVersion": revision}}


def _path(resource: Resource, namespace: str) -> str:
    start = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{start}/namespaces/{namespace}/{resource.plural}" if namespace else f"{start}/{resource.plural}"
