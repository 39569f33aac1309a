"""The webhooks beside a real API server."""

import base64
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from tests.contract.judges import url_of
from tests.contract.row import thing
from tests.contract.spec_rows import STATIC
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.processes import Process, free_ports

from dgdr_retune.admission import webhook_configurations
from dgdr_retune.api import REQUEST

Json = Any

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
OWN_NAMESPACE = "dgdr-system"
IN_FORCE_WITHIN_S = 30.0
LOOK_EVERY_S = 0.05
SERVE = """
import asyncio, sys
from pathlib import Path
from dgdr_retune.admission import WebhookConfiguration, WebhookServer
certificate, key, port = sys.argv[1:]
asyncio.run(WebhookServer(WebhookConfiguration(Path(certificate), Path(key), "127.0.0.1", int(port))).run())
"""


@contextmanager
def webhook_server(plane: ControlPlane) -> Iterator[int]:
    """The webhooks on a port of 127.0.0.1, in a process of their own."""
    (port,) = free_ports(1)
    certificates = plane.certificates
    command = [sys.executable, "-c", SERVE, str(certificates.server), str(certificates.server_key), str(port)]
    process = Process(command, log=plane.directory / f"webhooks-{port}.log")
    try:
        with httpx.Client(verify=ssl.create_default_context(cafile=certificates.authority), trust_env=False) as client:
            wait_until(lambda: process.ended() or _is_ready(client, port))
        assert not process.ended(), process.tail()
        yield port
    finally:
        process.end()


def _is_ready(client: httpx.Client, port: int) -> bool:
    try:
        return client.get(f"https://127.0.0.1:{port}/readyz").is_success
    except httpx.TransportError:
        return False


@contextmanager
def configured(client: httpx.Client, plane: ControlPlane, port: int, policy: str | None = None) -> Iterator[None]:
    """The API server is to ask the webhooks; ``policy`` says what holds if they do not answer, else what we ship."""
    authority = base64.b64encode(plane.certificates.authority.read_bytes()).decode()
    connection = {"caBundle": authority, "url": f"https://127.0.0.1:{port}"}
    urls = []
    for configuration in webhook_configurations(connection, own_namespace=OWN_NAMESPACE):
        for webhook in configuration["webhooks"]:
            webhook["failurePolicy"] = policy or webhook["failurePolicy"]
        plural = f"{configuration['kind'].lower()}s"
        made = client.post(f"{CONFIGURATIONS}/{plural}", json=configuration)
        assert made.status_code == 201, made.text
        urls.append(f"{CONFIGURATIONS}/{plural}/{configuration['metadata']['name']}")
    try:
        yield
    finally:
        for url in urls:
            assert client.delete(url).is_success
        wait_until(lambda: create(client, thing(REQUEST, STATIC)).headers.get("Warning") is None)


@contextmanager
def asked(client: httpx.Client, plane: ControlPlane) -> Iterator[None]:
    """The API server asks the webhooks, and refuses everything if they do not answer."""
    with webhook_server(plane) as port, configured(client, plane, port, "Fail"):
        wait_until(lambda: "Warning" in create(client, thing(REQUEST, STATIC)).headers)
        yield


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + IN_FORCE_WITHIN_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(LOOK_EVERY_S)


def create(client: httpx.Client, value: Json) -> httpx.Response:
    return client.post(url_of(REQUEST), params={"dryRun": "All", "fieldValidation": "Strict"}, json=value)
