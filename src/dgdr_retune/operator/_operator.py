"""One operator process: it campaigns, and while it leads its controllers work."""

import asyncio
import random
from collections.abc import Callable
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry

from dgdr_retune.admission import WebhookConfiguration, WebhookServer
from dgdr_retune.controllers import Controllers
from dgdr_retune.kube import Api, Elector, EventRecorder, FencedTransport, Term, Transport
from dgdr_retune.operator._http import HttpServer
from dgdr_retune.operator._metrics import Metrics
from dgdr_retune.operator._settings import Settings

COMPONENT: Final = "dgdr-retune-operator"
"""Who Events are from."""

_REQUEST_SHARE: Final = 0.25
"""Part of the renew deadline that one request for the Lease may take: a second one fits after one that hangs."""


class Operator:
    """Leader election around the controllers, and beside it webhooks, health and metrics.

    Caches are filled anew in each term: what a process that does not lead has seen costs the API server as much and
    helps nobody for the seconds that a list takes.

    Args:
        settings: what it is told.
        transport: to the API server.
        now: the wall clock.
        rng: spreads retries, and tells this process from one before it under the same name.
    """

    def __init__(
        self, settings: Settings, transport: Transport, *, now: Callable[[], datetime], rng: random.Random
    ) -> None:
        self._settings = settings
        self._transport = transport
        self._now = now
        self._rng = rng
        self._metrics = Metrics()
        self._controllers: Controllers | None = None
        self._elector = Elector(
            self._api(transport),
            namespace=settings.operator_namespace,
            name=settings.lease_name,
            identity=f"{settings.identity}_{rng.getrandbits(64):016x}",
            now=now,
            rng=rng,
            lease_duration_s=settings.lease_duration_seconds,
            renew_deadline_s=settings.renew_deadline_seconds,
            retry_period_s=settings.retry_period_seconds,
            request_timeout_s=settings.renew_deadline_seconds * _REQUEST_SHARE,
        )
        self.http = _http_server(settings, self._metrics, self.why_not_ready)
        """Health and metrics, None where they are off."""
        self.webhook = _webhook_server(settings)
        """The webhooks, None where they are off."""

    @property
    def metrics(self) -> CollectorRegistry:
        """What it counts."""
        return self._metrics.registry

    @property
    def is_leader(self) -> bool:
        """Whether this process leads at this moment."""
        return self._elector.is_leader

    def why_not_ready(self) -> str:
        """Why it is not ready, empty if it is. One that waits for its turn to lead is ready."""
        if self._controllers is not None and not self._controllers.synced:
            return "the caches are not filled yet"
        if self.webhook is not None and not self.webhook.ready:
            return "the webhooks have no certificate yet"
        return ""

    async def run(self) -> None:
        """Serve until cancelled; then nothing runs any more and the Lease is released.

        Errors: an `ExceptionGroup` of what kept it from going on, such as an address that cannot be listened on.
        """
        async with asyncio.TaskGroup() as group:
            if self.http is not None:
                group.create_task(self.http.run())
            if self.webhook is not None:
                group.create_task(self.webhook.run())
            group.create_task(self._elector.run(self._lead))

    async def _lead(self, term: Term) -> None:
        api = self._api(FencedTransport(self._transport, self._elector, term))
        events = EventRecorder(api, component=COMPONENT, now=self._now, rng=self._rng)
        controllers = Controllers(
            api,
            self._settings.configuration(),
            now=self._now,
            rng=self._rng,
            namespace=self._settings.namespace,
            events=events,
            reconciled=self._metrics.reconciled,
        )
        self._controllers = self._metrics.leading = controllers
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(events.run())
                group.create_task(controllers.run())
        finally:
            self._controllers = self._metrics.leading = None

    def _api(self, transport: Transport) -> Api:
        return Api(transport, rng=self._rng, observe=self._metrics.called)


def _http_server(settings: Settings, metrics: Metrics, not_ready: Callable[[], str]) -> HttpServer | None:
    if settings.http_port is None:
        return None
    return HttpServer(metrics.registry, not_ready=not_ready, host=settings.http_host, port=settings.http_port)


def _webhook_server(settings: Settings) -> WebhookServer | None:
    if settings.webhook_certificate is None or settings.webhook_key is None:
        return None
    return WebhookServer(
        WebhookConfiguration(
            certificate=settings.webhook_certificate,
            key=settings.webhook_key,
            host=settings.webhook_host,
            port=settings.webhook_port,
        )
    )
