"""The same calls against the simulated API server and a real one, by certificate and by service account."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import httpx
import pytest
from attrs import field, frozen
from structlog.testing import capture_logs
from tests.controlplane.control_plane import ControlPlane
from tests.kube.loopback import config_file

from dgdr_retune.kube import (
    CLAIMS,
    EVENTS,
    AlreadyExistsError,
    Answer,
    Api,
    Call,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    Json,
    Kubeconfig,
    NotFoundError,
    Reflector,
    RefusedError,
    Resource,
    Transport,
    connect,
)
from dgdr_retune.testing import SimulatedApiServer, SimulatedTransport

SERVERS = ["simulated", "certificate", "token"]
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
ACCOUNT = "default:kube-client"
FINALIZER = "nvidia.com/dgdr-run-x"
SOON_S = 20.0  # how long a real server may take to show a write


@frozen
class Server:
    """One of them, with a namespace for this test alone."""

    transport: Transport
    api: Api
    namespace: str
    forget: Callable[[], Awaitable[None]]

    def reflector(self, resource: Resource, on_change: Any = lambda *_: None, **given: Any) -> Reflector:
        rng = random.Random(1)  # noqa: S311 - for jitter
        return Reflector(self.api, resource, self.namespace, on_change=on_change, rng=rng, **given)


@pytest.fixture(scope="module")
def service_account(control_plane: ControlPlane) -> str:
    """The token of a service account that may do everything."""
    for command in (
        ("create", "serviceaccount", "kube-client", "--namespace=default"),
        (
            "create",
            "clusterrolebinding",
            "kube-client",
            "--clusterrole=cluster-admin",
            "--serviceaccount=default:kube-client",
        ),
    ):
        done = control_plane.kubectl(*command)
        assert done.returncode == 0, done.stderr
    made = control_plane.kubectl("create", "token", "kube-client", "--namespace=default")
    assert made.returncode == 0, made.stderr
    return made.stdout


async def _at_once(done: Callable[[], None]) -> None:
    done()


async def compact(plane: ControlPlane, transport: Transport) -> None:
    """Have etcd forget its past."""
    answer = await transport.send(Call(method="GET", path="/api/v1/namespaces", timeout_s=SOON_S))
    revision = json.loads(answer.body)["metadata"]["resourceVersion"]
    flag = "--advertise-client-urls="
    (store,) = (each.removeprefix(flag) for each in plane.processes[0]._process.args if each.startswith(flag))
    async with httpx.AsyncClient(trust_env=False) as client:
        answered = await client.post(
            f"{store}/v3/kv/compaction", json={"revision": revision, "physical": True}, timeout=SOON_S
        )
    assert answered.status_code == httpx.codes.OK, answered.text


Scenario = Callable[[Server], Awaitable[None]]
Run = Callable[[Scenario], None]


@pytest.fixture(params=SERVERS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a scenario on one of the servers."""
    kind = request.param
    name = f"kube-{uuid4().hex[:12]}"

    @asynccontextmanager
    async def reach() -> AsyncIterator[tuple[Transport, Callable[[], Awaitable[None]]]]:
        if kind == "simulated":
            server = SimulatedApiServer()
            yield SimulatedTransport(server), partial(_at_once, server.compact)
            return
        plane: ControlPlane = request.getfixturevalue("control_plane")
        source = plane.kubeconfig
        if kind == "token":
            (tmp_path / "token").write_text(request.getfixturevalue("service_account"))
            cluster = {"certificate-authority": str(plane.certificates.authority)}
            source = config_file(tmp_path, plane.url, cluster=cluster, tokenFile=str(tmp_path / "token"))
        async with connect(Kubeconfig(source)) as transport:
            yield transport, partial(compact, plane, transport)

    async def main(scenario: Scenario) -> None:
        async with reach() as (transport, forget):
            api = Api(transport, rng=random.Random(1))  # noqa: S311 - for jitter
            await api.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            await scenario(Server(transport, api, name, forget))

    return lambda scenario: asyncio.run(main(scenario))


