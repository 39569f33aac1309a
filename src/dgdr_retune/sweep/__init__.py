"""Grid, shards, objective, comparison and decision."""

from dgdr_retune.sweep._decision import Completeness, Decision, Evidence, Gap, Outcome, failed, no_traffic
from dgdr_retune.sweep._errors import MetricMissingError, ShardPlanError, SlaMissingError, SweepError
from dgdr_retune.sweep._executor import Executor, Failure, Job, JobFailed, JobOutcome, Replayed
from dgdr_retune.sweep._grid import ChoicesSection, Grid, GridSection, RangeBounds, RangeSection
from dgdr_retune.sweep._judgement import decide
from dgdr_retune.sweep._objective import Objective, average_gpus
from dgdr_retune.sweep._rules import Rules
from dgdr_retune.sweep._run import Progress, run_sweep
from dgdr_retune.sweep._shards import (
    ShardPlan,
    balanced_shard_parts,
    dgdr_need_seconds,
    dgdr_rounds,
    largest_shard_points,
    plan_shards,
)
from dgdr_retune.sweep._standings import Interval, Standing, rank
from dgdr_retune.sweep._sweep import Candidate, CandidateResult, Replication, Sweep

__all__ = [
    "Candidate",
    "CandidateResult",
    "ChoicesSection",
    "Completeness",
    "Decision",
    "Evidence",
    "Executor",
    "Failure",
    "Gap",
    "Grid",
    "GridSection",
    "Interval",
    "Job",
    "JobFailed",
    "JobOutcome",
    "MetricMissingError",
    "Objective",
    "Outcome",
    "Progress",
    "RangeBounds",
    "RangeSection",
    "Replayed",
    "Replication",
    "Rules",
    "ShardPlan",
    "ShardPlanError",
    "SlaMissingError",
    "Standing",
    "Sweep",
    "SweepError",
    "average_gpus",
    "balanced_shard_parts",
    "decide",
    "dgdr_need_seconds",
    "dgdr_rounds",
    "failed",
    "largest_shard_points",
    "no_traffic",
    "plan_shards",
    "rank",
    "run_sweep",
]
