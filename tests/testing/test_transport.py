"""The simulated API server behind this project's own client."""

import asyncio
import json
from typing import Any

import pytest

from dgdr_retune.kube import JOBS, Call
from dgdr_retune.testing import SimulatedApiServer, SimulatedTransport, VirtualLoop


def call(method: str = "GET", path: str = "/apis/batch/v1/jobs", body: Any = None, **query: str) -> Call:
    sent = b"" if body is None else json.dumps(body).encode()
    return Call(method=method, path=path, query=query, content_type="application/json", body=sent, timeout_s=1)


def job(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, **more}, "spec": {}}


def run(scenario: Any) -> Any:
    with VirtualLoop() as loop:
        return loop.run(scenario, until_s=10_000)


def test_calls_are_answered_and_warnings_are_a_header() -> None:
    async def scenario() -> None:
        transport = SimulatedTransport(SimulatedApiServer())
        made = await transport.send(call("POST", JOBS.path("default"), job("a", typo=1, other="x")))
        assert made.status == 201
        unknown = [f'299 - "unknown field \\"metadata.{name}\\""' for name in ("other", "typo")]
        assert sorted(made.headers["warning"].split(", ")) == unknown
        assert json.loads((await transport.send(call(path=JOBS.path("default", "a")))).body)["kind"] == "Job"
        assert "warning" not in (await transport.send(call())).headers
        assert (await transport.send(call(path="/apis/nowhere/v1/things"))).status == 404

    run(scenario())


def test_the_escapes_of_a_path_are_read() -> None:
    async def scenario() -> None:
        transport = SimulatedTransport(SimulatedApiServer())
        answer = await transport.send(call(path=JOBS.path("default", "a b")))
        assert json.loads(answer.body)["message"] == 'jobs.batch "a b" not found'

    run(scenario())


def test_others_have_their_turn_before_and_after_a_call() -> None:
    order: list[str] = []

    async def scenario() -> None:
        transport = SimulatedTransport(SimulatedApiServer())

        async def other() -> None:
            for _ in range(2):
                order.append("other")
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            group.create_task(other())
            await transport.send(call())
            order.append("answered")

    run(scenario())
    assert order == ["other", "other", "answered"]


def test_a_watch_follows_the_writes_sends_bookmarks_and_ends_in_time() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        transport = SimulatedTransport(SimulatedApiServer())
        seen: list[tuple[float, str]] = []

        async def watch() -> None:
            opened = call(watch="true", timeoutSeconds="150", allowWatchBookmarks="true", resourceVersion="1")
            async with transport.stream(opened) as stream:
                assert stream.status == 200
                async for line in stream.chunks():
                    seen.append((loop.time(), json.loads(line)["type"]))  # noqa: PERF401 - times of each

        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            await asyncio.sleep(10)
            await transport.send(call("POST", JOBS.path("default"), job("a")))
        assert seen == [(10, "ADDED"), (70, "BOOKMARK"), (130, "BOOKMARK"), (150, "BOOKMARK")]

    run(scenario())


def test_a_watch_without_bookmarks_is_silent_until_its_end() -> None:
    async def scenario() -> None:
        transport = SimulatedTransport(SimulatedApiServer())
        async with transport.stream(call(watch="true", timeoutSeconds="150", resourceVersion="1")) as stream:
            assert [line async for line in stream.chunks()] == []
        assert asyncio.get_running_loop().time() == 150

    run(scenario())


def test_a_watch_that_is_left_no_longer_listens() -> None:
    async def scenario() -> None:
        server = SimulatedApiServer()
        async with SimulatedTransport(server).stream(call(watch="true")) as stream:
            waiting = asyncio.ensure_future(anext(stream.chunks()))
            await asyncio.sleep(1)
            assert len(server.store._listeners) == 1
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert server.store._listeners == []

    run(scenario())


def test_a_watch_that_is_refused_is_an_answer() -> None:
    async def scenario() -> None:
        transport = SimulatedTransport(SimulatedApiServer())
        for path in ("/apis/nowhere/v1/things", "/nothing"):
            async with transport.stream(call(path=path, watch="true")) as stream:
                assert stream.status == 404
                assert json.loads(await stream.read())["kind"] == "Status"

    run(scenario())


def test_what_is_no_watch_is_not_streamed() -> None:
    async def scenario() -> None:
        with pytest.raises(ValueError, match="no watch"):
            async with SimulatedTransport(SimulatedApiServer()).stream(call()):
                pass

    run(scenario())