def config_map(name: str, **data: str) -> dict[str, Json]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def claim(name: str) -> dict[str, Json]:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "finalizers": [FINALIZER]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def test_each_verb_does_what_it_says(run: Run) -> None:
    async def scenario(server: Server) -> None:
        api, namespace = server.api, server.namespace
        made = await api.create(CONFIG_MAPS, namespace, config_map("a", x="1"))
        assert await api.get(CONFIG_MAPS, namespace, "a") == made
        patched = await api.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": None, "y": "2"}})
        assert patched["data"] == {"y": "2"}
        operations = [{"op": "test", "path": "/data/y", "value": "2"}, {"op": "add", "path": "/data/z", "value": "3"}]
        patched = await api.json_patch(CONFIG_MAPS, namespace, "a", operations)
        assert patched["data"] == {"y": "2", "z": "3"}
        replaced = await api.replace(CONFIG_MAPS, namespace, "a", {**patched, "data": {"w": "4"}})
        assert replaced["data"] == {"w": "4"}
        listing = await api.list(CONFIG_MAPS, namespace, field_selector="metadata.name=a")
        assert listing.items == (replaced,)
        assert int(listing.resource_version) >= int(replaced["metadata"]["resourceVersion"])
        await api.delete(CONFIG_MAPS, namespace, "a", uid=made["metadata"]["uid"])
        with pytest.raises(NotFoundError):
            await api.get(CONFIG_MAPS, namespace, "a")

    run(scenario)


def test_each_refusal_has_its_class(run: Run) -> None:
    async def scenario(server: Server) -> None:
        api, namespace = server.api, server.namespace
        made = await api.create(CONFIG_MAPS, namespace, config_map("a"))
        stale, uid = made["metadata"]["resourceVersion"], made["metadata"]["uid"]
        current = await api.patch(CONFIG_MAPS, namespace, "a", {"data": {"x": "1"}})
        with pytest.raises(AlreadyExistsError):
            await api.create(CONFIG_MAPS, namespace, config_map("a"))
        with pytest.raises(ConflictError):
            await api.patch(CONFIG_MAPS, namespace, "a", {"metadata": {"resourceVersion": stale}, "data": {"y": "1"}})
        with pytest.raises(ConflictError):
            await api.replace(CONFIG_MAPS, namespace, "a", made)
        with pytest.raises(InvalidError):
            await api.json_patch(CONFIG_MAPS, namespace, "a", [{"op": "test", "path": "/data/x", "value": "9"}])
        with pytest.raises(ConflictError):
            await api.delete(CONFIG_MAPS, namespace, "a", uid="another")
        with pytest.raises(ConflictError):
            await api.delete(CONFIG_MAPS, namespace, "a", uid=uid, resource_version=stale)
        with pytest.raises(NotFoundError):
            await api.delete(CONFIG_MAPS, namespace, "b", uid=uid)
        with pytest.raises(InvalidError) as raised:
            await api.create(CONFIG_MAPS, namespace, config_map("Not A Name"))
        assert [cause.field for cause in raised.value.causes] == ["metadata.name"]
        with pytest.raises(NotFoundError):
            await api.list(Resource("", "v1", "nothings", "Nothing"), namespace)
        await api.delete(CONFIG_MAPS, namespace, "a", uid=uid, resource_version=current["metadata"]["resourceVersion"])

    run(scenario)


def test_a_finalizer_cannot_be_added_to_a_claim_that_goes(run: Run) -> None:
    async def scenario(server: Server) -> None:
        api, namespace = server.api, server.namespace
        made = await api.create(CLAIMS, namespace, claim("a"))
        await api.delete(CLAIMS, namespace, "a", uid=made["metadata"]["uid"])
        going = await api.get(CLAIMS, namespace, "a")
        assert "deletionTimestamp" in going["metadata"]
        metadata = {"resourceVersion": going["metadata"]["resourceVersion"], "finalizers": [FINALIZER, f"{FINALIZER}y"]}
        with pytest.raises(InvalidError):
            await api.patch(CLAIMS, namespace, "a", {"metadata": metadata})

    run(scenario)


