"""The webhooks behind a real API server: with them it says what it says without them, and what only they know."""

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.conftest import SERVED
from tests.contract.judges import DEFINITIONS_URL, ServerJudge, definitions, holds_whole_float, loosened, url_of
from tests.contract.row import Row, thing
from tests.contract.spec_rows import STATIC
from tests.contract.table import ROWS as TABLE
from tests.contract.test_table import check
from tests.controlplane.control_plane import ControlPlane

from dgdr_retune.admission import WebhookConfiguration, WebhookServer, webhook_configurations
from dgdr_retune.api import CANDIDATE, REQUEST

Json = Any

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
IN_FORCE_WITHIN_S = 30.0
LOOK_EVERY_S = 0.05
TURNS_TO_CLOSE = 10  # of the loop, until the API server's connections are closed
UNKNOWN = ":pruning"  # which fields are unknown is for the server to know, and it sends 1.0 as 1
ROWS_OF_VALIDATE = [row for row in TABLE if row.validate_alone and row.object["apiVersion"] == "nvidia.com/v1beta2"]
ROWS = [row for row in SERVED if row.operation in ("create", "update")]

JUDGED_BY_THE_WEBHOOK = [
    row for row in ROWS if row.operation == "create" and row.constraint != UNKNOWN and not holds_whole_float(row.object)
]


@contextmanager
def webhook_server(certificate: Path, key: Path) -> Iterator[int]:
    """The webhooks on a port of 127.0.0.1, in a thread with a loop of its own."""
    server = WebhookServer(WebhookConfiguration(certificate, key, host="127.0.0.1", port=0, look_every_s=60))
    ready = threading.Event()
    stopping: list[Callable[[], object]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(server.run())
        await server.until_ready()
        stopping.append(partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set))
        ready.set()
        await stop.wait()
        task.cancel()
        await asyncio.wait([task])
        for _ in range(TURNS_TO_CLOSE):
            await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(timeout=10)
    try:
        yield server.port
    finally:
        for stop in stopping:
            stop()
        thread.join()


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


@pytest.fixture(scope="module")
def webhook_alone(other_plane: ControlPlane) -> Iterator[ServerJudge]:
    """A server whose definitions let everything pass."""
    certificates = other_plane.certificates
    with other_plane.client() as client:
        client.headers["Content-Type"] = "application/json"
        judge = ServerJudge(client)
        for definition in definitions():
            judge.install(loosened(definition))
        judge.wait_until(refuses_nonsense=False)
        with (
            webhook_server(certificates.server, certificates.server_key) as port,
            configured(client, other_plane, port),
        ):
            yield judge
        for definition in definitions():
            client.delete(f"{DEFINITIONS_URL}/{definition['metadata']['name']}")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_real_server_judges_with_webhooks_as_the_table_says(row: Row, webhooked: ServerJudge) -> None:
    check(webhooked.ask(row), row)


@pytest.mark.parametrize("row", JUDGED_BY_THE_WEBHOOK, ids=lambda row: row.id)
def test_the_webhook_alone_judges_as_the_table_says(row: Row, webhook_alone: ServerJudge) -> None:
    answer = webhook_alone.ask(row)
    assert answer.accepted is not bool(row.refused), answer.message
    assert row.refused in answer.message
    if row.field:
        assert row.field in answer.fields


def test_a_request_whose_candidates_would_fail_to_render_is_accepted_with_a_warning(webhooked: ServerJudge) -> None:
    made = create(webhooked.client, thing(REQUEST, STATIC))
    assert made.status_code == 201
    assert "block size" in made.headers["Warning"]
    direct = create(webhooked.client, thing(REQUEST, STATIC | {"aisimulate": {"generator": "direct"}}))
    assert "Warning" not in direct.headers


def test_an_undeclared_field_of_a_candidate_that_takes_the_place_of_another_is_seen_by_the_webhook(
    webhooked: ServerJudge,
) -> None:
    """A server's own comparison does not see it."""
    (row,) = [row for row in ROWS_OF_VALIDATE if row.kind == CANDIDATE and row.operation == "update"]
    old = row.old | {"metadata": {"name": "exchanged"}}
    made = webhooked.client.post(url_of(CANDIDATE), json=old).json()
    try:
        new = row.object | {"metadata": made["metadata"]}
        refused = webhooked.client.put(url_of(CANDIDATE, "exchanged"), params={"dryRun": "All"}, json=new)
        assert refused.status_code == 422
        assert row.refused in refused.json()["message"]
    finally:
        webhooked.client.delete(url_of(CANDIDATE, "exchanged"))
