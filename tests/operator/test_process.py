"""`python -m dgdr_retune.operator` as a process: signals, exit codes, logs, HTTP."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from attrs import frozen

from dgdr_retune.api import KINDS, custom_resource_definition
from dgdr_retune.testing import Request, SimulatedApiServer, serve
from dgdr_retune.testing._store import Key

HOME = "dgdr-retune"
LEASE = Key("coordination.k8s.io/leases", HOME, "dgdr-retune-operator")
FLAGS = (
    "--operator-namespace=dgdr-retune",
    "--sweeper-image=registry.example/s:1",
    "--publisher-image=registry.example/p:1",
    "--runtime-image=registry.example/r:1.6.1",
)
END_WITHIN_S = 10.0


@frozen
class Process:
    process: asyncio.subprocess.Process
    log: Path

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]

    def says(self, event: str) -> bool:
        return any(line["event"] == event for line in self.lines())

    async def stopped_by(self, number: signal.Signals) -> tuple[int, float]:
        """The exit code and how many seconds it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.process.send_signal(number)
        async with asyncio.timeout(30):
            return await self.process.wait(), loop.time() - began


def kubeconfig(directory: Path, url: str) -> Path:
    path = directory / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "abc"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
        "current-context": "it",
    }
    path.write_text(yaml.safe_dump(document))
    return path


@asynccontextmanager
async def started(directory: Path, url: str, *flags: str) -> AsyncIterator[Process]:
    log = directory / "log"
    environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig(directory, url)), "HOME": str(directory)}
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dgdr_retune.operator",
            *FLAGS,
            "--http-port=0",
            *flags,
            env=environment,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield Process(process, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def server() -> SimulatedApiServer:
    made = SimulatedApiServer()
    for kind in KINDS:
        made.install(custom_resource_definition(kind))
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}).encode()
    assert made.handle(Request("POST", "/api/v1/namespaces", {}, "application/json", body)).code == 201
    return made


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_the_lease_released_and_exit_code_0(tmp_path: Path, number: signal.Signals) -> None:
    async def scenario() -> None:
        made = server()
        async with serve(made) as url, started(tmp_path, url) as process:
            await until(lambda: made.store.get(LEASE) is not None)
            code, seconds = await process.stopped_by(number)
            assert (code, process.says("stopped")) == (0, True)
            assert seconds < END_WITHIN_S
            assert "holderIdentity" not in made.store.get(LEASE)["spec"]

    run(scenario)


def test_it_is_stopped_in_time_while_the_api_server_cannot_be_reached_or_does_not_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await over.wait()
            writer.close()

        over = asyncio.Event()
        listening = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        async with started(tmp_path, f"http://127.0.0.1:{port}") as process:
            await until(lambda: process.says("started"))
            await asyncio.sleep(1)
            code, seconds = await process.stopped_by(signal.SIGTERM)
            assert code == 0
            assert seconds < END_WITHIN_S
        over.set()
        listening.close()
        await asyncio.sleep(0.1)

    run(scenario)


def test_logs_are_json_lines_on_state_changes(tmp_path: Path) -> None:
    async def scenario() -> None:
        made = server()
        async with serve(made) as url, started(tmp_path, url) as process:
            await until(lambda: made.store.get(LEASE) is not None)
            before = len(process.lines())
            await asyncio.sleep(3)  # it renews its Lease, and says nothing of it
            assert len(process.lines()) == before
            await process.stopped_by(signal.SIGTERM)
            lines = process.log.read_text().splitlines()
            for each in map(json.loads, lines):
                assert {"event", "level", "logger", "time"} <= each.keys()

    run(scenario)


def test_metrics_and_health_are_on_loopback(tmp_path: Path) -> None:
    async def scenario() -> None:
        made = server()
        async with serve(made) as url, started(tmp_path, url) as process, httpx.AsyncClient() as client:
            await until(lambda: process.says("serving_http"))
            line = next(each for each in process.lines() if each["event"] == "serving_http")
            assert line["host"] == "127.0.0.1"
            root = f"http://127.0.0.1:{line['port']}"
            await until(lambda: made.store.get(LEASE) is not None)
            async with asyncio.timeout(30):
                while (await client.get(f"{root}/readyz")).status_code != 200:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)
            text = (await client.get(f"{root}/metrics")).text
            assert "dgdr_retune_leader 1.0" in text
            calls = r'dgdr_retune_api_call_seconds_count\{outcome="201",resource="leases",verb="create"\} 1\.0'
            assert re.search(calls, text)

    run(scenario)


async def finished(*flags: str, **environment: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dgdr_retune.operator",
        *flags,
        env={"PATH": os.environ["PATH"], **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()


def test_settings_can_be_printed_and_faults_of_them_are_exit_code_2(tmp_path: Path) -> None:
    async def scenario() -> None:
        code, out, _ = await finished(*FLAGS, "--print-config", DGDR_RETUNE_WORKERS="7")
        assert (code, yaml.safe_load(out)["workers"]) == (0, 7)
        code, _, error = await finished(*FLAGS, "--workers=0")
        assert (code, "--workers: workers:" in error) == (2, True)
        code, _, error = await finished(*FLAGS, "--worker=1")  # no abbreviations
        assert code == 2
        code, _, error = await finished(*FLAGS, HOME=str(tmp_path), KUBECONFIG=str(tmp_path / "none"))
        assert (code, "kubeconfig" in error) == (1, True)
        assert "Traceback" not in error

    run(scenario)


def test_an_address_that_is_taken_is_exit_code_1(tmp_path: Path) -> None:
    async def scenario() -> None:
        made = server()
        listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        async with serve(made) as url, started(tmp_path, url, f"--http-port={port}") as process:
            async with asyncio.timeout(60):
                assert await process.process.wait() == 1
            assert "address already in use" in process.log.read_text()
        listening.close()

    run(scenario)
