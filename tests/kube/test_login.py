"""Who we are to the server: files that change, plugins, and what cannot be used."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs
from tests.kube.loopback import Hostile, call, config_file, fine, serving

from dgdr_retune.kube import ConfigurationError, HttpTransport, InCluster, Kubeconfig, connect
from dgdr_retune.kube._login import REREAD_EVERY_S, Login

PLUGIN_API = "client.authentication.k8s.io/v1"
OLD, NEW = "Bearer old", "Bearer new"


def accepts(*tokens: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") in tokens:
            return web.json_response({"ok": True})
        return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)

    return handle


def replace(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


def shown(hostile: Hostile) -> list[str | None]:
    return [request.headers.get("Authorization") for request in hostile.seen]


class Clock:
    """A loop's clock that can be put forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_s = 0.0
        loop = asyncio.get_running_loop()
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + self.ahead_s)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("old\n")
    return path


def test_every_request_shows_the_token(tmp_path: Path, token: Path) -> None:
    async def scenario() -> None:
        async with serving(accepts(OLD)) as hostile:
            async with connect(Kubeconfig(config_file(tmp_path, hostile.url, tokenFile=str(token)))) as transport:
                for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                    assert (await transport.send(call(method))).status == 200
                async with transport.stream(call()) as stream:
                    assert stream.status == 200
            assert shown(hostile) == [OLD] * 6

    asyncio.run(scenario())


def test_a_token_file_is_read_again_within_a_minute(
    tmp_path: Path, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with serving(accepts(OLD, NEW)) as hostile:
            async with connect(Kubeconfig(config_file(tmp_path, hostile.url, tokenFile=str(token)))) as transport:
                clock = Clock(monkeypatch)
                await transport.send(call())
                replace(token, "new")
                clock.ahead_s = 1
                await transport.send(call())
                clock.ahead_s = 60
                await transport.send(call())
                async with transport.stream(call()):
                    pass
            assert shown(hostile) == [OLD, OLD, NEW, NEW]

    asyncio.run(scenario())
    assert REREAD_EVERY_S < 60


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_a_token_that_is_refused_is_read_again_and_shown_once_more(
    tmp_path: Path, token: Path, method: str, *, streamed: bool
) -> None:
    async def scenario() -> None:
        async with serving(accepts(NEW)) as hostile:
            async with connect(Kubeconfig(config_file(tmp_path, hostile.url, tokenFile=str(token)))) as transport:
                replace(token, "new")
                assert await status_of(transport, method, streamed=streamed) == 200
                assert await status_of(transport, method, streamed=streamed) == 200
            assert shown(hostile) == [OLD, NEW, NEW]
            assert len(set(hostile.bodies)) == 1

    asyncio.run(scenario())


async def status_of(transport: HttpTransport, method: str, *, streamed: bool) -> int:
    if not streamed:
        return (await transport.send(call(method))).status
    async with transport.stream(call(method)) as stream:
        return stream.status


def test_a_token_that_is_refused_and_has_not_changed_is_not_shown_again(tmp_path: Path, token: Path) -> None:
    async def scenario() -> None:
        async with serving(accepts(NEW)) as hostile:
            async with connect(Kubeconfig(config_file(tmp_path, hostile.url, tokenFile=str(token)))) as transport:
                answer = await transport.send(call())
            assert (answer.status, json.loads(answer.body)["reason"]) == (401, "Unauthorized")
            assert shown(hostile) == [OLD]

    asyncio.run(scenario())


def test_a_token_that_changed_and_is_refused_too_is_shown_once(tmp_path: Path, token: Path) -> None:
    async def scenario() -> None:
        async with serving(accepts("Bearer another")) as hostile:
            async with connect(Kubeconfig(config_file(tmp_path, hostile.url, tokenFile=str(token)))) as transport:
                replace(token, "new")
                assert (await transport.send(call())).status == 401
            assert shown(hostile) == [OLD, NEW]

    asyncio.run(scenario())


def test_many_refusals_at_once_read_the_file_once(tmp_path: Path, token: Path) -> None:
    reads: list[bool] = []

    class Counting(Kubeconfig):
        async def load(self, *, afresh: bool) -> Any:
            reads.append(afresh)
            await asyncio.sleep(0)
            return await super().load(afresh=afresh)

    async def scenario() -> None:
        async with serving(accepts(NEW)) as hostile:
            async with connect(Counting(config_file(tmp_path, hostile.url, tokenFile=str(token)))) as transport:
                replace(token, "new")
                answers = await asyncio.gather(*[transport.send(call()) for _ in range(20)])
            assert {answer.status for answer in answers} == {200}

    asyncio.run(scenario())
    assert reads == [True, True]


@pytest.mark.parametrize("spoiled", ["", "x\ny", "caf\u00e9", None])
def test_a_token_file_that_is_spoiled_leaves_the_old_token_and_is_said_once(
    tmp_path: Path, token: Path, spoiled: str | None
) -> None:
    async def scenario() -> None:
        source = Kubeconfig(config_file(tmp_path, "http://127.0.0.1:1", tokenFile=str(token)))
        login = await Login.from_source(source)
        replace(token, spoiled)
        with capture_logs() as logs:
            first = await login.authorization_after(OLD)
            assert await login.authorization_after(OLD) == first
        assert first == OLD
        assert [entry["event"] for entry in logs] == ["credentials_not_renewed"]
        replace(token, "new")
        assert await login.authorization_after(OLD) == NEW

    asyncio.run(scenario())


def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InCluster:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "203.0.113.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "ca.crt").write_text("authority")
    (tmp_path / "token").write_text("old\n")
    return InCluster(tmp_path / "token", tmp_path / "ca.crt")


def test_in_a_pod_the_service_account_is_used_and_its_token_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        login = await Login.from_source(pod(tmp_path, monkeypatch))
        assert login.configuration.host == "https://203.0.113.1:443"
        assert login.configuration.ssl_ca_cert == str(tmp_path / "ca.crt")
        assert await login.authorization() == OLD
        replace(tmp_path / "token", "new")
        assert await login.authorization() == OLD
        clock = Clock(monkeypatch)
        clock.ahead_s = 60
        assert await login.authorization() == NEW
        replace(tmp_path / "token", "")
        assert await login.authorization_after(NEW) == NEW, "it is being replaced"

    asyncio.run(scenario())


def test_a_pod_without_a_token_is_told_which_file_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = pod(tmp_path, monkeypatch)
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigurationError, match=str(tmp_path / "token")) as raised:
        asyncio.run(Login.from_source(source))
    assert raised.value.reason == "NoConfiguration"


