"""What stops the publisher, or makes it wait."""

from enum import IntEnum
from typing import Literal


class Exit(IntEnum):
    """How the process ends; together with the sweeper's own exit code this decides the Job."""

    ACKNOWLEDGED = 0
    """All that the sweeper wrote is published; or the sweeper failed, whose own code then fails the Job."""
    NOT_RECONCILED = 1
    """The last snapshot cannot be published, the flags are wrong, the Run is not there, or SIGTERM came first."""
    PROTOCOL_VIOLATION = 3
    """The sweeper ended without a valid final snapshot."""
    RUN_FAILED = 4
    """The final snapshot says that the Run failed."""


class SnapshotError(ValueError):
    """A snapshot that cannot be used. While the sweeper runs, a later one may mend it."""

    def __init__(self, reason: Literal["InvalidSnapshot", "RegressingSnapshot"], message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PublisherError(Exception):
    """Why Candidates and Run cannot be brought to what a snapshot says."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class UnsettledError(PublisherError):
    """Something of this moment stands in the way: trying again may succeed.

    `reason` is `ForeignCandidate`, `CandidateTerminating` or `KeepsChanging`.
    """


class HopelessError(PublisherError):
    """There is nothing to publish for, and there will not be.

    `reason` is `RunGone`, `RunReplaced`, `RunTerminating`, `PodGone`, `PodTerminating`, `PodWithoutRun`,
    `NoSuchContainer` or `Refused`.
    """
