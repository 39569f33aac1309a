"""Which rows are valid, and that the fast way and the thorough way agree."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutated_rows import mutated_rows
from window_cases import START_MS, line, record, row

from dgdr_retune.windows._judge import judge, judge_block
from dgdr_retune.windows._judge_in_full import MAXIMUM_DEPTH, MAXIMUM_VALUES, judge_in_full
from dgdr_retune.windows._row import MAXIMUM_ROW, MAXIMUM_TOKENS, Refusal, Row

PLAIN = row().decode()


def put(text: str, instead: str) -> bytes:
    """The plain row with another text in one place."""
    assert PLAIN.count(text) == 1
    return PLAIN.replace(text, instead).encode()


def with_field(json_value: str, *, within: str = '"event":{') -> bytes:
    """The plain row with a field that nobody knows."""
    return put(within, f'{within}"unknown":{json_value},')


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=100)
def test_the_fast_way_and_the_thorough_way_agree_on_every_row(seed: int) -> None:
    for done, mutated in mutated_rows(seed, count=30):
        assert judge(mutated) == judge_in_full(mutated), done


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_a_row_is_judged_the_same_alone_and_among_others(seed: int) -> None:
    rows = [mutated for _, mutated in mutated_rows(seed, count=20)]
    lines, verdicts = judge_block(b"\n".join(rows) + b"\n")
    assert lines == rows
    assert verdicts == [judge(one) for one in rows]
    plain = [row(str(number)) for number in range(5)]
    assert judge_block(b"\n".join(plain))[1] == [judge_in_full(one) for one in plain]


def test_what_a_valid_row_says() -> None:
    expected = Row(
        START_MS, START_MS + 26, START_MS + 26, "a", 64, 130, 8, [2**63 + 1, 2**63 + 18, 2**63 + 35], agent=False
    )
    event = record(took_ms=25.5)
    assert judge(line(event)) == judge(line(event, bare=True)) == expected


@pytest.mark.parametrize(
    ("took_ms", "end_ms"),
    [(0.0, 0), (0.49999999999999994, 0), (0.5, 1), (1.5, 2), (2.5, 3), (2.4999, 2), (1e300, 2**64 - 1 - START_MS)],
)
def test_a_row_ends_after_its_total_time_rounded_half_up(took_ms: float, end_ms: int) -> None:
    judged = judge(line(record(took_ms=took_ms) | {"event_time_unix_ms": START_MS}))
    assert isinstance(judged, Row)
    assert judged.end_ms == START_MS + end_ms


def test_a_row_without_a_total_time_ends_at_its_event() -> None:
    judged = judge(line(record(took_ms=None) | {"event_time_unix_ms": START_MS + 77}))
    assert isinstance(judged, Row)
    assert judged.end_ms == START_MS + 77


VALID = {
    "a hash of 2^64 - 1": put("9223372036854775809", "18446744073709551615"),
    "a hash of 0": put("9223372036854775809", "0"),
    "no output": put('"output_tokens":8', '"output_tokens":0'),
    "the last of a repeated field": put('"output_tokens":8', '"output_tokens":"x","output_tokens":8'),
    "a carriage return": row() + b"\r",
    "spaces around": b" \t" + row() + b"  ",
    "an unknown field": with_field('{"a":[1,2.5e10,null,true,"x"]}'),
    "depth 120 in a field": with_field(nested(120)),
    "depth 120 in a field of the request": with_field(nested(120), within='"request":{'),
    "an escaped pair of surrogates": with_field(r'"\ud83d\ude00"'),
    "line separators in a text": with_field('"\u0085\u2028\u2029\x7f"'),
    "an exponent": with_field("1e308"),
    "a number that is almost nothing": with_field("1e-400"),
    "zero with a large exponent": with_field("0e400"),
    "300 digits": with_field("9" * 300),
    "a long row": with_field('"' + "x" * (MAXIMUM_ROW - len(PLAIN) - len('"unknown":"",')) + '"'),
    "commas in a text": with_field('"' + "," * (MAXIMUM_VALUES + 1) + '"'),
    "a block size of 2^63": line(
        record(input_length=64)
        | {
            "request": record()["request"]
            | {"replay": {"trace_block_size": 2**63, "input_length": 64, "input_sequence_hashes": [1]}}
        }
    ),
    "an escaped key": put('"output_tokens"', r'"\u006futput_tokens"'),
    "a nested field named event": with_field('{"event":1,"event":2}'),
    "an envelope without a time": put('"timestamp":25751,', ""),
    "an envelope with a time of its own kind": put('"timestamp":25751', '"timestamp":"later"'),
    "no worker": line(
        {**record(), "request": {key: value for key, value in record()["request"].items() if key != "worker"}}
    ),
}

REFUSED = {
    "2^64 as a hash": (put("9223372036854775809", "18446744073709551616"), Refusal.FIELD),
    "a negative hash": (put("9223372036854775809", "-1"), Refusal.FIELD),
    "-0 as a hash": (put("9223372036854775809", "-0"), Refusal.FIELD),
    "a float hash": (put("9223372036854775809", "1.0"), Refusal.FIELD),
    "an exponent hash": (put("9223372036854775809", "1e3"), Refusal.FIELD),
    "-0 tokens": (put('"output_tokens":8', '"output_tokens":-0'), Refusal.FIELD),
    "true tokens": (put('"output_tokens":8', '"output_tokens":true'), Refusal.FIELD),
    "float tokens": (put('"output_tokens":8', '"output_tokens":8.0'), Refusal.FIELD),
    "null in a known field": (put('"queue_depth":0', '"queue_depth":null'), Refusal.FIELD),
    "2^64 in a field that no replay reads": (put('"queue_depth":0', f'"queue_depth":{2**64}'), Refusal.FIELD),
    "an empty id": (put('"request_id":"a"', '"request_id":""'), Refusal.FIELD),
    "an id of white space": (put('"request_id":"a"', '"request_id":"\u2007\u3000 "'), Refusal.FIELD),
    "400 digits in the envelope": (put('"timestamp":25751', '"timestamp":' + "9" * 400), Refusal.NUMBER),
    "a tool on a request": (with_field("1").replace(b"unknown", b"tool"), Refusal.FIELD),
    "an empty prompt": (put('"input_length":130', '"input_length":0'), Refusal.FIELD),
    "a block size of 0": (put('"trace_block_size":64', '"trace_block_size":0'), Refusal.FIELD),
    "a hash less": (put('"input_length":130', '"input_length":193'), Refusal.HASH_COUNT),
    "a hash more": (put('"input_length":130', '"input_length":128'), Refusal.HASH_COUNT),
    "more tokens than a replay holds": (
        put('"output_tokens":8', f'"output_tokens":{MAXIMUM_TOKENS + 1}'),
        Refusal.OUT_OF_RANGE,
    ),
    "a negative time": (put('"total_time_ms":25.5', '"total_time_ms":-0.5'), Refusal.OUT_OF_RANGE),
    "a total that is a text": (put('"total_time_ms":25.5', '"total_time_ms":"x"'), Refusal.FIELD),
    "NaN": (put('"total_time_ms":25.5', '"total_time_ms":NaN'), Refusal.NUMBER),
    "-Infinity in an unknown field": (with_field("-Infinity"), Refusal.NUMBER),
    "1e400 in an unknown field": (with_field("1e400"), Refusal.NUMBER),
    "400 digits": (with_field("9" * 400), Refusal.NUMBER),
    "a lone surrogate escape": (with_field(r'"\ud800"'), Refusal.ENCODING),
    "a lone low surrogate escape": (with_field(r'"\udc00x"'), Refusal.ENCODING),
    "a lone surrogate in a key": (with_field('{"\\ud800":1}'), Refusal.ENCODING),
    "an encoded surrogate": (with_field('"@"').replace(b"@", b"\xed\xa0\x80"), Refusal.ENCODING),
    "invalid UTF-8": (with_field('"@"').replace(b"@", b"\xff"), Refusal.ENCODING),
    "a byte order mark": (b"\xef\xbb\xbf" + row(), Refusal.JSON),
    "two rows on a line": (row() + row(), Refusal.JSON),
    "half a row": (row()[:200], Refusal.JSON),
    "no object": (b"[1]", Refusal.JSON),
    "a control character in a text": (with_field('"\x01"'), Refusal.JSON),
    "another schema": (put("dynamo.request.trace.v1", "dynamo.request.trace.v2"), Refusal.SCHEMA),
    "no schema": (put('"schema":"dynamo.request.trace.v1",', ""), Refusal.SCHEMA),
    "event twice": (put('"event":', '"event":5,"event":'), Refusal.REPEATED_EVENT),
    "a whole event twice": (
        (row()[:-1] + b"," + row()[len(b'{"timestamp":25751,') :]),
        Refusal.REPEATED_EVENT,
    ),
    "event twice, once in escapes": (put('"event":', r'"\u0065vent":5,"event":'), Refusal.REPEATED_EVENT),
    "an envelope around nothing": (b'{"timestamp":1,"event":null}', Refusal.FIELD),
    "depth 121 in a field": (with_field(nested(121)), Refusal.DEPTH),
    "depth 1025": (with_field(nested(1025)), Refusal.DEPTH),
    "depth 100,000": (with_field(nested(100_000)), Refusal.DEPTH),
    "a row beyond the cap": (row() + b" " * MAXIMUM_ROW, Refusal.TOO_LONG),
    "a row of common form beyond the cap": (
        put('"event_type"', f'"event_source":"{"x" * MAXIMUM_ROW}","event_type"'),
        Refusal.TOO_LONG,
    ),
    "a lone surrogate in a key of the record": (put('"event_type"', r'"\udc00":1,"event_type"'), Refusal.ENCODING),
    "more values than memory is for": (with_field("[" + "1," * MAXIMUM_VALUES + "1]"), Refusal.TOO_LONG),
    "a tool event": (b'{"event":{"schema":"dynamo.request.trace.v1","event_type":"tool_end"}}', Refusal.OTHER_EVENT),
    "a bare router selection": (b'{"event_type":"router_selection","x":1e400}', Refusal.OTHER_EVENT),
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID.keys())
def test_a_row_that_every_reader_takes_is_valid(text: bytes) -> None:
    assert isinstance(judge(text), Row)
    assert judge(text) == judge_in_full(text)


@pytest.mark.parametrize(("text", "refusal"), REFUSED.values(), ids=REFUSED.keys())
def test_a_row_that_some_reader_refuses_is_refused_with_the_reason(text: bytes, refusal: Refusal) -> None:
    assert judge(text) is refusal
    assert judge_in_full(text) is refusal


@given(
    texts=st.lists(st.text('"\\\\[]{},:x\n\u00e9'), max_size=4),
    depth=st.integers(0, 130),
    pairs=st.booleans(),
)
@settings(deadline=None, max_examples=100)
def test_what_stands_in_a_text_is_no_structure(texts: list[str], depth: int, *, pairs: bool) -> None:
    value: Any = texts
    for _ in range(depth):
        value = {"".join(texts): value} if pairs else [*texts, value]
    judged = judge_in_full(with_field(json.dumps(value, ensure_ascii=False)))
    assert judged is Refusal.DEPTH if depth >= MAXIMUM_DEPTH else isinstance(judged, Row)


@pytest.mark.parametrize("mark", [b'"', b'\\"', b"\\", b"\\a", b'",', b'"[', b"[", b"]", b"[]", b"{}", b"1,"])
def test_a_line_of_marks_costs_little_more_than_reading_it(mark: bytes) -> None:
    size = 4 << 20
    hostile = b"," * 200 + mark * (size // len(mark))
    started_s = time.process_time()
    assert judge(hostile) in (Refusal.JSON, Refusal.TOO_LONG)
    assert time.process_time() - started_s < 0.25


REQUIRED = {
    "schema": Refusal.SCHEMA,
    "event_type": Refusal.FIELD,
    "event_time_unix_ms": Refusal.FIELD,
    "request": Refusal.FIELD,
}


@pytest.mark.parametrize(("field", "refusal"), REQUIRED.items())
def test_a_record_without_a_required_field_is_refused(field: str, refusal: Refusal) -> None:
    event = record()
    del event[field]
    assert judge(line(event)) is refusal


@pytest.mark.parametrize("field", ["request_id", "output_tokens", "request_received_ms", "replay"])
@pytest.mark.parametrize("value", [None, "x", -1, 1.5, []])
def test_a_request_with_a_required_field_missing_or_odd_is_refused(field: str, value: Any) -> None:
    event = record()
    if (field, value) != ("request_id", "x"):
        event["request"][field] = value
        assert judge(line(event)) is Refusal.FIELD
    del event["request"][field]
    assert judge(line(event)) is Refusal.FIELD


def test_an_agents_row_is_known_as_one_and_needs_its_session() -> None:
    event = record() | {"agent_context": {"session_id": "s", "session_final": True}}
    judged = judge(line(event))
    assert isinstance(judged, Row)
    assert judged.agent
    for context in ({}, {"session_id": ""}, {"session_id": 1}, None, "x"):
        assert judge(line(event | {"agent_context": context})) is Refusal.FIELD


def test_lines_end_at_0x0a_and_blank_ones_are_no_rows() -> None:
    separators = "\u0085\u2028\u2029\x0b\x0c\x1c\x1d\x1e"
    text = json.dumps({"timestamp": 1, "event": record() | {"x": separators}}, ensure_ascii=False)
    odd = text.replace("\\u000b", "\x0b").replace("\\f", "\x0c").encode()
    block = row("1") + b"\n\n \t\r\n" + odd + b"\n" + row("2")
    lines, verdicts = judge_block(block)
    assert lines == block.split(b"\n")
    assert [type(one) for one in verdicts] == [Row, type(None), type(None), Refusal, Row]
