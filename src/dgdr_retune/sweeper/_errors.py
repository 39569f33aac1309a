"""How an evaluation ends: exit statuses, and what goes wrong."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """Exit statuses of the sweeper: AISimulate's own where AISimulate has one."""

    SUCCEEDED = 0
    FAILED = 1
    REFUSED = 2
    RESOURCE_LIMITED = 3
    INTERRUPTED = 130
    TERMINATED = 143


class SweeperError(Exception):
    """The evaluation ends without a result; the message is one printable line.

    Attributes:
        reason: for programs, in PascalCase.
        status: the exit status.
    """

    reason = "SweeperFailed"
    status = ExitStatus.FAILED

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(text: str) -> str:
    """The text with escapes for what could forge a line of a log: what a file or another program says is in it."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


class InputError(SweeperError):
    """The input, an argument or a variable of the environment is not usable; the message names the path."""

    reason = "InputInvalid"
    status = ExitStatus.REFUSED


class TraceUnusableError(SweeperError):
    """The trace is missing, no regular file, empty, unreadable or damaged."""

    reason = "TraceUnusable"
    status = ExitStatus.REFUSED


class AiSimulateMissingError(SweeperError):
    """Only AISimulate evaluates or renders this input, and it is not installed."""

    reason = "AISimulateMissing"
    status = ExitStatus.REFUSED


class EngineMissingError(SweeperError):
    """The engine that was asked for is not installed."""

    reason = "EngineMissing"
    status = ExitStatus.REFUSED


class RenderError(SweeperError):
    """A candidate cannot be written as a DynamoGraphDeployment; the message names the parameter."""

    reason = "CandidateNotRendered"
    status = ExitStatus.REFUSED


class NothingFeasibleError(SweeperError):
    """No candidate has a score."""

    reason = "NoFeasibleCandidate"


class DelegateFailedError(SweeperError):
    """AISimulate ended without a result."""

    reason = "AISimulateFailed"


class TerminatedError(SweeperError):
    """A signal ended the evaluation."""

    reason = "Terminated"


class SnapshotError(SweeperError):
    """The final snapshot could not be written."""

    reason = "SnapshotNotWritten"
