"""What can go wrong with a window, each with a machine-readable reason."""

from typing import Final, Literal, TypeAlias

from attrs import frozen

CutFailure: TypeAlias = Literal[
    "trace_corrupt",
    "rows_refused",
    "window_too_large",
    "mixed_block_size",
    "mixed_agent_context",
    "agent_traffic",
    "publish_unsupported",
    "publish_contended",
    "storage_failed",
    "segments_unreadable",
    "segments_changed",
    "window_mismatch",
    "cut_deadline",
    "cut_died",
]
"""Why a cut ended without a window: the closed set of `CutError.reason`."""

_WINDOW_CORRUPT: Final = "window_corrupt"
_UNSAFE_PATH: Final = "unsafe_path"


class WindowError(Exception):
    """A window cannot be cut, read or named; `reason` is for machines, the message says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CutError(WindowError):
    """The cut ended without a window."""

    def __init__(self, reason: CutFailure, message: str) -> None:
        super().__init__(reason, message)


class WindowCorruptError(WindowError):
    """A published window is not what its header says, or holds a row that no replay would take."""

    def __init__(self, message: str) -> None:
        super().__init__(_WINDOW_CORRUPT, message)


class UnsafePathError(WindowError):
    """A name or path that must not be used below a claim: not a DNS-1123 name, or not relative to its root."""

    def __init__(self, message: str) -> None:
        super().__init__(_UNSAFE_PATH, message)


@frozen
class Failure:
    """A `WindowError` as plain data, to pass from one process to another."""

    error: str
    reason: str
    message: str

    @classmethod
    def of(cls, error: WindowError) -> "Failure":
        """The data of an error."""
        return cls(type(error).__name__, error.reason, str(error))

    def to_error(self) -> WindowError:
        """The error of the data."""
        for error in (WindowCorruptError, UnsafePathError):
            if self.error == error.__name__:
                return error(self.message)
        return CutError(self.reason, self.message)  # type: ignore[arg-type]  # the other process is this program
