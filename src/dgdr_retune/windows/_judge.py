"""Is this row one that every replay takes?

A row is valid if Dynamo's loaders accept it and it keeps the stricter rules of this project: each known field has its
documented type, a hash for each block and no other, and nothing that one reader takes and the next refuses. Most rows
are judged by one decoding with a typed, closed schema; what that does not settle is judged in full.
"""

from typing import Final

import msgspec

from dgdr_retune.windows._judge_in_full import judge_in_full
from dgdr_retune.windows._record import Envelope, Event
from dgdr_retune.windows._row import MAXIMUM_ROW, MAXIMUM_UNSIGNED, Refusal, Row, row_of

_BARE: Final = b'{"schema"'

_ENVELOPED_LINES: Final = msgspec.json.Decoder(Envelope).decode_lines
_BARE_LINES: Final = msgspec.json.Decoder(Event).decode_lines


def judge_block(block: bytes) -> tuple[list[bytes], list[Row | Refusal | None]]:
    """The lines of a block, and of each its content if it is valid, else why it is refused; None for a blank line.

    Only byte 0x0A ends a line.
    """
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    events = _events(block)
    if len(events) != len(lines):
        return lines, [judge(line) for line in lines]
    return lines, [_verdict(line, event) for line, event in zip(lines, events, strict=True)]


def judge(line: bytes) -> Row | Refusal | None:
    """As `judge_block`, for one line without its end."""
    if not line.strip():
        return None
    events = _events(line)
    return _verdict(line, events[0]) if events else judge_in_full(line)


def _events(block: bytes) -> list[Event]:
    try:
        if block.startswith(_BARE):
            return _BARE_LINES(block)
        return [envelope.event for envelope in _ENVELOPED_LINES(block)]
    except msgspec.DecodeError:
        return []


def _verdict(line: bytes, event: Event) -> Row | Refusal:
    request = event.request
    worker = request.worker
    replay = request.replay
    hashes = replay.input_sequence_hashes
    # What the decoding lets through: a repeated event, -0 (read as 0, which loaders refuse), and integers of more than
    # 64 bits. A row that repeats its event closes seven objects; at most six are closed where none but one is before
    # the last five bytes.
    if (
        line.find(b"}", line.find(b"}") + 1, -5) >= 0
        or not (hashes and all(hashes))
        or not (request.output_tokens and request.request_received_ms and event.event_time_unix_ms)
        or max(hashes) > MAXIMUM_UNSIGNED
        or (
            worker.prefill_worker_id
            | worker.decode_worker_id
            | worker.prefill_dp_rank
            | worker.decode_dp_rank
            | request.input_tokens
            | request.cached_tokens
            | request.queue_depth
            | request.output_tokens
            | request.request_received_ms
            | replay.trace_block_size
            | replay.input_length
            | event.event_time_unix_ms
        )
        > MAXIMUM_UNSIGNED
        or len(line) > MAXIMUM_ROW
    ):
        return judge_in_full(line)
    return row_of(event)
