"""The two containers of a Run's pod as real processes."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from tests.publisher.world import NAMESPACE, POD, RUN, World

Container = AbstractAsyncContextManager[asyncio.subprocess.Process]

PUBLISHER = """
import asyncio, os, sys
from pathlib import Path
from dgdr_retune.kube import Kubeconfig
from dgdr_retune.publisher._main import publish
from dgdr_retune.publisher._settings import read_settings
settings = read_settings(sys.argv[2:], os.environ)
sys.exit(asyncio.run(publish(settings, Kubeconfig(Path(sys.argv[1])))))
"""


@asynccontextmanager
async def _container(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of this interpreter, killed at the end if it has not ended by itself."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env={"PATH": os.environ["PATH"], **environment}, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def publishing(world: World, url: str) -> Container:
    """The publisher, which talks to the world's server by HTTP."""
    kubeconfig = world.directory / "kubeconfig"
    cluster = {"clusters": [{"name": "c", "cluster": {"server": url}}], "users": [{"name": "u", "user": {}}]}
    contexts = {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **cluster, **contexts}))
    return _container(
        *("-c", PUBLISHER, str(kubeconfig)),
        *("--snapshot-dir", str(world.directory), "--run-name", RUN, "--poll-interval", "50ms"),
        POD_NAMESPACE=NAMESPACE,
        POD_NAME=POD,
    )


def sweeping(world: World, what: Any) -> Container:
    """The sweeper, replaying each candidate twice."""
    return _container(
        *("-m", "dgdr_retune.sweeper", "--snapshot-dir", str(world.directory)),
        DGDR_RETUNE_INPUT=json.dumps(what),
        DGDR_RETUNE_REPLICATIONS="2",
    )
