"""What the API's public sources leave open, and what is chosen here. Nothing else in the package repeats a choice."""

from typing import Final

INT32_MAX: Final = 2**31 - 1
"""Counts are int32 on the wire, as in Kubernetes' own APIs; written out because a schema's `format` bounds nothing on
older servers."""

INT64_MAX: Final = 2**53 - 1
"""Counters are int64 on the wire and bounded by the largest whole double: an API server holds bounds as doubles."""

NUMBER_MAX: Final = 10**9
"""Numbers with a fraction end at 1e9: larger ones mean a wrong unit, and a whole one is exact as a double."""

MAX_CANDIDATES: Final = 100
"""Upper bound of `recommendation.maxCandidates`: a planner's shard has at most 100 points and asks for each of them."""

DEFAULT_MAX_CANDIDATES: Final = 5
"""Default of `recommendation.maxCandidates`, as public Dynamo has it."""

DEFAULT_ISL: Final = 1024
"""Input length of the workload that is assumed when a Request names none: AISimulate's own default."""

DEFAULT_OSL: Final = 128
"""As `DEFAULT_ISL`, for the output length."""

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

TRACE_DIRECTORY: Final = "/var/run/aisimulate/trace"
"""Where a Run's sweeper finds its trace, as the reference mounts it."""

HISTORY_MAX: Final = 100
"""Upper bound of the Runs that a Request's status lists; how many are kept is the operator's configuration."""

RUN_NAME_MAX: Final = 63
"""A Run's name is its Job's name and a label's value, which ends at 63 characters."""

REQUEST_NAME_MAX: Final = 50
"""A planner's Request names leave room for `-run-<generation>` within `RUN_NAME_MAX`."""
