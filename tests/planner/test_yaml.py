from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgdr_retune.planner._errors import ConfigurationError
from dgdr_retune.planner._yaml import MAX_BYTES, parse_yaml


def parse(text: str) -> object:
    return parse_yaml(text.encode(), source="c.yaml").value


def test_plain_values_keep_the_types_that_people_mean() -> None:
    assert parse(
        "{a: 1e3, b: 1e-3, c: yes, d: 2026-11-30, e: true, f: 017, g: .5, h: '1', i: null, j: 1:30, k: -12}"
    ) == {
        "a": 1000.0,
        "b": 0.001,
        "c": "yes",
        "d": "2026-11-30",
        "e": True,
        "f": "017",
        "g": 0.5,
        "h": "1",
        "i": None,
        "j": "1:30",
        "k": -12,
    }


def test_every_value_knows_its_line() -> None:
    document = parse_yaml(b"a:\n  b: 1\n  c:\n    - x\n    - y\n", source="c.yaml")
    assert document.line(("a", "b")) == 2
    assert document.line(("a", "c", 1)) == 5
    assert document.line(("a", "c", 1, "unknown")) == 5
    assert document.line(("nowhere",)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "c.yaml:1: not YAML"),
        ("a: 1\na: 2", "c.yaml:2: the key 'a' stands twice"),
        ("a: 1\n---\nb: 2", "not YAML"),
        ("!!python/object/apply:os.system [echo]", "not YAML"),
        ("{? [a, b] : 1}", "a key must be plain text"),
        ("[" * 70 + "]" * 70, "nested deeper than 64"),
        ("[" * 5000 + "]" * 5000, "nested"),
        ("a: \x00", "not YAML"),
        ("a: !!bool maybe", "c.yaml"),
        ("a: !!timestamp foo", "the tag"),
        ("a: !!int ''", "c.yaml"),
        ("a: !!float ''", "c.yaml"),
    ],
)
def test_what_is_not_a_safe_document_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^c\.yaml") as caught:
        parse(text)
    assert message in str(caught.value)


def test_not_utf8_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not UTF-8 at byte 3"):
        parse_yaml(b"a: \xff", source="c.yaml")


def test_a_file_over_the_size_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ConfigurationError, match="at most"):
        parse_yaml(b"#" * (MAX_BYTES + 1), source="c.yaml")


def test_aliases_of_aliases_are_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
    )
    with pytest.raises(ConfigurationError, match="aliases"):
        parse(bomb)


def test_an_alias_of_itself_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        parse("a: &a [*a]")


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=200))
def test_any_text_is_a_document_or_a_configuration_error(text: str) -> None:
    with suppress(ConfigurationError):
        parse(text)
