"""What a window is: an epoch-aligned, half-open span of arrival times."""

from typing import Self

from attrs import frozen


@frozen
class Window:
    """The requests that arrived in [start_ms, end_ms), in unix milliseconds.

    A row of the window counts only if its request had ended by `cutoff_ms`, which is when a decision on the window
    is due (window end plus grace): a later cut must not see more than an earlier one.
    """

    start_ms: int
    end_ms: int
    cutoff_ms: int

    @classmethod
    def ending_at(cls, end_ms: int, *, interval_s: int, grace_s: int) -> Self:
        """The window of one interval that ends at `end_ms`."""
        return cls(start_ms=end_ms - interval_s * 1000, end_ms=end_ms, cutoff_ms=end_ms + grace_s * 1000)

    @classmethod
    def containing(cls, time_ms: int, *, interval_s: int, grace_s: int) -> Self:
        """The epoch-aligned window that `time_ms` falls in."""
        interval_ms = interval_s * 1000
        return cls.ending_at(time_ms - time_ms % interval_ms + interval_ms, interval_s=interval_s, grace_s=grace_s)
