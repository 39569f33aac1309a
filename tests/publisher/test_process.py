"""The process: its flags, its signals, its exit codes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.publisher.containers import publishing
from tests.publisher.snapshots import candidate, snapshot
from tests.publisher.world import World

from dgdr_retune.publisher._settings import Settings, SettingsError, read_settings
from dgdr_retune.testing import serve

ENVIRONMENT = {"POD_NAMESPACE": "inference", "POD_NAME": "qwen-run-1-x7k2p"}
FLAGS = ["--snapshot-dir", "/snapshots", "--run-name", "qwen-run-1"]


def test_flags_and_environment_make_the_settings() -> None:
    assert read_settings(FLAGS, ENVIRONMENT) == Settings(
        snapshot_dir=Path("/snapshots"),
        run_name="qwen-run-1",
        sweeper_container="sweeper",
        poll_interval=1.0,
        namespace="inference",
        pod_name="qwen-run-1-x7k2p",
    )
    given = read_settings([*FLAGS, "--sweeper-container=other", "--poll-interval=1m30s"], ENVIRONMENT)
    assert (given.sweeper_container, given.poll_interval) == ("other", 90.0)
    assert read_settings([*FLAGS, "--poll-interval", "250ms"], ENVIRONMENT).poll_interval == 0.25


@pytest.mark.parametrize(
    ("flags", "environment", "named"),
    [
        ([], ENVIRONMENT, "--snapshot-dir"),
        (FLAGS[:2], ENVIRONMENT, "--run-name"),
        ([*FLAGS[:2], "--run-name", "No_Name"], ENVIRONMENT, "--run-name"),
        ([*FLAGS[:2], "--run-name", "../x"], ENVIRONMENT, "--run-name"),
        ([*FLAGS, "--poll-interval", "1"], ENVIRONMENT, "--poll-interval"),
        ([*FLAGS, "--poll-interval", "0s"], ENVIRONMENT, "--poll-interval"),
        ([*FLAGS, "--poll-interval", "s1"], ENVIRONMENT, "--poll-interval"),
        ([*FLAGS, "--sweeper-container", ""], ENVIRONMENT, "--sweeper-container"),
        ([*FLAGS, "--unknown"], ENVIRONMENT, "--unknown"),
        ([*FLAGS, "--namespace", "x"], ENVIRONMENT, "--namespace"),
        (FLAGS, {"POD_NAME": "pod"}, "POD_NAMESPACE"),
        (FLAGS, {"POD_NAMESPACE": "inference"}, "POD_NAME"),
        (FLAGS, ENVIRONMENT | {"POD_NAMESPACE": ""}, "POD_NAMESPACE"),
    ],
)
def test_a_wrong_setting_is_named(flags: list[str], environment: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        read_settings(flags, environment)


def run_module(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dgdr_retune.publisher", *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_wrong_flags_are_exit_1_and_no_traceback() -> None:
    ended = run_module("--run-name", "qwen-run-1", **ENVIRONMENT)
    assert ended.returncode == 1
    assert ended.stderr == "error: the following arguments are required: --snapshot-dir\n"


def test_without_a_service_account_it_is_exit_1_and_says_so() -> None:
    ended = run_module(*FLAGS, **ENVIRONMENT)
    assert ended.returncode == 1
    said = json.loads(ended.stderr.splitlines()[-1])
    assert (said["event"], said["reason"], said["level"]) == ("stopped", "NoConfiguration", "error")


async def published(world: World) -> None:
    for _ in range(3000):
        if (await world.run())["status"].get("candidateRefs"):
            return
        await asyncio.sleep(0.02)
    pytest.fail("nothing was published")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_with_exit_1(world: World, number: signal.Signals) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0)))
        async with serve(world.server) as url, publishing(world, url) as process:
            await published(world)
            process.send_signal(number)
            async with asyncio.timeout(5):
                assert await process.wait() == 1

    asyncio.run(scenario())


def test_a_signal_that_comes_while_it_is_loading_ends_it_too(tmp_path: Path) -> None:
    slow = tmp_path / "structlog.py"
    slow.write_text(f"import pathlib, time\npathlib.Path({str(tmp_path / 'loading')!r}).touch()\ntime.sleep(600)\n")
    command = [sys.executable, "-m", "dgdr_retune.publisher", *FLAGS]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), **ENVIRONMENT}
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:
        try:
            for _ in range(3000):
                if (tmp_path / "loading").exists():
                    break
                time.sleep(0.02)
            process.terminate()
            assert process.wait(5) == 1, (
                "as ever after; by default it would be ended by the signal, or in a container not"
            )
        finally:
            process.kill()


def test_the_exit_code_is_that_of_the_process(world: World) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), phase="Failed"))
        async with serve(world.server) as url, publishing(world, url) as process, asyncio.timeout(60):
            assert await process.wait() == 4

    asyncio.run(scenario())
