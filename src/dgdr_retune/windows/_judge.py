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

_decode_envelope = msgspec.json.Decoder(Envelope).decode
_decode_event = msgspec.json.Decoder(Event).decode


def judge(row: bytes) -> Row | Refusal:
    """The content of a valid row, else why it is refused. `row` is one line without its line end."""
    if len(row) > MAXIMUM_ROW:
        return Refusal.TOO_LONG
    try:
        event = _decode_event(row) if row.startswith(_BARE) else _decode_envelope(row).event
    except msgspec.DecodeError:
        return judge_in_full(row)
    request = event.request
    worker = request.worker
    hashes = request.replay.input_sequence_hashes
    # What this decoding lets through: keys in escapes, a repeated event, -0 (read as 0, which loaders refuse), and
    # integers of more than 64 bits. A row that repeats its event closes seven objects; at most six are closed where
    # none but one is before the last five bytes.
    if (
        b"\\" in row
        or row.find(b"}", row.find(b"}") + 1, -5) >= 0
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
            | request.request_received_ms
            | event.event_time_unix_ms
        )
        > MAXIMUM_UNSIGNED
    ):
        return judge_in_full(row)
    return row_of(event, agent=False)
