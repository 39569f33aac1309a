"""A namespace with one Run, its pod and its snapshot directory, on a simulated server; and calls that go wrong."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from attrs import define, field
from tests.publisher.snapshots import text

from dgdr_retune.api import KINDS, REQUEST, SNAPSHOT_FILE, custom_resource_definition
from dgdr_retune.kube import PODS, Answer, Api, Call, MaybeAppliedError, Stream, Transport
from dgdr_retune.publisher._act import CANDIDATES, RUNS, Cluster
from dgdr_retune.publisher._errors import Exit
from dgdr_retune.publisher._publisher import Publisher
from dgdr_retune.testing import SimulatedApiServer, SimulatedTransport, VirtualLoop

Json = Any

NAMESPACE = "default"
RUN = "qwen-run-1"
POD = "qwen-run-1-x7k2p"
UID_LABEL = "nvidia.com/dgdr-run-uid"
WRITES = ("POST", "PUT", "PATCH", "DELETE")
POLL_S = 1.0

RUN_BODY = {
    "apiVersion": "nvidia.com/v1beta2",
    "kind": "DynamoGraphDeploymentRun",
    "metadata": {"name": RUN},
    "spec": {
        "modelRef": {"name": "Qwen/Qwen3-0.6B"},
        "backends": ["vllm"],
        "hardware": {"gpu": {"sku": "h200_sxm", "budget": 2}},
        "workload": {"static": {"isl": 10, "osl": 10, "concurrency": 1}},
    },
}


class KilledError(Exception):
    """The process ends here, as by SIGKILL."""


@define
class Fault:
    """What happens to the write of a number, counted from 1.

    Attributes:
        at: which write.
        before: whether it happens before the server has it; else after.
        killed: whether the process ends; else only the reply is lost.
    """

    at: int
    before: bool
    killed: bool

    def strike(self) -> None:
        if self.killed:
            raise KilledError
        raise MaybeAppliedError("the reply is lost")


@define
class WatchedTransport:
    """A transport that counts, checks and spoils writes."""

    inner: Transport
    on_call: Callable[[Call], Awaitable[Answer | None]] | None = None
    faults: Sequence[Fault] = ()
    calls: list[Call] = field(factory=list)
    after_write: Callable[[Call], Awaitable[None]] | None = None
    _writes: int = 0

    async def send(self, call: Call) -> Answer:
        self.calls.append(call)
        if self.on_call is not None and (said := await self.on_call(call)) is not None:
            return said
        if call.method not in WRITES:
            return await self.inner.send(call)
        self._writes += 1
        due = [each for each in self.faults if each.at == self._writes]
        for fault in due:
            if fault.before:
                fault.strike()
        answer = await self.inner.send(call)
        if self.after_write is not None:
            await self.after_write(call)
        for fault in due:
            fault.strike()
        return answer

    def begin(self, faults: Sequence[Fault]) -> None:
        """Count from here, with these faults."""
        self.faults, self._writes = faults, 0
        self.calls.clear()

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        return self.inner.stream(call)

    @property
    def writes(self) -> list[str]:
        """Each write as verb, kind and subresource."""
        return [f"{call.method} {'/'.join(call.path.split('/')[6:])}" for call in self.calls if call.method in WRITES]


@define
class World:
    """The server's truth, and what a test changes in it."""

    directory: Path
    loop: VirtualLoop
    server: SimulatedApiServer
    transport: WatchedTransport
    api: Api
    admin: Api

    async def prepare(self) -> None:
        await self.make_run(RUN_BODY)
        await self.make_pod()

    async def make_run(self, run: Json) -> None:
        made = await self.admin.create(RUNS, NAMESPACE, run)
        status = {"status": {"phase": "Running", "conditions": [CONDITION]}}
        await self.admin.patch(RUNS, NAMESPACE, RUN, {**status, "metadata": stamp(made)}, subresource="status")

    async def make_pod(self, **changes: Json) -> None:
        uid = (await self.run())["metadata"]["uid"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": POD, "labels": {UID_LABEL: uid}},
            "spec": {"containers": [{"name": name, "image": "i"} for name in ("sweeper", "publisher")]},
        }
        await self.admin.create(PODS, NAMESPACE, pod | changes)
        await self.set_sweeper({"running": {}})

    async def run(self) -> Json:
        return await self.admin.get(RUNS, NAMESPACE, RUN)

    async def candidates(self) -> dict[str, Json]:
        listing = await self.admin.list(CANDIDATES, NAMESPACE)
        return {each["metadata"]["name"]: each for each in listing.items}

    async def set_sweeper(self, state: Json) -> None:
        statuses = [{"name": "publisher", "state": {"running": {}}}, {"name": "sweeper", "state": state}]
        pod = await self.admin.get(PODS, NAMESPACE, POD)
        patch = {"metadata": stamp(pod), "status": {"containerStatuses": statuses}}
        await self.admin.patch(PODS, NAMESPACE, POD, patch, subresource="status")

    async def end_sweeper(self, code: int) -> None:
        await self.set_sweeper({"terminated": {"exitCode": code}})

    def write(self, document: Json) -> None:
        content = document if isinstance(document, bytes) else text(document)
        (self.directory / SNAPSHOT_FILE).write_bytes(content)

    def publisher(self) -> Publisher:
        cluster = Cluster(api=self.api, namespace=NAMESPACE, pod_name=POD, run_name=RUN)
        return Publisher(
            cluster,
            snapshot_dir=self.directory,
            sweeper="sweeper",
            poll_interval_s=POLL_S,
            now=self.loop.now,
        )

    async def publish(self) -> Exit:
        """Run a publisher to its end, in a process that is killed wherever a fault says so, and started again."""
        while True:
            try:
                return await self.publisher().run()
            except KilledError:
                await asyncio.sleep(0.1)

    async def end_state(self) -> Json:
        """What is published, without what a server makes up and without times."""
        run, candidates = await self.run(), await self.candidates()
        return {
            "run": run["status"],
            "candidates": {name: comparable(each) for name, each in candidates.items()},
        }


CONDITION = {
    "type": "Completed",
    "status": "False",
    "reason": "EvaluatingCandidates",
    "message": "",
    "lastTransitionTime": "2026-10-01T12:00:00Z",
}


def comparable(candidate: Json) -> Json:
    kept = {name: candidate["metadata"].get(name) for name in ("name", "labels", "annotations", "ownerReferences")}
    status = candidate.get("status", {})
    conditions = [{**each, "lastTransitionTime": ""} for each in status.get("conditions", [])]
    return {"metadata": kept, "spec": candidate["spec"], "status": {**status, "conditions": conditions}}


def stamp(obj: Json) -> Json:
    return {"resourceVersion": obj["metadata"]["resourceVersion"]}


def make_api(transport: Transport) -> Api:
    return Api(transport, rng=random.Random(1))  # noqa: S311 - jitter is no secret


def make_world(directory: Path, loop: VirtualLoop) -> World:
    server = SimulatedApiServer(now=loop.now)
    for kind in KINDS:
        if kind is not REQUEST:
            server.install(custom_resource_definition(kind))
    simulated = SimulatedTransport(server)
    transport = WatchedTransport(simulated)
    return World(
        directory=directory,
        loop=loop,
        server=server,
        transport=transport,
        api=make_api(transport),
        admin=make_api(simulated),
    )


def body(call: Call) -> Json:
    return json.loads(call.body)