def test_outside_a_pod_the_usual_kubeconfig_is_used(
    tmp_path: Path, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with serving(fine) as hostile:
            path = config_file(tmp_path, hostile.url, tokenFile=str(token))
            monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
            monkeypatch.setattr("kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
            async with connect() as transport:
                assert (await transport.send(call())).status == 200

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "a: b", "current-context: x\ncontexts: []\nclusters: []\nusers: []\n", "\x00"]
)
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=str(path)):
        asyncio.run(Login.from_source(Kubeconfig(path)))


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing-here"):
        asyncio.run(Login.from_source(Kubeconfig(tmp_path / "nothing-here")))


@pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")  # in kubernetes-asyncio
def test_a_plugin_is_asked_again_when_its_token_is_refused_and_not_while_it_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "asked = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(asked))\n"
        "status = {'token': f'number-{asked}', 'expirationTimestamp': '2999-01-01T00:00:00Z'}\n"
        f"print(json.dumps({{'apiVersion': {PLUGIN_API!r}, 'kind': 'ExecCredential', 'status': status}}))\n"
    )
    plugin.chmod(0o755)
    section = {
        "apiVersion": PLUGIN_API,
        "command": str(plugin),
        "interactiveMode": "Never",
    }

    async def scenario() -> None:
        async with serving(
            accepts("Bearer number-1"), accepts("Bearer number-1"), accepts("Bearer number-2")
        ) as hostile:
            async with connect(Kubeconfig(config_file(tmp_path, hostile.url, exec=section))) as transport:
                clock = Clock(monkeypatch)
                assert (await transport.send(call())).status == 200
                clock.ahead_s = 100
                assert (await transport.send(call())).status == 200
                assert (await transport.send(call())).status == 200
            assert shown(hostile) == [*["Bearer number-1"] * 3, "Bearer number-2"]

    asyncio.run(scenario())
