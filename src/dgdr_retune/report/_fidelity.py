"""Whether the simulated latencies of the parameters in force are those that were recorded, in words."""

from collections.abc import Iterator

import numpy as np
from attrs import astuple, frozen

from dgdr_retune.replay import CalibratedTiming, EngineSpecification, Recorded, RequestTimes, Scenario, Trace

CLOSE, ROUGH = 0.15, 0.5
"""Relative differences. Below the first a sweep's milliseconds can be trusted, above the second at most their order."""


def served(recorded: Recorded, trace: Trace) -> RequestTimes | None:
    """The recorded latencies as a replay gives them, on one worker or two; None where the rows have none."""
    total, ttft = recorded.total_ms, recorded.ttft_ms
    if not np.isfinite(total - ttft).any():
        return None
    gaps = np.where(trace.output_length > 1, trace.output_length - 1, np.nan)
    return RequestTimes(ttft_ms=ttft, itl_ms=(total - ttft) / gaps, e2e_ms=total)


def verdict_on_simulation(recorded: RequestTimes | None, simulated: RequestTimes, scenario: Scenario) -> str:
    """Whether a person should trust the sweep, and what would make it truer; the latency that is furthest off decides.

    Args:
        recorded: what the requests took (`served`).
        simulated: the same of the parameters in force.
        scenario: of the simulation.
    """
    if scenario.speedup != 1.0:
        return "Arrivals are not as they were recorded, so these latencies cannot be compared with the recorded ones."
    if recorded is None:
        return "The rows hold no latencies (frontends before Dynamo 1.6.1), so nothing shows whether these are true."
    compared = {
        name: _ratios(getattr(recorded, field), getattr(simulated, field))
        for name, field in (("TTFT", "ttft_ms"), ("ITL", "itl_ms"), ("end to end", "e2e_ms"))
    }
    ratios = {name: each for name, each in compared.items() if each is not None}
    if not ratios:
        return "No request has both a recorded latency and a simulated one, so nothing shows whether these are true."
    share = float(np.mean(_both(recorded.ttft_ms, simulated.ttft_ms) & _both(recorded.e2e_ms, simulated.e2e_ms)))
    said = (
        "for the median request / the mean / the 90th percentile, simulated over recorded, "
        + ", ".join(f"{name} {each.median:.2f} / {each.mean:.2f} / {each.p90:.2f}" for name, each in ratios.items())
        + f"; {100 * share:.3g} % of the requests have both."
    )
    off = max(abs(ratio - 1) for each in ratios.values() for ratio in astuple(each))
    advice = " ".join((said, *_advice(list(ratios.values()), off, share, scenario.specification)))
    worst = max(off, 1 - share)
    if worst <= CLOSE:
        return f"The simulation tells the recorded latencies well: {advice}"
    if worst <= ROUGH:
        return f"The simulation tells the recorded latencies roughly: {advice}"
    return f"The simulation is far from the recorded latencies: {advice} Trust the order of candidates at most."


@frozen
class _Ratios:
    """Simulated over recorded: the median of the requests' ratios, the ratio of the means, and that of the p90s."""

    median: float
    mean: float
    p90: float


def _ratios(recorded: np.ndarray, simulated: np.ndarray) -> _Ratios | None:
    """None where no request has both."""
    both = _both(recorded, simulated)
    if not both.any():
        return None
    was, is_now = recorded[both], simulated[both]
    return _Ratios(
        median=float(np.median(is_now / was)),
        mean=float(is_now.mean() / was.mean()),
        p90=float(np.quantile(is_now, 0.9) / np.quantile(was, 0.9)),
    )


def _both(recorded: np.ndarray, simulated: np.ndarray) -> np.ndarray:
    both: np.ndarray = (recorded > 0) & np.isfinite(recorded) & np.isfinite(simulated)
    return both


def _advice(ratios: list[_Ratios], off: float, share: float, specification: EngineSpecification) -> Iterator[str]:
    if 1 - share > CLOSE:
        yield "The others were recorded without latencies, or the simulated workers refused them."
    if off <= CLOSE:
        return
    if any(min(each.mean, each.p90) < min(each.median, 1.0) - CLOSE for each in ratios):
        yield (
            "Where the mean or the 90th percentile is lower than the median, requests waited in the recording in a "
            "way that the simulation does not reproduce."
        )
    if any(isinstance(pool.timing, CalibratedTiming) for pool in specification.pools):
        yield "The timing is calibrated already: fit it again only if that was to other traffic."
    elif specification.mode == "aggregated":
        yield "To come closer, fit the timing with `dgdr-retune calibrate`."
    else:
        yield "To come closer, give the workers' timing other values; it cannot be fitted to disaggregated workers."
