"""Whether the simulated latencies of the parameters in force are those that were recorded, in words."""

import numpy as np

from dgdr_retune.replay import Recorded, RequestTimes, Trace

CLOSE, ROUGH = 0.15, 0.5
"""Relative differences. Below the first a sweep's milliseconds can be trusted, above the second at most their order."""

_CALIBRATE = "fit the timing with `dgdr-retune calibrate`"


def served(recorded: Recorded, trace: Trace) -> RequestTimes | None:
    """The recorded latencies as a replay gives them, on one worker or two; None where the rows have none."""
    total, ttft = recorded.total_ms, recorded.ttft_ms
    if not np.isfinite(total - ttft).any():
        return None
    gaps = np.where(trace.output_length > 1, trace.output_length - 1, np.nan)
    return RequestTimes(ttft_ms=ttft, itl_ms=(total - ttft) / gaps, e2e_ms=total)


def verdict_on_simulation(recorded: RequestTimes | None, simulated: RequestTimes, *, as_it_was: bool) -> str:
    """Whether a person should trust the sweep, request by request; `as_it_was` unless arrivals are sped up."""
    if not as_it_was:
        return "Arrivals are not as they were recorded, so these latencies cannot be compared with the recorded ones."
    if recorded is None:
        return "The rows hold no latencies (frontends before Dynamo 1.6.1), so nothing shows whether these are true."
    ratios = {
        name: _ratio(getattr(recorded, field), getattr(simulated, field))
        for name, field in (("TTFT", "ttft_ms"), ("ITL", "itl_ms"), ("end to end", "e2e_ms"))
    }
    known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    if not known:
        return "No request has both a recorded latency and a simulated one, so nothing shows whether these are true."
    said = "for the median request, simulated over recorded, " + ", ".join(
        f"{name} {known[name]:.2f}" for name in known
    )
    worst = max(abs(ratio - 1) for ratio in known.values())
    if worst <= CLOSE:
        return f"The simulation tells the recorded latencies well: {said}."
    if worst <= ROUGH:
        return f"The simulation tells the recorded latencies roughly: {said}. To come closer, {_CALIBRATE}."
    return (
        f"The simulation is far from the recorded latencies: {said}. Trust the order of candidates at most, and "
        f"{_CALIBRATE}."
    )


def _ratio(recorded: np.ndarray, simulated: np.ndarray) -> float | None:
    """The median over requests of simulated over recorded; None where no request has both."""
    both = (recorded > 0) & np.isfinite(recorded) & np.isfinite(simulated)
    return float(np.median(simulated[both] / recorded[both])) if both.any() else None
