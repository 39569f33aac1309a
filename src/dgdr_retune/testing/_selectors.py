"""Label and field selectors."""

import re
from collections.abc import Callable
from typing import Final

from dgdr_retune.testing._errors import bad_request
from dgdr_retune.testing._json import Json

Selects = Callable[[Json], bool]

_REQUIREMENT: Final = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<gone>[\w./-]+)"
    r"|(?P<key>[\w./-]+)\s*(?:(?P<sign>==|=|!=)\s*(?P<value>[\w.-]*)"
    r"|\s(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?)\s*(?:,|$)"
)
_FIELDS: Final = ("metadata.name", "metadata.namespace")


def label_selector(text: str) -> Selects:
    """What ``labelSelector`` asks for.

    Raises:
        ApiError: 400, it cannot be read.
    """
    tests = []
    position = 0
    while position < len(text):
        found = _REQUIREMENT.match(text, position)
        if found is None:
            raise bad_request(f"unable to parse requirement: {text}")
        tests.append(_label_test(found))
        position = found.end()
    return lambda value: all(test(value["metadata"].get("labels") or {}) for test in tests)


def _label_test(found: re.Match[str]) -> Callable[[dict[str, str]], bool]:
    if found["absent"]:
        return lambda labels: found["gone"] not in labels
    key = found["key"]
    if found["set"]:
        values = {value.strip() for value in found["values"].split(",")}
        if found["set"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found["sign"] == "!=":
        return lambda labels: labels.get(key) != found["value"]
    if found["sign"]:
        return lambda labels: labels.get(key) == found["value"]
    return lambda labels: key in labels


def field_selector(text: str) -> Selects:
    """What ``fieldSelector`` asks for: the name and the namespace can be selected by.

    Raises:
        ApiError: 400, another field, or it cannot be read.
    """
    tests: list[Selects] = []
    for term in filter(None, text.split(",")):
        key, sign, value = re.fullmatch(r"([^!=]*)(==|!=|=)?(.*)", term, re.DOTALL).groups()  # type: ignore[union-attr]  # matches any text
        if not sign or key not in _FIELDS:
            raise bad_request(f"field label not supported: {key}")
        tests.append(_field_test(key.removeprefix("metadata."), value, wanted=sign != "!="))
    return lambda each: all(test(each) for test in tests)


def _field_test(field: str, text: str, *, wanted: bool) -> Selects:
    return lambda value: (value["metadata"].get(field, "") == text) is wanted
