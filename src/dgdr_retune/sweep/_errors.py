"""What can go wrong in a sweep as a whole; what goes wrong in one replay is that candidate's result."""


class SweepError(Exception):
    """A sweep that cannot be made; `reason` is for machines, the message says what to do."""

    reason = "sweep_failed"


class SlaMissingError(SweepError):
    """The objective counts requests that meet an SLA, and there is none."""

    reason = "sla_missing"


class MetricMissingError(SweepError):
    """A replay has no value for a metric that its objective cannot do without."""

    reason = "metric_missing"


class ShardPlanError(SweepError):
    """Numbers that describe no shard plan."""

    reason = "shard_plan_invalid"
