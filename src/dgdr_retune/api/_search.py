"""What is searched for and how long: objective, budget, recommendation."""

from typing import Annotated

from pydantic import Field

from dgdr_retune.api._choices import (
    DEFAULT_MAX_CANDIDATES,
    DEFAULT_MAX_ROUNDS,
    DEFAULT_PARALLEL_EVALUATIONS,
    MAX_CANDIDATES,
    Metric,
    Mode,
)
from dgdr_retune.api._declare import OPTIONAL, REQUIRED, ApiModel
from dgdr_retune.api._rules import alone_or_all_of, matches, unique, when
from dgdr_retune.api._workload import Count, Positive


class Sla(ApiModel):
    """Latency bounds that a request must keep to count as good."""

    rules = (alone_or_all_of("e2eMs", ("ttftMs", "itlMs")),)

    ttft_ms: Annotated[Positive | None, OPTIONAL, Field(examples=[500])] = None
    """Milliseconds to the first token."""
    itl_ms: Annotated[Positive | None, OPTIONAL, Field(examples=[20])] = None
    """Mean milliseconds between tokens."""
    e2e_ms: Annotated[Positive | None, OPTIONAL, Field(examples=[5000])] = None
    """Milliseconds to the last token."""


class Objective(ApiModel):
    """What makes one candidate better than another."""

    rules = (
        when(
            "mode",
            "Optimize",
            requires=("metric",),
            forbids=("metrics",),
            message="mode Optimize takes metric, not metrics",
        ),
        when("mode", "Pareto", forbids=("metric",), message="mode Pareto takes metrics, not metric"),
    )

    mode: Annotated[Mode, REQUIRED, Field(examples=["Optimize"])]
    """Optimize ranks by one metric; Pareto looks for the trade-off between several and cannot be evaluated yet."""
    metric: Annotated[Metric | None, OPTIONAL, Field(examples=["GoodputPerGPU"])] = None
    """The metric to rank by."""
    metrics: Annotated[
        list[Metric] | None,
        OPTIONAL,
        Field(min_length=2, max_length=7, examples=[["Throughput", "TTFT"]]),
        unique("name each metric once"),
    ] = None
    """The metrics to trade off."""
    sla: Annotated[Sla | None, OPTIONAL] = None
    """The latency bounds of goodput."""


class Budget(ApiModel):
    """How much is evaluated."""

    max_rounds: Annotated[Count, REQUIRED, Field(examples=[3])]
    """Rounds of the search."""
    candidates_per_round: Annotated[Count | None, OPTIONAL, Field(examples=[2])] = None
    """Candidates of a round; without it as many as are evaluated in parallel."""
    parallel_evaluations: Annotated[Count, REQUIRED, Field(examples=[2])]
    """Candidates that are evaluated at the same time."""
    max_evaluation_duration: Annotated[
        str | None,
        OPTIONAL,
        Field(min_length=2, max_length=64, examples=["120s"]),
        matches(
            r"([0-9]{1,5}([.][0-9]{1,9})?(ms|s|m|h)){1,4}",
            "must be a duration such as 120s, 1.5h or 2m30s, with the units h, m, s and ms",
        ),
        matches(r".*[1-9].*", "must be longer than nothing"),
    ] = None
    """After this time an evaluation counts as failed."""


class Search(ApiModel):
    """How candidates are searched for."""

    budget: Annotated[Budget, OPTIONAL] = Budget(
        max_rounds=DEFAULT_MAX_ROUNDS, parallel_evaluations=DEFAULT_PARALLEL_EVALUATIONS
    )
    """How much is evaluated."""


class Recommendation(ApiModel):
    """What is reported."""

    max_candidates: Annotated[int, OPTIONAL, Field(ge=1, le=MAX_CANDIDATES, examples=[6])] = DEFAULT_MAX_CANDIDATES
    """Candidates that a Run reports, the best ones."""