def test_a_typo_is_refused_and_without_strictness_a_logged_warning(run: Run) -> None:
    async def scenario(server: Server) -> None:
        typo = config_map("a")
        typo["metadata"]["lables"] = {}
        with pytest.raises(RefusedError, match="unknown field") as raised:
            await server.api.create(CONFIG_MAPS, server.namespace, typo)
        assert raised.value.status == 400
        with capture_logs() as logs:
            await server.api.create(CONFIG_MAPS, server.namespace, typo, strict=False)
        assert [entry["warning"] for entry in logs] == ['unknown field "metadata.lables"']
        with pytest.raises(InvalidError, match="unknown field"):
            await server.api.patch(CONFIG_MAPS, server.namespace, "a", typo)

    run(scenario)


def test_a_list_in_pages_is_the_list(run: Run) -> None:
    async def scenario(server: Server) -> None:
        for number in range(5):
            await server.api.create(CONFIG_MAPS, server.namespace, config_map(f"m-{number}"))
        whole = await server.api.list(CONFIG_MAPS, server.namespace)
        with patch("dgdr_retune.kube._api.PAGE_SIZE", 2):
            paged = await server.api.list(CONFIG_MAPS, server.namespace)
        assert paged.items == whole.items
        assert {item["kind"] for item in whole.items} == {"ConfigMap"}
        assert {item["apiVersion"] for item in whole.items} == {"v1"}

    run(scenario)


def test_a_watch_shows_what_came_after_a_list_and_ends_in_time(run: Run) -> None:
    async def scenario(server: Server) -> None:
        api, namespace = server.api, server.namespace
        start = await api.list(CONFIG_MAPS, namespace, label_selector="a=b")
        first = await api.create(
            CONFIG_MAPS, namespace, config_map("x") | {"metadata": {"name": "x", "labels": {"a": "b"}}}
        )
        await api.create(CONFIG_MAPS, namespace, config_map("other"))
        await api.patch(CONFIG_MAPS, namespace, "x", {"metadata": {"labels": {"a": None}}})
        watch = api.watch(
            CONFIG_MAPS, namespace, resource_version=start.resource_version, label_selector="a=b", timeout_s=1
        )
        async with aclosing(watch) as events:
            seen = [event async for event in events]
        assert [event["type"] for event in seen if event["type"] != "BOOKMARK"] == ["ADDED", "DELETED"]
        assert seen[0]["object"] == first

    run(scenario)


