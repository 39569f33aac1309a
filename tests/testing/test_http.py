"""The simulated API server behind HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api, CustomObjectsApi
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.watch import Watch
from tests.contract.widgets import DEFINITION, GROUP, PLURAL, widget

from dgdr_retune.testing import SimulatedApiServer, serve

WIDGETS = (GROUP, "v1", "default", PLURAL)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[SimulatedApiServer, ApiClient, str]]:
    server = SimulatedApiServer()
    server.install(DEFINITION)
    async with serve(server) as url:
        configuration = Configuration(host=url)
        async with ApiClient(configuration) as client:
            yield server, client, url


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), timeout=30))


def test_the_client_of_this_project_can_talk_to_it() -> None:
    async def scenario() -> None:
        async with connected() as (_, client, _url):
            api = CustomObjectsApi(client)
            made = await api.create_namespaced_custom_object(*WIDGETS, widget())
            assert made["spec"] == {"size": 3}
            listed = await api.list_namespaced_custom_object(*WIDGETS)
            assert [each["metadata"]["name"] for each in listed["items"]] == ["w"]
            with pytest.raises(ApiException) as caught:
                await api.create_namespaced_custom_object(*WIDGETS, widget())
            assert (caught.value.status, json.loads(caught.value.body)["reason"]) == (409, "AlreadyExists")
            namespaces = await CoreV1Api(client).list_namespace()
            assert [each.metadata.name for each in namespaces.items] == ["default", "kube-system"]

    run(scenario)


def test_a_watch_delivers_what_happens_while_it_is_open() -> None:
    async def scenario() -> None:
        async with connected() as (_, client, _url):
            api = CustomObjectsApi(client)
            seen: list[tuple[str, str]] = []
            async with Watch().stream(api.list_namespaced_custom_object, *WIDGETS, timeout_seconds=20) as stream:
                await api.create_namespaced_custom_object(*WIDGETS, widget("first"))
                async for event in stream:
                    seen.append((event["type"], event["object"]["metadata"]["name"]))
                    match seen:
                        case [_]:
                            await api.create_namespaced_custom_object(*WIDGETS, widget("second"))
                        case [_, _]:
                            await api.delete_namespaced_custom_object(*WIDGETS, "first")
                        case _:
                            break
            assert seen == [("ADDED", "first"), ("ADDED", "second"), ("DELETED", "first")]

    run(scenario)


async def lines(url: str, **query: str) -> list[Any]:
    async with httpx.AsyncClient(base_url=url) as client:
        parameters = {"watch": "true", "timeoutSeconds": "0.2", **query}
        response = await client.get(f"/apis/{GROUP}/v1/{PLURAL}", params=parameters)
        return [json.loads(line) for line in response.text.splitlines()]


def test_a_watch_ends_with_a_bookmark_for_who_asked() -> None:
    async def scenario() -> None:
        async with connected() as (server, _, url):
            (bookmark,) = await lines(url, allowWatchBookmarks="true")
            assert bookmark["type"] == "BOOKMARK"
            assert bookmark["object"]["metadata"] == {"resourceVersion": str(server.store.revision)}
            assert await lines(url) == []

    run(scenario)


def test_a_watch_that_falls_behind_a_compaction_ends_with_410() -> None:
    async def scenario() -> None:
        async with connected() as (server, _, url):
            server.compact()
            (error,) = await lines(url, resourceVersion="1")
            assert (error["type"], error["object"]["code"]) == ("ERROR", 410)

    run(scenario)


def test_discovery_names_what_is_served() -> None:
    async def scenario() -> None:
        async with connected() as (_, _, url), httpx.AsyncClient(base_url=url) as client:
            groups = (await client.get("/apis")).json()["groups"]
            assert GROUP in [each["name"] for each in groups]
            served = (await client.get(f"/apis/{GROUP}/v1")).json()["resources"]
            assert [each["name"] for each in served] == [PLURAL, f"{PLURAL}/status"]
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.get("/apis/nowhere/v1")).status_code == 404

    run(scenario)
