"""Gzip members to valid rows to one published window file."""

from dgdr_retune.windows._child import cut_in_child
from dgdr_retune.windows._completeness import GAP_MS, Completeness, Gap, Shortfall
from dgdr_retune.windows._counts import Counts
from dgdr_retune.windows._cut import Cut, cut
from dgdr_retune.windows._errors import CutError, CutFailure, UnsafePathError, WindowCorruptError, WindowError
from dgdr_retune.windows._header import WindowHeader
from dgdr_retune.windows._inspect import Inspection, PodReport, SegmentReport, inspect, newest_window
from dgdr_retune.windows._load import LoadedWindow, decode_rows, load_window, read_header
from dgdr_retune.windows._request import CutRequest, Place
from dgdr_retune.windows._row import Row
from dgdr_retune.windows._scan import Damage
from dgdr_retune.windows._window import Window

__all__ = [
    "GAP_MS",
    "Completeness",
    "Counts",
    "Cut",
    "CutError",
    "CutFailure",
    "CutRequest",
    "Damage",
    "Gap",
    "Inspection",
    "LoadedWindow",
    "Place",
    "PodReport",
    "Row",
    "SegmentReport",
    "Shortfall",
    "UnsafePathError",
    "Window",
    "WindowCorruptError",
    "WindowError",
    "WindowHeader",
    "cut",
    "cut_in_child",
    "decode_rows",
    "inspect",
    "load_window",
    "newest_window",
    "read_header",
]
