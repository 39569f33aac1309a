"""A Request's typed fields and overrides as the document that AISimulate reads."""

from dgdr_retune.lowering._containment import ABSENT, Difference, first_difference
from dgdr_retune.lowering._lower import Lowered, LoweringError, TraceMount, lower, trace_mount
from dgdr_retune.lowering._merge import merge_patch

__all__ = [
    "ABSENT",
    "Difference",
    "Lowered",
    "LoweringError",
    "TraceMount",
    "first_difference",
    "lower",
    "merge_patch",
    "trace_mount",
]
