"""Whether a Run's input contains what its Request asked for."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.lowering import ABSENT, Difference, first_difference, merge_patch

Json = Any

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text("ab", max_size=2)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"a": 1.0, "b": 2}),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2.0, "c": 3}]}),
        ({}, {"a": 1}),
        (2**53 + 1, 2**53 + 1),
        ({"a": None}, {"a": None}),
    ],
)
def test_what_is_there_is_found_whatever_else_is_there(expected: Json, actual: Json) -> None:
    assert first_difference(expected, actual) is None


@pytest.mark.parametrize(
    ("expected", "actual", "path", "message"),
    [
        ({"a": {"b": 1}}, {"a": {}}, "a.b", "a.b: expected 1, found nothing"),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, "a.c", "a.c: expected 2, found 3"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "a[1]", "a[1]: expected 2, found 3"),
        ({"a": [1, 2]}, {"a": [1]}, "a", "a: expected [1, 2], found [1]"),
        ({"a": [1]}, {"a": [1, 2]}, "a", "a: expected [1], found [1, 2]"),
        ({"a": True}, {"a": 1}, "a", "a: expected true, found 1"),
        ({"a": 0}, {"a": False}, "a", "a: expected 0, found false"),
        ({"a": "1"}, {"a": 1}, "a", 'a: expected "1", found 1'),
        ({"a": {}}, {"a": []}, "a", "a: expected {}, found []"),
        ({"a": None}, {}, "a", "a: expected null, found nothing"),
        ({"dynamo.router": {"x": 1}}, {"dynamo.router": {"x": 2}}, '["dynamo.router"].x', '["dynamo.router"].x: '),
        (2**53 + 1, float(2**53), "", "the document: expected 9007199254740993, found"),
    ],
)
def test_the_first_thing_that_lacks_is_named_by_its_path(expected: Json, actual: Json, path: str, message: str) -> None:
    difference = first_difference(expected, actual)
    assert difference is not None
    assert difference.path == path
    assert message in str(difference)


def test_the_first_difference_is_the_first_in_the_order_of_what_is_expected() -> None:
    assert first_difference({"b": 1, "a": 1}, {}) == Difference("b", 1, ABSENT)


@settings(deadline=None)
@given(JSON)
def test_everything_contains_itself(value: Json) -> None:
    assert first_difference(value, value) is None


@settings(deadline=None)
@given(OBJECTS, OBJECTS)
def test_a_merged_document_contains_the_patch_without_its_nulls(target: Json, patch: Json) -> None:
    assert first_difference(merge_patch({}, patch), merge_patch(target, patch)) is None


@settings(deadline=None)
@given(OBJECTS, OBJECTS)
def test_two_objects_that_contain_each_other_are_equal(one: Json, other: Json) -> None:
    both = first_difference(one, other) is None and first_difference(other, one) is None
    if both:
        assert one == other
