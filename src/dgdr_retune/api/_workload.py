"""What the candidates are measured on: a static load or a recorded trace."""

from typing import Annotated, Literal

from pydantic import Field

from dgdr_retune.api._choices import INT32_MAX, NUMBER_MAX
from dgdr_retune.api._declare import CRD_ALONE, OPTIONAL, REQUIRED, ApiModel
from dgdr_retune.api._rule import Rule
from dgdr_retune.api._rules import exactly_one_of, matches

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

Count = Annotated[int, Field(ge=1, le=INT32_MAX)]
"""A positive int32."""
Positive = Annotated[float, Field(gt=0, le=NUMBER_MAX)]
"""A positive number."""

RELATIVE = Rule(
    cel="!self.startsWith('/')",
    holds=lambda path: not path.startswith("/"),
    message="must be relative to the claim's root: remove the leading /",
)
NO_DOT_SEGMENTS = Rule(
    cel="self.split('/').all(s, s != '' && s != '.' && s != '..')",
    holds=lambda path: not {"", ".", ".."} & set(path.split("/")),
    message="must name one file: no empty, . or .. segment",
)
NO_NUL = Rule(cel=r"!self.contains('\u0000')", holds=lambda path: "\0" not in path, message="must not contain NUL")


class StaticWorkload(ApiModel):
    """Requests of one shape, sent at one rate, by a number of users at once, or to one fill of the KV cache."""

    rules = (exactly_one_of("requestRate", "concurrency", "kvLoadRatio"),)

    isl: Annotated[Count, REQUIRED, Field(examples=[1024])]
    """Input tokens of a request."""
    osl: Annotated[Count, REQUIRED, Field(examples=[128])]
    """Output tokens of a request."""
    num_request_ratio: Annotated[float | None, OPTIONAL, Field(ge=1, le=NUMBER_MAX, examples=[10])] = None
    """Requests per unit of load; without it 100 requests are sent."""
    request_rate: Annotated[Positive | None, OPTIONAL, Field(examples=[2.5])] = None
    """Requests per second, with random gaps."""
    concurrency: Annotated[Count | None, OPTIONAL, Field(examples=[10])] = None
    """Requests in flight at any time."""
    kv_load_ratio: Annotated[list[Positive] | None, OPTIONAL, Field(min_length=1, max_length=2, examples=[[0.8]])] = (
        None
    )
    """Share of the KV cache that is kept filled; two values are a range, for objective mode Pareto alone."""


class ClaimSource(ApiModel):
    """One file on a PersistentVolumeClaim of the Request's namespace."""

    claim_name: Annotated[
        str,
        REQUIRED,
        Field(min_length=1, max_length=253, examples=["request-traces"]),
        matches(rf"{_LABEL}(\.{_LABEL})*", "must be a DNS-1123 subdomain: lower case letters, digits, - and ."),
    ]
    """The claim."""
    sub_path: Annotated[
        str,
        REQUIRED,
        Field(min_length=1, max_length=1024, examples=["retune/qwen/1790000000000.jsonl.gz"]),
        RELATIVE,
        NO_DOT_SEGMENTS,
        NO_NUL,
    ]
    """The file, from the claim's root. A name that ends with .gz is read as gzip."""


class TraceSource(ApiModel):
    """Where a trace is."""

    persistent_volume_claim: Annotated[ClaimSource, REQUIRED]
    """A file on a claim."""


class Replay(ApiModel):
    """How a trace is replayed."""

    arrival_speedup_ratio: Annotated[Positive | None, OPTIONAL, Field(examples=[2])] = None
    """How much faster than recorded the requests arrive; without it they arrive as recorded."""


class TraceWorkload(ApiModel):
    """Recorded requests, replayed with their arrival times, lengths and shared prefixes."""

    format: Annotated[Literal["Dynamo"], OPTIONAL, CRD_ALONE, Field(examples=["Dynamo"])] = "Dynamo"
    """The format of the file: request traces as Dynamo's frontends record them."""
    source: Annotated[TraceSource, REQUIRED]
    """Where the file is."""
    replay: Annotated[Replay | None, OPTIONAL] = None
    """How it is replayed."""


class Workload(ApiModel):
    """Either a static load or a recorded trace."""

    rules = (exactly_one_of("static", "trace"),)

    static: Annotated[StaticWorkload | None, OPTIONAL] = None
    """A load of one shape."""
    trace: Annotated[TraceWorkload | None, OPTIONAL] = None
    """A recorded trace."""
