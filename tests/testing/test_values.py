"""Values as kube-apiserver reads, compares and prints them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgdr_retune.testing._cel import CelError, evaluate, pattern_matches
from dgdr_retune.testing._go import shown
from dgdr_retune.testing._json import decode, encode, same, stored
from dgdr_retune.testing._schema import read_schema
from dgdr_retune.testing._typed import holds, typed

Json = Any

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_stored_is_read_back_as_it_is(value: Json) -> None:
    kept = stored(value)
    assert same(decode(encode(kept))[0], kept)
    assert same(stored(kept), kept)


@given(VALUES)
def test_a_value_is_the_same_as_itself_alone(value: Json) -> None:
    assert same(value, value)
    assert not same(value, [value])


@pytest.mark.parametrize(("left", "right"), [(1, 1.0), (1, True), (0, False), ([1], [1.0]), ({"a": 1}, {"a": 1.0})])
def test_equal_values_of_different_types_are_not_the_same(left: Json, right: Json) -> None:
    assert left == right
    assert not same(left, right)


@pytest.mark.parametrize(
    ("text", "value", "repeated"),
    [
        ('{"a":1,"b":{"c":1,"c":2}}', {"a": 1, "b": {"c": 2}}, ("b.c",)),
        ('[{"a":1,"a":1,"a":1}]', [{"a": 1}], ("[0].a",)),
        ("9223372036854775807", 2**63 - 1, ()),
        ("9223372036854775808", float(2**63), ()),
        ('"\\ud800"', "\ufffd", ()),
        ('"\\ud83d\\ude00"', "\U0001f600", ()),
    ],
)
def test_a_body_is_read_as_go_reads_it(text: str, value: Json, repeated: tuple[str, ...]) -> None:
    read, twice = decode(text)
    assert same(read, value)
    assert twice == repeated


@pytest.mark.parametrize("text", ["", "{", "NaN", "[1,]", "Infinity", "{'a':1}"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are the standard library's
        decode(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1"),
        (-0.5, "-0.5"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (2147483647.0, "2.147483647e+09"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (True, "true"),
        (None, "null"),
        ('a"\n\0\u2028\U0001f600é', '"a\\"\\n\\x00\\u2028\U0001f600é"'),
        ({"b": [1, None], "a": "x"}, '{"a":"x","b":[1,null]}'),
    ],
)
def test_a_value_is_printed_as_go_prints_it(value: Json, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("expression", "variables", "value"),
    [
        ("self.size()", {"self": "é\U0001f600"}, 2),
        ("self.size()", {"self": "a\0b"}, 3),
        ("self.contains('\\u0000')", {"self": "a\0b"}, True),
        ("self.a == oldSelf.a", {"self": {"a": "x\0y"}, "oldSelf": {"a": "x\0z"}}, False),
        (
            "self.a == oldSelf.a",
            {"self": {"a": [1, 2.5, None, True], "b": "\0"}, "oldSelf": {"a": [1, 2.5, None, True]}},
            True,
        ),
        ("self.a == oldSelf.a", {"self": {"a": "\0"}, "oldSelf": {"a": "\ue000"}}, False),
        ("self == '\\\\x00' + '\\x00'", {"self": "\\x00\0"}, True),
        ("self.size() + oldSelf.size()", {"self": "\0" + "m" * 300_000, "oldSelf": "\0" * 300_000}, 600_001),
        ("self.split('/').all(s, s != '..')", {"self": "a/../b"}, False),
        ("has(self.a) ? self.a : 7", {"self": {}}, 7),
    ],
)
def test_rules_see_whole_strings(expression: str, variables: dict[str, Json], value: Json) -> None:
    assert evaluate(expression, variables) == value


@pytest.mark.parametrize("expression", ["self.a", "self.b > 1", "1 / 0 == 1"])
def test_a_rule_without_a_value_is_an_error(expression: str) -> None:
    with pytest.raises(CelError):
        evaluate(expression, {"self": {"b": "x"}})


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a\n", False),
        ("b", "abc", True),
        ("^[^\\x00]*$", "a\0", False),
        ("^[\\x00-\\x1f]$", "\0", True),
        ("^[^\\x00-\\x1f]$", "\0", False),
        ("^\\x00-a$", "\0-a", True),
    ],
)
def test_patterns_are_those_of_re2(pattern: str, text: str, *, matches: bool) -> None:
    assert pattern_matches(pattern, text) is matches


NODE = read_schema(
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "s": {"type": "string"},
            "l": {"type": "array", "items": {"type": "string"}},
        },
    }
)


@pytest.mark.parametrize(
    "expression",
    [
        "has(self.n)",
        "self.n > 1",
        "self == oldSelf",
        "self.l.all(x, self.l.filter(y, y == x).size() == 1)",
        "(has(self.n) ? 1 : 0) + (has(self.s) ? 1 : 0) == 1",
    ],
)
@pytest.mark.parametrize("nul", ["", "\0"])
def test_a_rule_that_looks_at_a_value_of_a_wrong_type_is_an_error(expression: str, nul: str) -> None:
    value = {"n": 1.0, "l": [1], "s": "x" + nul}
    with pytest.raises(CelError, match=r"invalid data, expected (int, got float64|string, got int64)"):
        holds(expression, {"self": typed(value, NODE), "oldSelf": typed(value, NODE)})


def test_a_rule_that_does_not_look_at_it_holds() -> None:
    assert holds("self.s == 'x'", {"self": typed({"n": 1.0, "s": "x"}, NODE)})
    assert not holds("self.s == 'y'", {"self": typed({"n": 1.0, "s": "x"}, NODE)})
