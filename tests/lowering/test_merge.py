"""RFC 7396."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.lowering import merge_patch

Json = Any

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_standard_hold(target: Json, patch: Json, result: Json) -> None:
    assert merge_patch(target, patch) == result


@settings(deadline=None)
@given(JSON, JSON)
def test_a_patch_is_applied_once_and_for_all_and_changes_neither_side(target: Json, patch: Json) -> None:
    before = copy.deepcopy((target, patch))
    merged = merge_patch(target, patch)
    assert merge_patch(merged, patch) == merged
    assert (target, patch) == before


@settings(deadline=None)
@given(JSON)
def test_an_empty_patch_changes_no_object(target: Json) -> None:
    assert merge_patch(target, {}) == (target if isinstance(target, dict) else {})
