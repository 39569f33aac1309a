"""What can go wrong in a replay."""


class ReplayError(Exception):
    """A replay that cannot be made, or that failed; `reason` is for machines, the message says what to do."""

    reason = "replay_failed"


class EngineSectionError(ReplayError):
    """The engine section describes an engine that this project's replay does not have, or leaves it open."""

    reason = "engine_not_replayable"

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class TraceError(ReplayError):
    """The window's rows cannot be replayed together."""

    reason = "trace_not_replayable"


class EngineUnavailableError(ReplayError):
    """The engine is not installed here."""

    reason = "engine_unavailable"


class EngineFailedError(ReplayError):
    """The engine died, or answered with an error."""

    reason = "engine_failed"


class CalibrationError(ReplayError):
    """The recorded latencies do not give a timing that can be trusted."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
