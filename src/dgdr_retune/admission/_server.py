"""The webhooks as an HTTPS server: `/mutate` and `/validate`, and `/readyz` for probes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from attrs import frozen

from dgdr_retune.admission._certificate import Certificate
from dgdr_retune.admission._review import Review, ReviewError, mutated, read_review, validated

MAX_BODY_BYTES: Final = 8 * 2**20
"""A review holds an object twice, and an API server takes requests of at most 3 MiB."""


@frozen
class WebhookConfiguration:
    """Where the server listens and what it shows.

    Attributes:
        certificate: file with the certificate chain, PEM.
        key: file with its key, PEM.
        host: address to listen on.
        port: 0 for any free one.
        look_every_s: how often the files are looked at, seconds.
    """

    certificate: Path
    key: Path
    host: str
    port: int = 9443
    look_every_s: float = 10.0


def application() -> web.Application:
    """The webhooks without a server."""
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_post("/mutate", _answering(mutated))
    app.router.add_post("/validate", _answering(validated))
    app.router.add_get("/readyz", _ready)
    return app


class WebhookServer:
    """Serves as long as `run` runs. It listens, and is ready, once there is a certificate."""

    def __init__(self, configuration: WebhookConfiguration) -> None:
        self._configuration = configuration
        self._certificate = Certificate(configuration.certificate, configuration.key)
        self._listening = asyncio.Event()
        self.port = configuration.port
        """Where it listens; of use when the configured port is 0."""

    @property
    def ready(self) -> bool:
        """Whether it listens and has a certificate to show."""
        return self._listening.is_set()

    async def until_ready(self) -> None:
        """Wait until `ready`."""
        await self._listening.wait()

    async def run(self) -> None:
        """Serve until cancelled.

        Errors: `OSError` if the address cannot be listened on.
        """
        while not self._certificate.load():  # noqa: ASYNC110 - nothing tells when a file appears
            await asyncio.sleep(self._configuration.look_every_s)
        runner = web.AppRunner(application(), access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(
                runner, self._configuration.host, self._configuration.port, ssl_context=self._certificate.context
            )
            await site.start()
            self.port = runner.addresses[0][1]
            self._listening.set()
            while True:
                await asyncio.sleep(self._configuration.look_every_s)
                self._certificate.load()
        finally:
            self._listening.clear()
            await runner.cleanup()


def _answering(answer: Callable[[Review], Any]) -> Callable[[web.Request], Any]:
    async def handle(request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="send an AdmissionReview as application/json")
        body = await request.read()
        try:
            review = read_review(body)
        except ReviewError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        return web.json_response(answer(review))

    return handle


async def _ready(_request: web.Request) -> web.Response:
    return web.Response(text="ok")
