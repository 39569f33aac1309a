"""HTTP in front of the simulated API server: a transport for httpx in the same process, and a server on loopback."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import httpx
from aiohttp import web

from dgdr_retune.testing._discovery import discover
from dgdr_retune.testing._errors import ApiError
from dgdr_retune.testing._follow import follow
from dgdr_retune.testing._json import encode
from dgdr_retune.testing._requests import MAX_BODY_BYTES, Request, Response
from dgdr_retune.testing._server import SimulatedApiServer


def answer(server: SimulatedApiServer, request: Request) -> Response:
    """Answer one request that is no watch, discovery included."""
    found = discover(server.resources(), request)
    return server.handle(request) if found is None else found


def transport(server: SimulatedApiServer) -> httpx.MockTransport:
    """A transport for :class:`httpx.Client` and :class:`httpx.AsyncClient` that answers without a socket.

    A watch gets what has happened so far and ends there.
    """

    def handle(sent: httpx.Request) -> httpx.Response:
        request = Request(
            method=sent.method,
            path=sent.url.path,
            query=dict(sent.url.params),
            content_type=sent.headers.get("Content-Type", "").partition(";")[0].strip(),
            body=sent.content,
        )
        try:
            if not request.asks_for_watch or not server.is_watch(request):
                response = answer(server, request)
                return httpx.Response(response.code, headers=warning_headers(response), content=encode(response.body))
            events = server.watch(request).take()
        except ApiError as error:
            return httpx.Response(error.code, json=error.status())
        return httpx.Response(200, content=b"".join(encode(event) + b"\n" for event in events))

    return httpx.MockTransport(handle)


@asynccontextmanager
async def serve(server: SimulatedApiServer, port: int = 0) -> AsyncIterator[str]:
    """Serve on 127.0.0.1 and give the address, such as ``http://127.0.0.1:40123``.

    Args:
        server: what answers.
        port: 0 for one that is free.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        return await _handle(server, request)

    application = web.Application(client_max_size=MAX_BODY_BYTES + 1)
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _handle(server: SimulatedApiServer, sent: web.Request) -> web.StreamResponse:
    request = Request(
        method=sent.method,
        path=sent.path,
        query=dict(sent.query),
        content_type=sent.content_type,
        body=await sent.read(),
    )
    try:
        if request.asks_for_watch and server.is_watch(request):
            return await _stream(server, sent, request)
    except ApiError as error:
        return web.json_response(error.status(), status=error.code)
    response = answer(server, request)
    return web.Response(
        status=response.code,
        body=encode(response.body),
        headers=warning_headers(response),
        content_type="application/json",
    )


async def _stream(server: SimulatedApiServer, sent: web.Request, request: Request) -> web.StreamResponse:
    watch = server.watch(request)
    stream = web.StreamResponse(headers={"Content-Type": "application/json"})
    await stream.prepare(sent)
    async with aclosing(follow(server.store, watch, request)) as lines:
        async for line in lines:
            await stream.write(line)
    return stream


def warning_headers(response: Response) -> list[tuple[str, str]]:
    """The headers that carry the warnings of an answer, one each."""
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in response.warnings)
    return [("Warning", f'299 - "{text}"') for text in escaped]
