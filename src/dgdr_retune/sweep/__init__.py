"""Grid, shards, objective, comparison and decision."""

from dgdr_retune.sweep._decision import Decision, Demands, Evidence, Outcome, failed, no_traffic
from dgdr_retune.sweep._documents import DECISION_SCHEMA, SWEEP_SCHEMA, decision_document, sweep_document
from dgdr_retune.sweep._errors import MetricMissingError, ShardPlanError, SlaMissingError, SweepError
from dgdr_retune.sweep._executor import Executor, Failure, Job, JobFailed, JobOutcome, Replayed
from dgdr_retune.sweep._grid import ChoicesSection, Grid, GridSection, RangeBounds, RangeSection
from dgdr_retune.sweep._judgement import best_of, decide
from dgdr_retune.sweep._local import LocalExecutor
from dgdr_retune.sweep._objective import Objective, average_gpus
from dgdr_retune.sweep._over_time import OverTime, TimedExecutor, judge_over_time
from dgdr_retune.sweep._rules import PROOF_REPLICATIONS, Rules
from dgdr_retune.sweep._run import Progress, run_sweep
from dgdr_retune.sweep._shards import (
    DEFAULT_CANDIDATE_SECONDS,
    DEFAULT_MAX_SHARDS,
    DEFAULT_PARALLELISM,
    DEFAULT_STARTUP_SECONDS,
    ShardPlan,
    balanced_shard_parts,
    dgdr_need_seconds,
    dgdr_rounds,
    largest_shard_points,
    plan_shards,
)
from dgdr_retune.sweep._standings import Interval, Standing, rank
from dgdr_retune.sweep._sweep import Candidate, CandidateResult, Replication, Sweep
from dgdr_retune.sweep._traffic import TrafficInterval, traffic_interval

__all__ = [
    "DECISION_SCHEMA",
    "DEFAULT_CANDIDATE_SECONDS",
    "DEFAULT_MAX_SHARDS",
    "DEFAULT_PARALLELISM",
    "DEFAULT_STARTUP_SECONDS",
    "PROOF_REPLICATIONS",
    "SWEEP_SCHEMA",
    "Candidate",
    "CandidateResult",
    "ChoicesSection",
    "Decision",
    "Demands",
    "Evidence",
    "Executor",
    "Failure",
    "Grid",
    "GridSection",
    "Interval",
    "Job",
    "JobFailed",
    "JobOutcome",
    "LocalExecutor",
    "MetricMissingError",
    "Objective",
    "Outcome",
    "OverTime",
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
    "TimedExecutor",
    "TrafficInterval",
    "average_gpus",
    "balanced_shard_parts",
    "best_of",
    "decide",
    "decision_document",
    "dgdr_need_seconds",
    "dgdr_rounds",
    "failed",
    "judge_over_time",
    "largest_shard_points",
    "no_traffic",
    "plan_shards",
    "rank",
    "run_sweep",
    "sweep_document",
    "traffic_interval",
]
