"""Plots of windows at the edge."""

import numpy as np

from dgdr_retune.report._plots import latencies


def test_answers_of_one_token_have_an_empty_plot_of_gaps_and_no_warning() -> None:
    nothing = np.full(5, np.nan)
    assert "<svg" in latencies(name="ITL", recorded=nothing, baseline=nothing, best=None, bound_ms=None)
