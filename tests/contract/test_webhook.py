"""The webhooks behind a real API server: with them it says what it says without them, and what only they know."""

import asyncio
import base64
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.conftest import SERVED
from tests.contract.judges import ServerJudge, url_of
from tests.contract.row import Row, thing
from tests.contract.spec_rows import STATIC
from tests.contract.test_table import check
from tests.controlplane.control_plane import ControlPlane

from dgdr_retune.admission import WebhookConfiguration, WebhookServer, webhook_configurations
from dgdr_retune.api import REQUEST

Json = Any

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
IN_FORCE_WITHIN_S = 30.0
LOOK_EVERY_S = 0.05
ROWS = [row for row in SERVED if row.operation in ("create", "update")]


@contextmanager
def webhook_server(certificate: Path, key: Path) -> Iterator[int]:
    """The webhooks on a port of 127.0.0.1, in a thread with a loop of its own."""
    loop = asyncio.new_event_loop()
    server = WebhookServer(WebhookConfiguration(certificate, key, host="127.0.0.1", port=0, look_every_s=60))
    task = loop.create_task(server.run())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.until_ready(), loop).result(timeout=10)
        yield server.port
    finally:
        loop.call_soon_threadsafe(task.cancel)
        ended = asyncio.run_coroutine_threadsafe(asyncio.wait([task]), loop)
        ended.result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def configured(client: httpx.Client, plane: ControlPlane, port: int) -> Iterator[None]:
    """The API server asks the webhooks, and refuses everything if they do not answer."""
    authority = base64.b64encode(plane.certificates.authority.read_bytes()).decode()
    connection = {"caBundle": authority, "url": f"https://127.0.0.1:{port}"}
    urls = []
    for configuration in webhook_configurations(connection, own_namespace="dgdr-system"):
        for webhook in configuration["webhooks"]:
            webhook["failurePolicy"] = "Fail"
        plural = f"{configuration['kind'].lower()}s"
        made = client.post(f"{CONFIGURATIONS}/{plural}", json=configuration)
        assert made.status_code == 201, made.text
        urls.append(f"{CONFIGURATIONS}/{plural}/{configuration['metadata']['name']}")
    try:
        deadline = time.monotonic() + IN_FORCE_WITHIN_S
        while "Warning" not in create(client, thing(REQUEST, STATIC)).headers:
            assert time.monotonic() < deadline, "the webhooks are not asked"
            time.sleep(LOOK_EVERY_S)
        yield
    finally:
        for url in urls:
            assert client.delete(url).is_success
        while "Warning" in create(client, thing(REQUEST, STATIC)).headers:
            time.sleep(LOOK_EVERY_S)


def create(client: httpx.Client, value: Json) -> httpx.Response:
    return client.post(url_of(REQUEST), params={"dryRun": "All", "fieldValidation": "Strict"}, json=value)


@pytest.fixture(scope="module")
def webhooked(control_plane: ControlPlane, real: ServerJudge) -> Iterator[ServerJudge]:
    certificates = control_plane.certificates
    with (
        webhook_server(certificates.server, certificates.server_key) as port,
        configured(real.client, control_plane, port),
    ):
        yield real


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_real_server_judges_with_webhooks_as_the_table_says(row: Row, webhooked: ServerJudge) -> None:
    check(webhooked.ask(row), row)


def test_a_request_whose_candidates_would_fail_to_render_is_accepted_with_a_warning(webhooked: ServerJudge) -> None:
    made = create(webhooked.client, thing(REQUEST, STATIC))
    assert made.status_code == 201
    assert "block size" in made.headers["Warning"]
    direct = create(webhooked.client, thing(REQUEST, STATIC | {"aisimulate": {"generator": "direct"}}))
    assert "Warning" not in direct.headers
