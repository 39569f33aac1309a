"""Judging an uncommon row: with the standard library's parser, slow, and the last word."""

import json
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NoReturn

import msgspec
import numpy as np

from dgdr_retune.windows._record import (
    REQUEST_END,
    SCHEMA,
    AgentContext,
    Event,
    EventKind,
    Replay,
    Request,
    RowKind,
    Worker,
)
from dgdr_retune.windows._row import MAXIMUM_ROW, MAXIMUM_UNSIGNED, Refusal, Row, row_of

MAXIMUM_DEPTH: Final = 120
"""Arrays and objects around a value in a field. Dynamo's loader takes 127 in a row, envelope and record included."""

MAXIMUM_VALUES: Final = 1 << 20
"""In a row of uncommon form; 2^20 hashes are a prompt of 16 million tokens."""

_RECORD_DEPTH: Final = 4
_SMALLEST_SIGNED: Final = -(2**63)
_DIGITS_OF_64_BITS: Final = 20
_NO_MARKS: Final = bytes(set(range(256)) - set(b'"[]{},'))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")

_Known = Mapping[str, "_Known"]
_RECORD: Final[_Known] = {"request": {"replay": {}, "worker": {}}, "agent_context": {}}
_ENVELOPE: Final[_Known] = {"event": _RECORD}

_MINUS_ZERO: Final = -0.0
_NOT_READ: Final = frozenset({"input_tokens", "cached_tokens", "queue_depth", *Worker.__struct_fields__})
"""Unsigned fields that no loader reads: -0 does no harm there, and the fast way cannot tell it from 0."""

_decode_kind = msgspec.json.Decoder(RowKind).decode


def judge_in_full(row: bytes) -> Row | Refusal:
    """The content of a valid row, else why it is refused.

    A row that names another event is not judged further: it is dropped in any case.
    """
    if len(row) > MAXIMUM_ROW:
        return Refusal.TOO_LONG
    if kind_of(row).event_type not in ("", REQUEST_END):
        return Refusal.OTHER_EVENT
    try:
        return _judge(_parse(row))
    except _RefusedError as refused:
        return refused.refusal


def kind_of(row: bytes) -> EventKind:
    """What a row is about; nothing, if it does not say so."""
    try:
        kind = _decode_kind(row)
    except (msgspec.DecodeError, RecursionError):
        return EventKind("")
    return EventKind(kind.event_type, kind.schema) if kind.event is msgspec.UNSET else kind.event


class _RefusedError(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class _RepeatedEvent(dict[str, Any]):
    """An object that has the key `event` more than once."""


def _parse(row: bytes) -> Any:
    _check_shape(row)
    try:
        text = row.decode()
    except UnicodeDecodeError:
        raise _RefusedError(Refusal.ENCODING) from None
    try:
        return json.loads(text, parse_int=_integer, parse_constant=_constant, object_pairs_hook=_object)
    except ValueError:
        raise _RefusedError(Refusal.JSON) from None


def _check_shape(row: bytes) -> None:
    # A parsed value costs a hundred bytes: what would not fit is found before it is parsed. Only the marks of the row's
    # structure are kept, without escapes and without what stands between two quotes. Up to where a row stops being JSON
    # this sees what the parser sees.
    marks = row.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _NO_MARKS)
    every = np.frombuffer(marks, np.uint8)
    quotes = every == ord('"')
    structure = every[~(np.bitwise_xor.accumulate(quotes) | quotes)].tobytes()
    if len(structure) - structure.count(b"]") - structure.count(b"}") > MAXIMUM_VALUES:
        raise _RefusedError(Refusal.TOO_LONG)
    # Behind twice as many brackets as may open, a row with so few that do has ended.
    brackets = structure.translate(_STEPS, b",")[: 2 * MAXIMUM_VALUES]
    if len(brackets) > MAXIMUM_DEPTH:
        depths = np.cumsum(np.frombuffer(brackets, np.int8), dtype=np.int32)
        if depths.max() > MAXIMUM_DEPTH + _RECORD_DEPTH:
            raise _RefusedError(Refusal.DEPTH)


def _integer(digits: str) -> int | float:
    # As the loaders: what does not fit 64 bits is a float, and so is -0.
    if digits == "-0":
        return _MINUS_ZERO
    if len(digits) > _DIGITS_OF_64_BITS:
        return float(digits)
    number = int(digits)
    return number if _SMALLEST_SIGNED <= number <= MAXIMUM_UNSIGNED else float(digits)


def _constant(_name: str) -> NoReturn:
    raise _RefusedError(Refusal.NUMBER)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if "event" in parsed and sum(key == "event" for key, _ in pairs) > 1:
        return _RepeatedEvent(parsed)
    return parsed


def _judge(parsed: Any) -> Row | Refusal:
    if isinstance(parsed, _RepeatedEvent):
        raise _RefusedError(Refusal.REPEATED_EVENT)
    if not isinstance(parsed, dict):
        raise _RefusedError(Refusal.JSON)
    enveloped = "event" in parsed
    _check_object(parsed, _ENVELOPE if enveloped else _RECORD)
    record = parsed["event"] if enveloped else parsed
    if not isinstance(record, dict):
        raise _RefusedError(Refusal.FIELD)
    if record.get("schema") != SCHEMA:
        raise _RefusedError(Refusal.SCHEMA)
    try:
        event = _typed(record)
    except msgspec.ValidationError:
        return Refusal.FIELD
    return row_of(event, agent="agent_context" in record)


def _check_object(parsed: dict[str, Any], known: _Known) -> None:
    for key, value in parsed.items():
        _check_text(key)
        if key in known and isinstance(value, dict):
            _check_object(value, known[key])
        else:
            _check_value(value)


def _check_value(value: Any) -> None:
    around: list[Iterator[Any]] = [iter((value,))]
    while around:
        for inner in around[-1]:
            if isinstance(inner, int):  # most are hashes
                continue
            if isinstance(inner, str):
                _check_text(inner)
            elif isinstance(inner, float) and not math.isfinite(inner):
                raise _RefusedError(Refusal.NUMBER)
            elif isinstance(inner, dict | list):
                if len(around) > MAXIMUM_DEPTH:
                    raise _RefusedError(Refusal.DEPTH)
                around.append(chain(inner, inner.values()) if isinstance(inner, dict) else iter(inner))
                break
        else:
            around.pop()


def _check_text(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _RefusedError(Refusal.ENCODING) from None


def _typed(record: dict[str, Any]) -> Event:
    if "tool" in record:
        raise msgspec.ValidationError("a tool stands on tool events, and loaders want it whole")
    if "agent_context" in record:
        msgspec.convert(record["agent_context"], AgentContext)
    known = _fields(record, Event)
    if isinstance(request := record.get("request"), dict):
        msgspec.convert(request.get("finish_reason_metadata", {}), dict[str, Any])
        known["request"] = typed = _fields(request, Request)
        for name, schema in (("replay", Replay), ("worker", Worker)):
            if isinstance(inner := request.get(name), dict):
                typed[name] = _fields(inner, schema)
    return msgspec.convert(known, Event)


def _fields(parsed: dict[str, Any], schema: type[msgspec.Struct]) -> dict[str, Any]:
    known = {name: parsed[name] for name in schema.__struct_fields__ if name in parsed}
    return {name: 0 if value is _MINUS_ZERO and name in _NOT_READ else value for name, value in known.items()}