def happening(namespace: str, name: str) -> dict[str, Json]:
    """An Event: real servers keep no recent past of these in memory, so that compaction forgets it at once."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": {"namespace": namespace}}


def test_a_past_that_is_forgotten_is_said(run: Run) -> None:
    async def scenario(server: Server) -> None:
        made = await server.api.create(EVENTS, server.namespace, happening(server.namespace, "a"))
        await server.api.create(EVENTS, server.namespace, happening(server.namespace, "b"))
        await server.forget()
        watch = server.api.watch(
            EVENTS, server.namespace, resource_version=str(int(made["metadata"]["resourceVersion"]) - 1)
        )
        with pytest.raises(GoneError):
            async with aclosing(watch) as events:
                await anext(events)

    run(scenario)


@frozen
class Forgetful:
    """A transport whose server forgets its past after the first call."""

    server: Server
    calls: list[Call] = field(factory=list)

    async def send(self, call: Call) -> Answer:
        answer = await self.server.transport.send(call)
        if not self.calls:
            await self.server.api.create(EVENTS, self.server.namespace, happening(self.server.namespace, "z"))
            await self.server.forget()
        self.calls.append(call)
        return answer

    def stream(self, call: Call) -> Any:
        return self.server.transport.stream(call)


def test_a_list_whose_past_is_forgotten_between_pages_is_whole(run: Run) -> None:
    async def scenario(server: Server) -> None:
        for number in range(5):
            await server.api.create(EVENTS, server.namespace, happening(server.namespace, f"e-{number}"))
        forgetful = Forgetful(server)
        with patch("dgdr_retune.kube._api.PAGE_SIZE", 2):
            listing = await Api(forgetful, rng=random.Random(1)).list(EVENTS, server.namespace)  # noqa: S311 - jitter
        assert [item["metadata"]["name"] for item in listing.items] == [f"e-{number}" for number in range(5)] + ["z"]
        assert [bool(call.query.get("continue")) for call in forgetful.calls] == [False, True, False, True, True]

    run(scenario)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not holds():  # noqa: ASYNC110 - what is waited for is another program
            await asyncio.sleep(0.01)


def test_a_cache_follows_writes_knows_our_own_and_tells_incarnations_apart(run: Run) -> None:
    async def scenario(server: Server) -> None:
        api, namespace = server.api, server.namespace
        changes: list[tuple[Any, Any]] = []
        reflector = server.reflector(CONFIG_MAPS, lambda *change: changes.append(change), label_selector="a=b")
        cache = reflector.cache
        labelled = {"metadata": {"name": "x", "labels": {"a": "b"}}}
        async with asyncio.TaskGroup() as group:
            following = group.create_task(reflector.run())
            await reflector.synced.wait()
            first = await api.create(CONFIG_MAPS, namespace, config_map("x") | labelled)
            cache.wrote(first)
            assert cache.get(namespace, "x") is not None
            await until(lambda: not cache.is_behind(namespace, "x"))
            await api.delete(CONFIG_MAPS, namespace, "x", uid=first["metadata"]["uid"])
            cache.deleted(first)
            second = await api.create(CONFIG_MAPS, namespace, config_map("x") | labelled)
            cache.wrote(second)
            found = cache.get(namespace, "x")
            assert found is not None
            assert found["metadata"]["uid"] == second["metadata"]["uid"]
            await until(lambda: not cache.is_behind(namespace, "x"))
            assert cache.by_uid(first["metadata"]["uid"]) is None
            assert len(cache) == 1
            await api.patch(CONFIG_MAPS, namespace, "x", {"metadata": {"labels": None}})
            await until(lambda: len(cache) == 0)
            following.cancel()
        uids = [(new or old)["metadata"]["uid"] for old, new in changes]
        assert list(dict.fromkeys(uids)) == [first["metadata"]["uid"], second["metadata"]["uid"]]

    run(scenario)


def test_a_claim_that_goes_is_behind_only_until_its_mark_is_seen(run: Run) -> None:
    async def scenario(server: Server) -> None:
        api, namespace = server.api, server.namespace
        made = await api.create(CLAIMS, namespace, claim("a"))
        reflector = server.reflector(CLAIMS)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(reflector.run())
            await reflector.synced.wait()
            await api.delete(CLAIMS, namespace, "a", uid=made["metadata"]["uid"])
            reflector.cache.deleted(made)
            await until(lambda: not reflector.cache.is_behind(namespace, "a"))
            going = reflector.cache.get(namespace, "a")
            assert going is not None
            assert "deletionTimestamp" in going["metadata"]
            released = await api.patch(CLAIMS, namespace, "a", {"metadata": {"finalizers": None}})
            reflector.cache.wrote(released)
            await until(lambda: reflector.cache.get(namespace, "a") is None)
            assert not reflector.cache.is_behind(namespace, "a")
            following.cancel()

    run(scenario)


def test_a_stranger_is_refused_and_what_is_not_granted_is_forbidden(
    control_plane: ControlPlane, service_account: str, tmp_path: Path
) -> None:
    made = control_plane.kubectl("create", "serviceaccount", "no-grants", "--namespace=default")
    assert made.returncode == 0, made.stderr
    token = control_plane.kubectl("create", "token", "no-grants", "--namespace=default").stdout
    cluster = {"certificate-authority": str(control_plane.certificates.authority)}

    async def listed(token: str) -> None:
        source = Kubeconfig(config_file(tmp_path, control_plane.url, cluster=cluster, token=token))
        async with connect(source) as transport:
            api = Api(transport, rng=random.Random(1))  # noqa: S311 - for jitter
            await api.list(CONFIG_MAPS, "default")

    asyncio.run(listed(service_account))
    with pytest.raises(ForbiddenError):
        asyncio.run(listed(token))
    with pytest.raises(RefusedError) as raised:
        asyncio.run(listed("not-a-token"))
    assert raised.value.status == 401
