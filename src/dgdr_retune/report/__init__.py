"""One self-contained HTML page that shows a decision, or a calibration, and what it rests on."""

from dgdr_retune.report._build import KNOBS, RetuneRecord, build_page
from dgdr_retune.report._fit import calibration_page, fit_in_words
from dgdr_retune.report._page import Page, Plot, Section, render
from dgdr_retune.report._text import printable, utc

__all__ = [
    "KNOBS",
    "Page",
    "Plot",
    "RetuneRecord",
    "Section",
    "build_page",
    "calibration_page",
    "fit_in_words",
    "printable",
    "render",
    "utc",
]
