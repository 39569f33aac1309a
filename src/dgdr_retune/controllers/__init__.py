"""Requests become Runs, Runs become Jobs, and the claim is held as long as a Job may read from it."""

from dgdr_retune.controllers._configuration import (
    AISIMULATE_COMMAND,
    PUBLISHER_COMMAND,
    SNAPSHOT_DIRECTORY,
    SWEEPER_COMMAND,
    Configuration,
    Resources,
)
from dgdr_retune.controllers._controllers import Controllers
from dgdr_retune.controllers._job import JobError, publisher_account, publisher_binding, run_job

__all__ = [
    "AISIMULATE_COMMAND",
    "PUBLISHER_COMMAND",
    "SNAPSHOT_DIRECTORY",
    "SWEEPER_COMMAND",
    "Configuration",
    "Controllers",
    "JobError",
    "Resources",
    "publisher_account",
    "publisher_binding",
    "run_job",
]
