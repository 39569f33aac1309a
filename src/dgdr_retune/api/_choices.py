"""What the API's public sources leave open, and what is chosen here, with the reason. Nothing else repeats a choice.

Choices of shape are made where the shape is declared: `spec.aisimulate` as the parent of `inputOverrides` and
`generator` (it mirrors `status.aisimulate.input`), `status.activeRunRef` as a Request's reservation (it alone names the
Run before there is one), `spec.parameters` and `status.metrics` of a Candidate and the progress of a Run (as the public
code has them, and as our own publisher writes them).
"""

from typing import Final, Literal

# Values of enums

Mode = Literal["Optimize", "Pareto"]
"""PascalCase, as the later public sources spell the values that they show (`Dynamo`, `GoodputPerGPU`)."""

Metric = Literal[
    "Throughput", "ThroughputPerGPU", "ThroughputPerUser", "TTFT", "E2ELatency", "Goodput", "GoodputPerGPU"
]
"""As `Mode`; Pareto is stored and refused at lowering, for its result has no ranking to report."""

TARGETS: Final[dict[Metric, str]] = {
    "Throughput": "throughput",
    "ThroughputPerGPU": "throughput_per_gpu",
    "ThroughputPerUser": "throughput_per_user",
    "TTFT": "ttft",
    "E2ELatency": "e2e_latency",
    "Goodput": "goodput",
    "GoodputPerGPU": "goodput_per_gpu",
}
"""The one table from a metric to AISimulate's `optimization.target`."""

# Bounds

INT32_MAX: Final = 2**31 - 1
"""Counts are int32 on the wire, as in Kubernetes' own APIs; a schema's `format` bounds nothing on older servers."""

INT64_MAX: Final = 2**53 - 1
"""Counters are int64 on the wire and end at the largest whole double: an API server holds bounds as doubles."""

NUMBER_MAX: Final = 10**9
"""Numbers with a fraction end at 1e9: larger ones mean a wrong unit, and a whole one is exact as a double."""

MAX_CANDIDATES: Final = 100
"""Upper bound of `recommendation.maxCandidates`: a planner's shard has at most 100 points and asks for each of them."""

HISTORY_MAX: Final = 100
"""Upper bound of the Runs that a Request's status lists; how many are kept is the operator's configuration."""

RUN_NAME_MAX: Final = 63
"""A Run's name is its Job's name and a label's value, which ends at 63 characters."""

REQUEST_NAME_MAX: Final = 50
"""A planner's Request names leave room for `-run-<generation>` within `RUN_NAME_MAX`."""

# Defaults

DEFAULT_MAX_CANDIDATES: Final = 5
"""Default of `recommendation.maxCandidates`, as public Dynamo has it."""

DEFAULT_ISL: Final = 1024
"""Input tokens of the workload that is assumed when a Request names none: AISimulate's own default."""

DEFAULT_OSL: Final = 128
"""As `DEFAULT_ISL`, for the output tokens."""

DEFAULT_CONCURRENCY: Final = 10
"""As `DEFAULT_ISL`, for the load."""

DEFAULT_STOP_REQUESTS: Final = 100
"""A static workload ends after this many requests unless it says otherwise: AISimulate wants exactly one count."""

DEFAULT_MAX_ROUNDS: Final = 20
"""Search rounds of a Request without a budget: with 16 evaluations a round this is AISimulate's default of 320."""

DEFAULT_PARALLEL_EVALUATIONS: Final = 16
"""Parallel evaluations of a Request without a budget: AISimulate's own default."""

SEED: Final = 42
"""AISimulate's own default seed, written out so that an input describes itself."""

# Paths, variables, labels and annotations

TRACE_DIRECTORY: Final = "/var/run/aisimulate/trace"
"""Where a Run's sweeper finds its trace, as the reference mounts it."""

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "dgdr-retune"
"""On everything that a planner or the operator creates: Kubernetes' recommended label."""

CRD_OWNER_LABEL: Final = "retune.dgdr.nvidia.com/crd-of"
CRD_OWNER: Final = MANAGED_BY
"""Says whose a CRD is: Helm overwrites `MANAGED_BY_LABEL`, so that one cannot."""

DGD_LABEL: Final = "retune.dgdr.nvidia.com/dgd"
"""On a planner's Requests: `label_value` of the DynamoGraphDeployment's name; what retention lists them by."""

DGD_UID_ANNOTATION: Final = "retune.dgdr.nvidia.com/dgd-uid"
"""On a planner's Requests: tells a deployment from a later one of its name."""

WINDOW_END_ANNOTATION: Final = "retune.dgdr.nvidia.com/window-end-ms"
"""On a planner's Requests: which window they replay, unix milliseconds; retention keeps the newest."""

SHARD_ANNOTATION: Final = "retune.dgdr.nvidia.com/shard"
"""On a planner's Requests: which of how many, such as `2/3`, so that a later leader knows what is missing."""

DEADLINE_ANNOTATION: Final = "retune.dgdr.nvidia.com/deadline-ms"
"""On a planner's Requests: after this, unix milliseconds, nobody waits for them."""

ROWS_ANNOTATION: Final = "retune.dgdr.nvidia.com/rows"
"""On a planner's Requests: the cut's counts as JSON, so that a result can be weighed without the window."""

SPEC_DIGEST_ANNOTATION: Final = "retune.dgdr.nvidia.com/spec-digest"
"""On a planner's Requests: `spec_digest` of the specification as it was sent; a later leader adopts an equal one."""

REPLICATIONS_ANNOTATION: Final = "retune.dgdr.nvidia.com/replications"
"""How often each candidate is replayed; copied from Request to Run to sweeper, for the API has no field for it."""

INPUT_VARIABLE: Final = "DGDR_RETUNE_INPUT"
"""In a sweeper's environment: AISimulate's input and the section `dgdr_run`, as JSON, so that a Job says all of it."""

REPLICATIONS_VARIABLE: Final = "DGDR_RETUNE_REPLICATIONS"
"""In a sweeper's environment: the Run's `REPLICATIONS_ANNOTATION`, if it has one."""

SNAPSHOT_FILE: Final = "dgdr_run_snapshot.yaml"
"""What a sweeper writes and a publisher reads, as AISimulate's output adapter names it."""

RUN_FAILURE_ANNOTATION: Final = "nvidia.com/dgdr-run-failure"
"""On a Run: a permanent failure as JSON {reason, message}, written before the status so that it survives its loss."""
