"""What a sweep improves: one number of a replay, its direction, and what a missing metric counts as."""

from enum import StrEnum
from math import inf, isfinite

from dgdr_retune.replay import Metrics, Sla
from dgdr_retune.sweep._errors import MetricMissingError, SlaMissingError

MS_PER_HOUR = 3_600_000


class Objective(StrEnum):
    """An objective in the spelling of the custom resources; the metrics are those of AISimulate's goals.

    Units: milliseconds for `TTFT` and `E2ELatency`, output tokens a second for the others (a second and GPU, a second
    and user).
    """

    TTFT = "TTFT"
    E2E_LATENCY = "E2ELatency"
    THROUGHPUT = "Throughput"
    THROUGHPUT_PER_GPU = "ThroughputPerGPU"
    THROUGHPUT_PER_USER = "ThroughputPerUser"
    GOODPUT = "Goodput"
    GOODPUT_PER_GPU = "GoodputPerGPU"

    @property
    def metric(self) -> str:
        """The metric of a replay that this objective reads."""
        return _METRICS[self]

    @property
    def minimised(self) -> bool:
        """Whether less is better."""
        return self in {Objective.TTFT, Objective.E2E_LATENCY}

    @property
    def needs_sla(self) -> bool:
        """Whether only requests that meet an SLA count."""
        return self in {Objective.GOODPUT, Objective.GOODPUT_PER_GPU}

    @property
    def is_sum_over_requests(self) -> bool:
        """Whether parts of the traffic have a share in it; throughput is set by what arrives."""
        return self not in {Objective.THROUGHPUT, Objective.THROUGHPUT_PER_GPU}

    @property
    def per_gpu(self) -> bool:
        """Whether the metric is divided by the average number of GPUs."""
        return self in {Objective.THROUGHPUT_PER_GPU, Objective.GOODPUT_PER_GPU}

    @property
    def unit(self) -> str:
        """The unit of a score, for people."""
        return "ms" if self.minimised else _UNITS.get(self, "tokens/s")

    def check(self, sla: Sla | None) -> None:
        """Refuse an SLA objective without an SLA.

        Raises:
            SlaMissingError: this objective needs one.
        """
        if self.needs_sla and sla is None:
            raise SlaMissingError(
                f"the objective {self.value} counts requests that meet an SLA; give `sla`, e.g. {{ttft_ms: 500}}, "
                f"or choose {Objective.TTFT.value}"
            )

    def score(self, metrics: Metrics) -> float:
        """The score of one replay.

        A metric that is absent or not finite counts as plus infinity where less is better and as 0 where more is, so
        that it never wins. Without GPU time the score per GPU is 0.

        Raises:
            MetricMissingError: a goodput is missing; it is absent when the engine was given no SLA, which says nothing
                about the candidate.
        """
        value = _finite(metrics, self.metric)
        if value is None:
            if self.needs_sla:
                raise MetricMissingError(
                    f"the replay has no finite {self.metric}, which the objective {self.value} needs; "
                    "check that the engine is given the SLA"
                )
            return inf if self.minimised else 0.0
        if not self.per_gpu:
            return value
        gpus = average_gpus(metrics)
        return value / gpus if gpus else 0.0


def average_gpus(metrics: Metrics) -> float:
    """GPU hours over the replay's duration in hours; 0 where either is missing or not above 0."""
    gpu_hours = _finite(metrics, "gpu_hours") or 0.0
    duration_ms = _finite(metrics, "duration_ms") or 0.0
    return gpu_hours / (duration_ms / MS_PER_HOUR) if gpu_hours > 0 and duration_ms > 0 else 0.0


def _finite(metrics: Metrics, name: str) -> float | None:
    value = metrics.get(name)
    return value if value is not None and isfinite(value) else None


_METRICS = {
    Objective.TTFT: "mean_ttft_ms",
    Objective.E2E_LATENCY: "mean_e2e_latency_ms",
    Objective.THROUGHPUT: "output_throughput_tok_s",
    Objective.THROUGHPUT_PER_GPU: "output_throughput_tok_s",
    Objective.THROUGHPUT_PER_USER: "mean_output_token_throughput_per_user",
    Objective.GOODPUT: "goodput_output_throughput_tok_s",
    Objective.GOODPUT_PER_GPU: "goodput_output_throughput_tok_s",
}
_UNITS = {
    Objective.THROUGHPUT_PER_GPU: "tokens/s/GPU",
    Objective.THROUGHPUT_PER_USER: "tokens/s/user",
    Objective.GOODPUT_PER_GPU: "tokens/s/GPU",
}
