"""Health, readiness and metrics over HTTP."""

import asyncio
from collections.abc import Callable

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

_log = structlog.get_logger(__name__)


class HttpServer:
    """Serves `/healthz`, `/readyz` and `/metrics` as long as `run` runs.

    Args:
        registry: what `/metrics` shows.
        not_ready: why `/readyz` says 503; empty if it does not.
        host: address to listen on.
        port: 0 for any free one.
    """

    def __init__(self, registry: CollectorRegistry, *, not_ready: Callable[[], str], host: str, port: int) -> None:
        self._registry = registry
        self._not_ready = not_ready
        self._host = host
        self.port = port
        """Where it listens; of use when the configured port is 0."""
        self._listening = asyncio.Event()

    async def until_listening(self) -> None:
        """Wait until it can be reached."""
        await self._listening.wait()

    async def run(self) -> None:
        """Serve until cancelled.

        Errors: `OSError` if the address cannot be listened on.
        """
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self.port).start()
            self.port = runner.addresses[0][1]
            _log.info("serving_http", host=self._host, port=self.port)
            self._listening.set()
            await asyncio.Event().wait()
        finally:
            self._listening.clear()
            await runner.cleanup()

    async def _health(self, _request: web.Request) -> web.Response:
        """That this answers says that the event loop turns."""
        return web.Response(text="ok")

    async def _ready(self, _request: web.Request) -> web.Response:
        why = self._not_ready()
        return web.Response(status=503 if why else 200, text=why or "ok")

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})
