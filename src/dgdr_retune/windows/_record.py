"""Schema `dynamo.request.trace.v1`: the record that Dynamo's frontend writes when a request ends.

Field names and types are those of the request traces of Dynamo 1.6; `Envelope` is a line on disk, and its event alone
is a line that loaders take as well. Every known field has its type, so that decoding a row that has no other field
checks all of it.
"""

from math import nan
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

Unsigned: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]

SCHEMA: Final = "dynamo.request.trace.v1"
REQUEST_END: Final = "request_end"
SKIPPED_EVENTS: Final = frozenset({"request_payload", "tool_start", "tool_end", "tool_error"})
"""Loaders skip these in a trace, and refuse the whole of it for an event of any other name."""


class Worker(Struct, gc=False, forbid_unknown_fields=True):
    """Where the request ran."""

    prefill_worker_id: Unsigned = 0
    prefill_dp_rank: Unsigned = 0
    decode_worker_id: Unsigned = 0
    decode_dp_rank: Unsigned = 0


class Replay(Struct, gc=False, forbid_unknown_fields=True):
    """What a replay needs of the prompt: a hash a block, the last partial one included."""

    trace_block_size: Positive
    input_length: Positive
    input_sequence_hashes: list[Unsigned]


class Request(Struct, gc=False, forbid_unknown_fields=True):
    """The request and how it was served; times in milliseconds. An absent total is NaN, which JSON cannot say."""

    request_id: Text
    output_tokens: Unsigned
    request_received_ms: Unsigned
    replay: Replay
    x_request_id: str = ""
    model: str = ""
    input_tokens: Unsigned = 0
    cached_tokens: Unsigned = 0
    prefill_wait_time_ms: float = 0.0
    prefill_time_ms: float = 0.0
    ttft_ms: float = 0.0
    total_time_ms: float = nan
    avg_itl_ms: float = 0.0
    kv_hit_rate: float = 0.0
    kv_transfer_estimated_latency_ms: float = 0.0
    queue_depth: Unsigned = 0
    worker: Worker = field(default_factory=Worker)


class Event(Struct, gc=False, forbid_unknown_fields=True):
    """The record."""

    schema: Literal["dynamo.request.trace.v1"]
    event_type: Literal["request_end"]
    event_time_unix_ms: Unsigned
    request: Request
    event_source: str = ""


class Envelope(Struct, gc=False, forbid_unknown_fields=True):
    """A line on disk; its timestamp counts from the start of the writing process and is not used."""

    event: Event
    timestamp: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0


class AgentContext(Struct, gc=False):
    """The session that a request belongs to; a replay of such rows follows sessions and not arrivals."""

    session_id: Text
    parent_session_id: str = ""
    session_final: bool = False


class EventKind(Struct, gc=False):
    """What a record is about."""

    event_type: str
    schema: Any = None

    @property
    def is_skipped(self) -> bool:
        """Whether every loader skips a row of it."""
        return self.event_type in SKIPPED_EVENTS and self.schema == SCHEMA


class RowKind(Struct, gc=False):
    """What a row is about, whatever else stands in it: of its event, or of itself if it is bare."""

    event: EventKind | UnsetType = UNSET
    event_type: str = ""
    schema: Any = None
