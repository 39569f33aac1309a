"""The real transport against servers that stall, lose connections and cut lines."""

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from tests.kube.loopback import LONG_S, Handler, Hostile, call, config_file, fine, serving
from tests.kube.scripted import event, status, thing

from dgdr_retune.kube import (
    JOBS,
    Api,
    ConfigurationError,
    HttpTransport,
    Kubeconfig,
    MaybeAppliedError,
    NotSentError,
    RefusedError,
    connect,
)

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
SOON_S = 0.15  # a deadline that must run out


@asynccontextmanager
async def reached(directory: Path, *handlers: Handler) -> AsyncIterator[tuple[Hostile, HttpTransport]]:
    async with serving(*handlers) as hostile, connect(Kubeconfig(config_file(directory, hostile.url))) as transport:
        yield hostile, transport


async def stalls(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


async def resets(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def stalls_in_the_body(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b'{"half":')
    await asyncio.Event().wait()
    return response


async def breaks_off_in_the_body(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"half":')
    return await resets(request)


def test_a_call_says_what_it_is_and_the_answer_comes_whole(tmp_path: Path) -> None:
    async def warns(_: web.Request) -> web.Response:
        response = web.json_response({"ok": True}, status=201)
        response.headers.add("Warning", '299 - "first"')
        response.headers.add("Warning", '299 - "second"')
        return response

    async def scenario() -> None:
        async with reached(tmp_path, warns) as (hostile, transport):
            answer = await transport.send(call("PATCH", query={"fieldValidation": "Strict", "x": "a b&c"}))
        (seen,) = hostile.seen
        assert seen.query == {"fieldValidation": "Strict", "x": "a b&c"}
        assert seen.headers["Content-Type"] == "application/merge-patch+json"
        assert seen.headers["Accept"] == "application/json"
        assert hostile.bodies == [b'{"a": 1}']
        assert (answer.status, json.loads(answer.body)) == (201, {"ok": True})
        assert answer.headers["warning"] == '299 - "first", 299 - "second"'
        assert all(name == name.lower() for name in answer.headers)

    asyncio.run(scenario())


@pytest.mark.parametrize("code", [301, 307, 404, 409, 429, 500, 503])
def test_a_status_is_an_answer_and_a_redirect_is_not_followed(tmp_path: Path, code: int) -> None:
    async def says(_: web.Request) -> web.Response:
        return web.json_response(status(code), status=code, headers={"Location": "/elsewhere"})

    async def scenario() -> None:
        async with reached(tmp_path, says) as (hostile, transport):
            assert (await transport.send(call("PUT"))).status == code
        assert len(hostile.seen) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("handler", "timeout_s"),
    [
        (stalls, SOON_S),
        (stalls_in_the_body, SOON_S),
        (resets, LONG_S),
        (breaks_off_in_the_body, LONG_S),
    ],
)
def test_whatever_befalls_a_request_that_was_sent_it_may_have_been_applied_and_is_sent_once(
    tmp_path: Path, method: str, handler: Handler, timeout_s: float
) -> None:
    async def scenario() -> None:
        async with reached(tmp_path, handler) as (hostile, transport):
            with pytest.raises(MaybeAppliedError):
                await transport.send(call(method, timeout_s=timeout_s))
            assert len(hostile.seen) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("method", METHODS)
def test_a_reset_on_a_connection_that_was_used_before_is_not_repeated_behind_our_back(
    tmp_path: Path, method: str
) -> None:
    """HTTP clients repeat PUT and DELETE on their own when a kept connection is lost."""

    async def scenario() -> None:
        async with reached(tmp_path, fine, resets, fine) as (hostile, transport):
            await transport.send(call())
            with pytest.raises(MaybeAppliedError):
                await transport.send(call(method))
            assert len(hostile.seen) == 2
            assert (await transport.send(call(method))).status == 200

    asyncio.run(scenario())


@pytest.mark.parametrize("method", METHODS)
def test_where_nobody_listens_nothing_was_sent(tmp_path: Path, method: str) -> None:
    async def scenario() -> None:
        async with serving(fine) as hostile:
            pass
        async with connect(Kubeconfig(config_file(tmp_path, hostile.url))) as transport:
            with pytest.raises(NotSentError, match="cannot be reached"):
                await transport.send(call(method))

    asyncio.run(scenario())


def test_a_name_that_does_not_resolve_is_never_sent(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connect(Kubeconfig(config_file(tmp_path, "http://nowhere.invalid"))) as transport:
            with pytest.raises(NotSentError):
                await transport.send(call("PUT"))

    asyncio.run(scenario())


def test_a_server_that_accepts_and_never_speaks_tls_got_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        left = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            left.set()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            async with connect(Kubeconfig(config_file(tmp_path, f"https://127.0.0.1:{port}"))) as transport:
                with pytest.raises(NotSentError):
                    await transport.send(call("PUT", timeout_s=SOON_S))
            await asyncio.wait_for(left.wait(), LONG_S)

    asyncio.run(scenario())


def secured(authority: trustme.CA, *, with_clients: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    if with_clients:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_a_server_of_another_authority_gets_nothing(tmp_path: Path) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(tmp_path / "ca.pem")

    async def scenario() -> None:
        async with serving(fine, tls=secured(theirs)) as hostile:
            source = config_file(tmp_path, hostile.url, cluster={"certificate-authority": str(tmp_path / "ca.pem")})
            async with connect(Kubeconfig(source)) as transport:
                with pytest.raises(NotSentError, match="CERTIFICATE_VERIFY_FAILED"):
                    await transport.send(call("PUT"))
            assert hostile.seen == []
            source = config_file(tmp_path, hostile.url, cluster={"insecure-skip-tls-verify": True})
            async with connect(Kubeconfig(source)) as transport:
                assert (await transport.send(call("PUT"))).status == 200

    asyncio.run(scenario())


def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    client = authority.issue_cert("client.invalid")
    client.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")

    async def scenario() -> None:
        async with serving(fine, tls=secured(authority, with_clients=True)) as hostile:
            pair = {"client-certificate": str(tmp_path / "client.pem"), "client-key": str(tmp_path / "client.pem")}
            cluster = {"certificate-authority": str(tmp_path / "ca.pem"), "tls-server-name": "localhost"}
            async with connect(Kubeconfig(config_file(tmp_path, hostile.url, cluster=cluster, **pair))) as transport:
                assert (await transport.send(call())).status == 200

    asyncio.run(scenario())


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.pem").write_text("not a certificate")

    async def scenario() -> None:
        cluster = {"certificate-authority": str(tmp_path / "broken.pem")}
        async with connect(Kubeconfig(config_file(tmp_path, "https://127.0.0.1:1", cluster=cluster))):
            pass

    with pytest.raises(ConfigurationError, match="certificate"):
        asyncio.run(scenario())


def test_a_server_below_a_path_is_addressed_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(fine) as hostile:
            source = Kubeconfig(config_file(tmp_path, f"{hostile.url}/k8s/clusters/c-1/"))
            async with connect(source) as transport:
                await transport.send(call())
        assert hostile.seen[0].path == "/k8s/clusters/c-1/api/v1/x"

    asyncio.run(scenario())


def test_credentials_of_this_machine_are_not_sent_to_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def scenario() -> None:
        async with reached(tmp_path, fine) as (hostile, transport):
            await transport.send(call())
        assert "Authorization" not in hostile.seen[0].headers

    asyncio.run(scenario())


def sends(*chunks: bytes, then: Handler | None = None) -> Handler:
    """A watch of these bytes, which then ends, or does something else."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.01)
        if then is not None:
            await then(request)
        return response

    return handle


async def names(transport: HttpTransport, **given: Any) -> list[str]:
    api = Api(transport, rng=random.Random(1))  # noqa: S311 - for jitter
    seen: list[str] = []
    try:
        async with aclosing(api.watch(JOBS, resource_version="5", **given)) as watch:
            async for each in watch:
                seen.append(each["object"]["metadata"]["name"])  # noqa: PERF401 - what came before an error counts
    except MaybeAppliedError as error:
        seen.append(error.reason)
    except RefusedError as error:
        seen.append(str(error.status))
    return seen


BIG = thing("big", 6) | {"spec": "x" * (3 * 2**20)}


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (sends(event("ADDED", thing("a", 6))[:20], event("ADDED", thing("a", 6))[20:]), ["a"]),
        (sends(event("ADDED", thing("a", 6)) + event("ADDED", thing("b", 7))[:-3]), ["a"]),
        (sends(event("ADDED", thing("a", 6)), then=resets), ["a", "ReplyLost"]),
        (sends(event("ADDED", thing("a", 6)), event("ADDED", thing("b", 7))[:30], then=resets), ["a", "ReplyLost"]),
        (sends(event("ADDED", thing("a", 6)), then=stalls), ["a", "Silent"]),
        (sends(event("ADDED", BIG), event("ADDED", thing("a", 7))), ["big", "a"]),
        (resets, ["ReplyLost"]),
    ],
    ids=["cut line", "half line", "reset", "reset in a line", "stall", "larger than etcd takes", "reset at once"],
)
def test_a_watch_gives_what_came_whole_and_says_how_it_ended(
    tmp_path: Path, handler: Handler, expected: list[str]
) -> None:
    async def scenario() -> None:
        async with reached(tmp_path, handler) as (_, transport):
            assert await names(transport, inactivity_s=SOON_S if expected[-1] == "Silent" else LONG_S) == expected

    asyncio.run(scenario())


def test_a_watch_that_does_not_begin_is_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with reached(tmp_path, stalls) as (_, transport):
            with pytest.raises(MaybeAppliedError):
                async with transport.stream(call(timeout_s=SOON_S)):
                    pass

    asyncio.run(scenario())


def test_the_time_to_begin_is_no_limit_to_how_long_a_watch_lasts(tmp_path: Path) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(3 * SOON_S)
        await response.write(b"late")
        return response

    async def scenario() -> None:
        async with reached(tmp_path, slow) as (_, transport), transport.stream(call(timeout_s=SOON_S)) as stream:
            assert [chunk async for chunk in stream.chunks()] == [b"late"]

    asyncio.run(scenario())


def test_being_cancelled_a_call_ends_at_once_and_takes_its_connection_along(tmp_path: Path) -> None:
    async def scenario() -> None:
        come, gone = asyncio.Event(), asyncio.Event()

        async def waits(_: web.Request) -> web.Response:
            come.set()
            try:
                await asyncio.Event().wait()
            finally:
                gone.set()
            return web.Response()

        async with reached(tmp_path, waits) as (_, transport):
            task = asyncio.create_task(transport.send(call("PUT")))
            await asyncio.wait_for(come.wait(), LONG_S)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(gone.wait(), LONG_S)

    asyncio.run(scenario())


def test_many_calls_at_once_do_not_wait_for_watches(tmp_path: Path) -> None:
    async def either(request: web.Request) -> web.StreamResponse:
        if request.query:
            return await sends(b"\n", then=stalls)(request)
        return await fine(request)

    async def scenario() -> None:
        async with reached(tmp_path, either) as (_, transport):

            async def watching() -> None:
                async with transport.stream(call(query={"watch": "true"})) as stream:
                    async for _ in stream.chunks():
                        pass

            watches = [asyncio.create_task(watching()) for _ in range(120)]
            await asyncio.sleep(0.1)
            assert (await transport.send(call(timeout_s=5))).status == 200
            for each in watches:
                each.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    asyncio.run(scenario())
