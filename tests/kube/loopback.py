"""Servers on loopback whose answers are scripted, and how the real transport is pointed at them."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from attrs import define, field

from dgdr_retune.kube import Call

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LONG_S = 30.0  # a deadline that must not run out


@define
class Hostile:
    """A server on loopback whose every answer is scripted; ``seen`` are the requests that reached it, complete."""

    url: str = ""
    seen: list[web.Request] = field(factory=list)
    bodies: list[bytes] = field(factory=list)


def config_file(directory: Path, url: str, **user: Any) -> Path:
    path = directory / "kubeconfig"
    cluster = user.pop("cluster", {})
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path


@asynccontextmanager
async def serving(*handlers: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Hostile]:
    """Answer the n-th request by the n-th handler, all later ones by the last."""
    hostile = Hostile()

    async def handle(request: web.Request) -> web.StreamResponse:
        hostile.bodies.append(await request.read())
        hostile.seen.append(request)
        return await handlers[min(len(hostile.seen), len(handlers)) - 1](request)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        host, port = runner.addresses[0][:2]
        hostile.url = f"{'https' if tls else 'http'}://{host}:{port}"
        yield hostile
    finally:
        await runner.cleanup()


def call(method: str = "GET", *, timeout_s: float = LONG_S, **more: Any) -> Call:
    body = {} if method == "GET" else {"body": b'{"a": 1}', "content_type": "application/merge-patch+json"}
    return Call(method=method, path="/api/v1/x", timeout_s=timeout_s, **(body | more))


async def fine(_: web.Request) -> web.Response:
    return web.json_response({"ok": True})
