"""The process around the loop: connection, signals, logs."""

import asyncio
import logging
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from dgdr_retune.kube import Api, InCluster, Kubeconfig, KubeError, connect
from dgdr_retune.publisher._act import Cluster
from dgdr_retune.publisher._errors import Exit
from dgdr_retune.publisher._publisher import Publisher
from dgdr_retune.publisher._settings import Settings, SettingsError, read_settings

_log: Final = structlog.get_logger(__name__)


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the publisher of a pod; the exit code of the process."""
    _configure_logs()
    try:
        settings = read_settings(arguments, environment)
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        return Exit.NOT_RECONCILED
    return asyncio.run(publish(settings, InCluster()))


async def publish(settings: Settings, source: InCluster | Kubeconfig) -> Exit:
    """Publish until there is an end, or SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        publishing = group.create_task(_publish(settings, source))
        stopping = group.create_task(stop.wait())
        await asyncio.wait((publishing, stopping), return_when=asyncio.FIRST_COMPLETED)
        publishing.cancel()
        stopping.cancel()
    if publishing.cancelled():
        _log.warning("stopped", reason="Signal", cause="SIGTERM or SIGINT came before the last snapshot was published")
        return Exit.NOT_RECONCILED
    return publishing.result()


async def _publish(settings: Settings, source: InCluster | Kubeconfig) -> Exit:
    try:
        async with connect(source) as transport:
            cluster = Cluster(
                api=Api(transport, rng=random.Random()),  # noqa: S311 - jitter is no secret
                namespace=settings.namespace,
                pod_name=settings.pod_name,
                run_name=settings.run_name,
            )
            publisher = Publisher(
                cluster,
                snapshot_dir=settings.snapshot_dir,
                sweeper=settings.sweeper_container,
                poll_interval_s=settings.poll_interval,
                now=lambda: datetime.now(UTC),
            )
            return await publisher.run()
    except KubeError as error:
        _log.error("stopped", reason=error.reason, cause=str(error))
        return Exit.NOT_RECONCILED


def _configure_logs() -> None:
    """One JSON object a line on stderr."""
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
