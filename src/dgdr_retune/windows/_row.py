"""What a valid row says, and why others are refused."""

import math
from enum import StrEnum
from typing import Final

from msgspec import Struct

from dgdr_retune.windows._record import Event

MAXIMUM_TOKENS: Final = 2**31 - 1
"""Of a prompt or an answer: a replay reserves memory for them before it looks further, and Dynamo's dies of more."""

MAXIMUM_ROW: Final = 16 << 20
"""Bytes of a row."""

MAXIMUM_UNSIGNED: Final = 2**64 - 1

_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""As Unicode has it. An identifier of nothing else is empty for Dynamo's loader."""

_HALF: Final = 0.5
"""From here on loaders round up."""


class Refusal(StrEnum):
    """Why a row is not used: it records something else, or it is malformed in the way that the name says."""

    OTHER_EVENT = "other_event"
    TOO_LONG = "too_long"
    ENCODING = "encoding"
    JSON = "json"
    NUMBER = "number"
    DEPTH = "depth"
    REPEATED_EVENT = "repeated_event"
    SCHEMA = "schema"
    FIELD = "field"
    HASH_COUNT = "hash_count"
    OUT_OF_RANGE = "out_of_range"


class Row(Struct, gc=False, frozen=True):
    """What a valid row says.

    Attributes:
        received_ms: arrival, unix milliseconds.
        end_ms: arrival plus the rounded total time, or the event's time where the row has no total.
        event_time_ms: when the request ended, unix milliseconds.
        request_id: never empty.
        block_size: tokens a KV block.
        input_length: prompt tokens.
        output_tokens: generated tokens, perhaps 0.
        hashes: one a block of the prompt, each in [0, 2^64).
        agent: whether the row belongs to an agent's session.
    """

    received_ms: int
    end_ms: int
    event_time_ms: int
    request_id: str
    block_size: int
    input_length: int
    output_tokens: int
    hashes: list[int]
    agent: bool


def row_of(event: Event, *, agent: bool = False) -> Row | Refusal:
    """The row of a record whose fields have their types, unless their values do not fit each other."""
    request = event.request
    replay = request.replay
    hashes = replay.input_sequence_hashes
    block_size = replay.trace_block_size
    input_length = replay.input_length
    if len(hashes) != -(-input_length // block_size):
        return Refusal.HASH_COUNT
    if (input_length | request.output_tokens) > MAXIMUM_TOKENS:
        return Refusal.OUT_OF_RANGE
    if not request.request_id.strip(_WHITE_SPACE):
        return Refusal.FIELD
    received_ms = request.request_received_ms
    total_ms = request.total_time_ms
    if total_ms >= 0:
        whole = int(total_ms)
        end_ms = min(received_ms + whole + (total_ms - whole >= _HALF), MAXIMUM_UNSIGNED)
    elif math.isnan(total_ms):
        end_ms = event.event_time_unix_ms
    else:
        return Refusal.OUT_OF_RANGE
    return Row(
        received_ms,
        end_ms,
        event.event_time_unix_ms,
        request.request_id,
        block_size,
        input_length,
        request.output_tokens,
        hashes,
        agent,
    )
