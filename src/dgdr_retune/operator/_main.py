"""`python -m dgdr_retune.operator`: arguments, signals, exit codes."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from dgdr_retune import __version__
from dgdr_retune.kube import ConfigurationError, connect
from dgdr_retune.operator._arguments import SettingsError, parser, printed, settings_from
from dgdr_retune.operator._logs import configure_logs
from dgdr_retune.operator._operator import Operator
from dgdr_retune.operator._settings import Settings

STOPPED: Final = 0
FAILED: Final = 1
BAD_SETTINGS: Final = 2

GRACE_S: Final = 9.0
"""After a signal; then the process ends whatever still hangs."""

_log = structlog.get_logger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator; returns the exit code.

    Args:
        arguments: without the program's name; None for those of the process.
    """
    given = parser().parse_args(arguments)
    try:
        settings = settings_from(given, os.environ)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_SETTINGS
    if given.print_config:
        sys.stdout.write(printed(settings))
        return STOPPED
    configure_logs(settings.log_level)
    try:
        asyncio.run(_run_until_signalled(settings))
    except ConfigurationError as error:
        _log.error("no_api_server", error=str(error))
        return FAILED
    except ExceptionGroup:
        _log.exception("operator_failed")
        return FAILED
    return STOPPED


async def _run_until_signalled(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    running = asyncio.create_task(_run(settings))

    def stop(name: str) -> None:
        _log.info("stopping", signal=name)
        running.cancel()
        loop.call_later(GRACE_S, os._exit, FAILED)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()
    _log.info("stopped")


async def _run(settings: Settings) -> None:
    async with connect() as transport:
        _log.info("started", version=__version__, namespace=settings.namespace or "all")
        await Operator(settings, transport, now=lambda: datetime.now(UTC), rng=random.Random()).run()  # noqa: S311 - jitter
