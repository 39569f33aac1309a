"""JSON from a server, however deep."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.kube import Json, MaybeAppliedError
from dgdr_retune.kube._decode import MAX_DEPTH, TOO_DEEP, decode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='[]{}"\\\\a\u00e9'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='[]{}"\\\\b'), inner, max_size=3),
    max_leaves=20,
)


def nested(levels: int, inside: Json = 1) -> bytes:
    return b"[" * levels + json.dumps(inside).encode() + b"]" * levels


@settings(deadline=None)
@given(VALUES)
def test_what_is_not_deep_is_what_json_says(value: Json) -> None:
    assert decode(json.dumps(value).encode()) == value


@pytest.mark.parametrize("levels", [MAX_DEPTH - 1, MAX_DEPTH])
def test_up_to_the_limit_nothing_is_cut(levels: int) -> None:
    assert decode(nested(levels)) == json.loads(nested(levels))


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 999, 5000, 10_000, 50_000])
def test_what_is_deeper_is_cut_there(levels: int) -> None:
    assert decode(nested(levels)) == json.loads(nested(MAX_DEPTH, TOO_DEEP))


@settings(deadline=None, max_examples=50)
@given(VALUES, VALUES)
def test_what_stands_beside_a_deep_part_is_whole(before: Json, after: Json) -> None:
    text = b'{"a": %s, "deep": %s, "z": %s}' % (json.dumps(before).encode(), nested(300), json.dumps(after).encode())
    value = decode(text)
    assert (value["a"], value["z"]) == (before, after)


def test_brackets_in_strings_are_no_depth() -> None:
    value = {"open": "[" * 1000, "close": "}" * 1000, "escaped": '\\"[' * 500}
    assert decode(json.dumps(value).encode()) == value


@pytest.mark.parametrize("text", [b"", b"[" * 1000, b"]" * 1000, nested(300)[:-1], b"\xff", b'{"a" 1}'])
def test_what_is_no_json_is_said(text: bytes) -> None:
    with pytest.raises(MaybeAppliedError) as raised:
        decode(text)
    assert raised.value.reason == "Malformed"
