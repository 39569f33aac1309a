"""A simulated cluster for tests of the controllers, and what they ask of it."""

import asyncio
import copy
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from dgdr_retune.controllers import Configuration, Controllers
from dgdr_retune.kube import Answer, Api, Call, Stream
from dgdr_retune.testing import SimulatedTransport, VirtualLoop
from dgdr_retune.testing._node import Script
from dgdr_retune.testing._store import Key
from dgdr_retune.testing._world import World

CONFIGURATION = Configuration(
    sweeper_image="registry.example/dgdr-retune:0.1.0",
    publisher_image="registry.example/dgdr-retune:0.1.0",
    runtime_image="registry.example/vllm-runtime:1.6.1",
)
REQUEST = json.loads((Path(__file__).parents[1] / "data" / "trace_request_lowering.golden.json").read_text())["request"]
NAMESPACE = "inference"
CLAIM = "request-traces"
REQUESTS = "nvidia.com/dynamographdeploymentrequests"
RUNS = "nvidia.com/dynamographdeploymentruns"
CLAIMS = "/persistentvolumeclaims"
JOBS = "batch/jobs"
PODS = "/pods"

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_UNCOUNTED = ("events", "leases", "serviceaccounts", "rolebindings")


@frozen
class Asked:
    """One call as RBAC sees it, and how it ended."""

    verb: str
    group: str
    resource: str
    name: str
    status: int

    @property
    def what(self) -> str:
        return f"{self.verb} {self.resource}"

    @property
    def is_counted_write(self) -> bool:
        return self.verb not in ("get", "list", "watch") and self.resource not in _UNCOUNTED


def asked(call: Call, status: int) -> Asked:
    parts = call.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS[call.method]
    if verb == "get" and not name:
        verb = "watch" if call.query.get("watch") else "list"
    return Asked(verb, group, f"{resource}/{subresource}" if subresource else resource, name, status)


@define
class Recorded:
    """A transport that keeps what it was asked; `instead` may answer in the server's place."""

    inner: SimulatedTransport
    calls: list[Asked] = field(factory=list)
    instead: Callable[[Call], Awaitable[Answer | None]] | None = None

    async def send(self, call: Call) -> Answer:
        answer = None if self.instead is None else await self.instead(call)
        if answer is None:
            answer = await self.inner.send(call)
        self.calls.append(asked(call, answer.status))
        return answer

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        self.calls.append(asked(call, 200))
        return self.inner.stream(call)

    def writes(self) -> list[str]:
        return [each.what for each in self.calls if each.is_counted_write]


@define
class Events:
    """Where Events go."""

    recorded: list[tuple[str, str]] = field(factory=list)

    def record(self, about: dict[str, Any], reason: str, message: str, type_: str = "Normal") -> None:  # noqa: ARG002
        self.recorded.append((about["metadata"]["name"], reason))


@define
class Cluster:
    """A world, the controllers in it, and what people do."""

    loop: VirtualLoop
    world: World
    transport: Recorded
    events: Events = field(factory=Events)
    looks: Counter[str] = field(factory=Counter)

    @property
    def people(self) -> Any:
        return self.world.access("people")

    def api(self) -> Api:
        return Api(self.transport, rng=random.Random(1))  # noqa: S311 - jitter

    def claim(self, name: str = CLAIM, *, phase: str = "Bound", mode: str = "Filesystem") -> None:
        spec = {"accessModes": ["ReadWriteMany"], "volumeMode": mode}
        self.people.create(CLAIMS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})
        self.people.patch(Key(CLAIMS, NAMESPACE, name), {"status": {"phase": phase}}, "status")

    def request(self, name: str = "q", *, claim: str = CLAIM, annotations: Mapping[str, str] | None = None) -> None:
        spec = copy.deepcopy(REQUEST["spec"])
        spec["workload"]["trace"]["source"]["persistentVolumeClaim"]["claimName"] = claim
        metadata = {"name": name, "annotations": dict(annotations or {})}
        self.people.create(REQUESTS, NAMESPACE, {"metadata": metadata, "spec": spec})

    def done_run(self, name: str, *, claim: str = CLAIM) -> None:
        """A Run of somebody else's that has come to its end."""
        spec = copy.deepcopy(REQUEST["spec"])
        spec["workload"]["trace"]["source"]["persistentVolumeClaim"]["claimName"] = claim
        self.people.create(RUNS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})
        said = {"type": "Completed", "status": "True", "reason": "SearchSucceeded", "message": ""}
        condition = {**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": "Succeeded", "conditions": [condition]}
        self.people.patch(Key(RUNS, NAMESPACE, name), {"status": status}, "status")

    def get(self, resource: str, name: str) -> Any:
        return self.people.get(Key(resource, NAMESPACE, name))

    def all(self, resource: str) -> list[Any]:
        return list(self.people.all(resource, NAMESPACE))

    def finalizers(self, claim: str = CLAIM) -> list[str]:
        return [each for each in self.get(CLAIMS, claim)["metadata"]["finalizers"] if "dgdr-run" in each]

    def reason(self, run: str) -> str:
        conditions = (self.get(RUNS, run) or {}).get("status", {}).get("conditions") or [{"reason": ""}]
        return str(conditions[0]["reason"])

    async def until(self, holds: Callable[[], Any], *, most_s: float = 3600.0) -> None:
        async with asyncio.timeout(most_s):
            while not holds():  # noqa: ASYNC110 - the server has no event for it, and time is virtual
                await asyncio.sleep(0.05)

    def controllers(self, configuration: Configuration = CONFIGURATION) -> Controllers:
        return Controllers(
            self.api(),
            configuration,
            now=self.loop.now,
            rng=random.Random(2),  # noqa: S311 - jitter
            events=self.events,
            reconciled=lambda controller, _outcome, _seconds: self.looks.update([controller]),
        )

    @asynccontextmanager
    async def running(self, configuration: Configuration = CONFIGURATION) -> AsyncIterator[Controllers]:
        controllers = self.controllers(configuration)
        task = asyncio.create_task(controllers.run())
        await self.until(lambda: controllers.synced or task.done())
        try:
            yield controllers
        finally:
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled(), task.exception()


def in_cluster(scenario: Callable[[Cluster], Awaitable[None]], *, script: Script | None = None, seed: int = 1) -> None:
    """Run a scenario on virtual time."""
    with VirtualLoop() as loop:
        world = World(loop, seed)
        if script is not None:
            world.script = script
        world.access("people").create("/namespaces", "", {"metadata": {"name": NAMESPACE}})
        cluster = Cluster(loop, world, Recorded(SimulatedTransport(world.server)))

        async def main() -> None:
            await scenario(cluster)

        loop.run(main(), until_s=1_000_000)
