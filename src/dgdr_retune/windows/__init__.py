"""Gzip members to valid rows to one published window file."""

from dgdr_retune.windows._completeness import GAP_MS, Completeness, Gap, Shortfall
from dgdr_retune.windows._counts import Counts
from dgdr_retune.windows._errors import CutError, CutFailure, UnsafePathError, WindowCorruptError, WindowError
from dgdr_retune.windows._header import WindowHeader
from dgdr_retune.windows._request import CutRequest, Place
from dgdr_retune.windows._window import Window

__all__ = [
    "GAP_MS",
    "Completeness",
    "Counts",
    "CutError",
    "CutFailure",
    "CutRequest",
    "Gap",
    "Place",
    "Shortfall",
    "UnsafePathError",
    "Window",
    "WindowCorruptError",
    "WindowError",
    "WindowHeader",
]
