"""The webhooks over HTTPS."""

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from tests.contract.row import put, thing
from tests.contract.spec_rows import STATIC

from dgdr_retune.admission import (
    MAX_BODY_BYTES,
    Certificate,
    WebhookConfiguration,
    WebhookServer,
    webhook_configurations,
)
from dgdr_retune.api import REQUEST

Json = Any


class Files:
    """A certificate on disk that can be replaced."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "tls.crt", directory / "tls.key"
        self.authority = trustme.CA()

    def issue(self, name: str = "127.0.0.1") -> trustme.LeafCert:
        leaf = self.authority.issue_cert(name)
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        self.key.write_bytes(leaf.private_key_pem.bytes())
        return leaf

    def client(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@asynccontextmanager
async def running(files: Files) -> AsyncIterator[WebhookServer]:
    server = WebhookServer(
        WebhookConfiguration(files.certificate, files.key, host="127.0.0.1", port=0, look_every_s=0.01)
    )
    task = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert not server.ready


async def post(files: Files, server: WebhookServer, path: str, body: bytes, **headers: str) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"} | headers
    async with aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{server.port}{path}"
        async with session.post(url, data=io.BytesIO(body), headers=headers, ssl=files.client()) as response:
            return response.status, await response.text()


def review(spec: Json) -> bytes:
    request = {"uid": "u", "operation": "CREATE", "object": thing(REQUEST, spec)}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def test_reviews_are_answered(files: Files) -> None:
    async def ask() -> None:
        files.issue()
        async with running(files) as server:
            await server.until_ready()
            status, body = await post(files, server, "/validate", review(put(STATIC, "hardware.gpu.budget", 0)))
            assert (status, json.loads(body)["response"]["allowed"]) == (200, False)
            status, body = await post(files, server, "/mutate", review(STATIC))
            assert (status, json.loads(body)["response"]["patchType"]) == (200, "JSONPatch")

    asyncio.run(ask())


def test_everything_malformed_has_a_clear_answer(files: Files) -> None:
    async def ask() -> None:
        files.issue()
        async with running(files) as server:
            await server.until_ready()
            for body, headers, expected in (
                (b"{", {}, (400, "no JSON")),
                (b"{}", {}, (400, "no AdmissionReview")),
                (review(STATIC), {"Content-Type": "text/plain"}, (415, "application/json")),
                (b"x" * (MAX_BODY_BYTES + 1), {}, (413, "")),
            ):
                status, text = await post(files, server, "/validate", body, **headers)
                assert status == expected[0]
                assert expected[1] in text
            async with aiohttp.ClientSession() as session:
                root = f"https://127.0.0.1:{server.port}"
                for path, code in (("/validate", 405), ("/", 404), ("/readyz", 200)):
                    async with session.get(f"{root}{path}", ssl=files.client()) as response:
                        assert response.status == code

    asyncio.run(ask())


def test_it_is_ready_only_once_there_is_a_certificate(files: Files) -> None:
    async def ask() -> None:
        async with running(files) as server:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await server.until_ready()
            assert not server.ready
            files.issue()
            async with asyncio.timeout(30):
                await server.until_ready()
            status, _ = await post(files, server, "/mutate", review(STATIC))
            assert status == 200

    asyncio.run(ask())


def test_a_new_certificate_is_shown_without_a_restart_and_a_broken_one_is_not(files: Files) -> None:
    async def shown(server: WebhookServer) -> bytes:
        context = files.client()
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        connection = writer.get_extra_info("ssl_object")
        writer.close()
        certificate: bytes = connection.getpeercert(binary_form=True)
        return certificate

    async def ask() -> None:
        files.issue()
        async with running(files) as server:
            await server.until_ready()
            first = await shown(server)
            other = files.authority.issue_cert("127.0.0.1")
            files.key.write_bytes(other.private_key_pem.bytes())  # of another certificate
            server._certificate.load()
            assert await shown(server) == first
            files.certificate.write_bytes(other.cert_chain_pems[0].bytes())
            server._certificate.load()
            assert await shown(server) == ssl.PEM_cert_to_DER_cert(other.cert_chain_pems[0].bytes().decode())

    asyncio.run(ask())


def test_a_certificate_is_loaded_again_only_when_its_files_change(files: Files) -> None:
    certificate = Certificate(files.certificate, files.key)
    assert not certificate.load()
    files.certificate.write_text("nothing")
    files.key.write_text("nothing")
    assert not certificate.load()
    files.issue()
    assert certificate.load()
    current = certificate._current
    assert certificate.load()
    assert certificate._current is current
    files.key.unlink()
    assert certificate.load()
    assert certificate.loaded


def test_an_address_that_is_taken_is_an_error(files: Files) -> None:
    async def ask() -> None:
        files.issue()
        async with running(files) as server:
            await server.until_ready()
            second = WebhookServer(
                WebhookConfiguration(files.certificate, files.key, host="127.0.0.1", port=server.port)
            )
            with pytest.raises(OSError, match="address already in use"):
                await second.run()

    asyncio.run(ask())


def test_webhooks_fail_open_and_spare_the_operators_own_namespace() -> None:
    client = {"caBundle": "x", "service": {"name": "s", "namespace": "operators"}}
    mutating, validating = webhook_configurations(client, own_namespace="operators")
    for manifest, path, resources in (
        (mutating, "/mutate", {"dynamographdeploymentrequests"}),
        (
            validating,
            "/validate",
            {"dynamographdeploymentrequests", "dynamographdeploymentruns", "dynamographdeploymentcandidates"},
        ),
    ):
        (webhook,) = manifest["webhooks"]
        assert webhook["clientConfig"]["service"] == {"name": "s", "namespace": "operators", "path": path}
        assert (webhook["failurePolicy"], webhook["matchPolicy"], webhook["sideEffects"]) == ("Ignore", "Exact", "None")
        (rule,) = webhook["rules"]
        assert set(rule["resources"]) == resources
        assert rule["apiVersions"] == ["v1beta2"]
        (expression,) = webhook["namespaceSelector"]["matchExpressions"]
        assert (expression["operator"], expression["values"]) == ("NotIn", ["operators"])
    by_url, _ = webhook_configurations({"url": "https://127.0.0.1:1"}, own_namespace="x")
    assert by_url["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:1/mutate"
