"""The metrics of a replay: names, units and definitions of Dynamo's replay summary (ai-dynamo-runtime 1.6.1).

Percentiles take the sample whose rank is (n - 1) * p / 100, rounded, halves up. Those of inter-token latency and of
output_token_throughput_per_user are exact here; Dynamo estimates them from a sketch. Deviations divide by n. Left out
are what depends on the machine (wall_time_ms, processed_tokens_per_s, processed_output_tokens_per_s), power, which
nothing here knows, and kv_eviction_policy, which is no number.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dgdr_retune.replay._engine import Metrics, RequestTimes, Scenario, Sla
from dgdr_retune.replay._outcome import Outcome
from dgdr_retune.replay._trace import Trace

_PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
_SHORTEST_S = 1e-9


def request_times(outcome: Outcome) -> RequestTimes:
    """Latencies by request; NaN where it had no such token."""
    gaps = np.where(outcome.output_length > 1, outcome.output_length - 1, np.nan)
    return RequestTimes(
        ttft_ms=outcome.first_token_ms - outcome.arrival_ms,
        itl_ms=(outcome.end_ms - outcome.first_token_ms) / gaps,
        e2e_ms=np.where(outcome.output_length > 0, outcome.end_ms, np.nan) - outcome.arrival_ms,
    )


def summarize(outcome: Outcome, trace: Trace, scenario: Scenario) -> Metrics:
    """All metrics of one replay."""
    values = _counts_and_rates(outcome, trace, scenario)
    times = request_times(outcome)
    for name, samples in (
        ("ttft_ms", times.ttft_ms),
        ("ttst_ms", outcome.second_token_ms - outcome.first_token_ms),
        ("tpot_ms", times.itl_ms),
        ("e2e_latency_ms", times.e2e_ms),
    ):
        known = np.sort(samples[~np.isnan(samples)], kind="stable")
        values |= _distribution(name, known, np.ones(len(known), dtype=np.int64))
    values["num_ttft_samples"] = int(np.count_nonzero(~np.isnan(times.ttft_ms)))
    values["num_tpot_samples"] = int(np.count_nonzero(~np.isnan(times.itl_ms)))
    values["num_e2e_latency_samples"] = int(np.count_nonzero(~np.isnan(times.e2e_ms)))
    order = np.argsort(outcome.gap_ms, kind="stable")
    gap_ms, gap_tokens = outcome.gap_ms[order], outcome.gap_tokens[order]
    values |= _distribution("itl_ms", gap_ms, gap_tokens)
    some = gap_ms > 0.0
    rates, tokens = 1000.0 / gap_ms[some][::-1], gap_tokens[some][::-1]
    values |= _distribution("output_token_throughput_per_user", rates, tokens)
    if scenario.sla is not None:
        values |= _goodput(outcome, times, scenario.sla, values["duration_ms"])
    return Metrics({name: float(value) for name, value in values.items()})


def _counts_and_rates(outcome: Outcome, trace: Trace, scenario: Scenario) -> dict[str, float]:
    pools = scenario.specification.pools
    completed = ~outcome.refused
    input_tokens = int(trace.input_length[completed].sum())
    output_tokens = int(outcome.output_length.sum())
    duration_ms = float(outcome.end_ms[completed].max(initial=0.0))
    duration_s = max(duration_ms / 1000.0, _SHORTEST_S)
    seconds = float(outcome.end_ms.max()) / 1000.0
    prefill = pools[0] if len(pools) > 1 else None
    prefill_seconds = prefill.replicas * seconds if prefill is not None else 0.0
    prefill_gpus = prefill.gpus_per_worker if prefill is not None else 0
    decode_seconds = pools[-1].replicas * seconds
    decode_gpus = pools[-1].gpus_per_worker
    return {
        "num_requests": len(trace),
        "completed_requests": int(np.count_nonzero(completed)),
        "total_input_tokens": input_tokens,
        "total_output_tokens": output_tokens,
        "processed_tokens": input_tokens + output_tokens,
        "committed_prefill_tokens": outcome.committed_prefill_tokens,
        "duration_ms": duration_ms,
        "request_throughput_rps": np.count_nonzero(completed) / duration_s,
        "input_throughput_tok_s": input_tokens / duration_s,
        "output_throughput_tok_s": output_tokens / duration_s,
        "total_throughput_tok_s": (input_tokens + output_tokens) / duration_s,
        "prefill_worker_seconds": prefill_seconds,
        "decode_worker_seconds": decode_seconds,
        "prefill_gpus_per_worker": prefill_gpus,
        "decode_gpus_per_worker": decode_gpus,
        "gpu_hours": (prefill_seconds * prefill_gpus + decode_seconds * decode_gpus) / 3600.0,
        "prefix_cache_reused_ratio": _ratio(int(outcome.reused_most[completed].sum()), input_tokens),
        "first_admission_prefix_cache_reused_ratio": _ratio(int(outcome.reused_first[completed].sum()), input_tokens),
    }


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _distribution(name: str, values: NDArray[np.float64], weights: NDArray[np.integer]) -> dict[str, float]:
    """Statistics of ascending samples that occur `weights` times each; none without samples.

    Sums are numpy's own, not a product of vectors: its order would depend on the linear algebra library's threads.
    """
    count = int(weights.sum())
    if count == 0:
        return {}
    mean = float((values * weights).sum()) / count
    ranks = np.cumsum(weights)
    statistics = {
        f"mean_{name}": mean,
        f"min_{name}": float(values[0]),
        f"max_{name}": float(values[-1]),
        f"std_{name}": math.sqrt(float(((values - mean) ** 2 * weights).sum()) / count),
    }
    for label, percent in _PERCENTILES.items():
        rank = math.floor((count - 1) * percent / 100 + 0.5)
        statistics[f"{label}_{name}"] = float(values[np.searchsorted(ranks, rank, side="right")])
    return statistics


def _goodput(outcome: Outcome, times: RequestTimes, sla: Sla, duration_ms: float) -> dict[str, float]:
    """Requests within every bound of the SLA that is set, and their output, as counts and rates.

    A request of one token has no inter-token latency to miss; one without a token can only meet an end-to-end bound.
    """
    good = ~outcome.refused
    e2e_ms = outcome.end_ms - outcome.arrival_ms
    if sla.e2e_ms is not None:
        good &= e2e_ms <= sla.e2e_ms
    if sla.ttft_ms is not None:
        good &= times.ttft_ms <= sla.ttft_ms
    if sla.itl_ms is not None:
        gaps = np.maximum(outcome.output_length - 1, 1)
        good &= (outcome.output_length == 1) | ((times.e2e_ms - times.ttft_ms) / gaps <= sla.itl_ms)
    duration_s = max(duration_ms / 1000.0, _SHORTEST_S)
    count = int(np.count_nonzero(good))
    return {
        "goodput_completed_requests": count,
        "goodput_request_throughput_rps": count / duration_s,
        "goodput_output_throughput_tok_s": int(outcome.output_length[good].sum()) / duration_s,
    }
