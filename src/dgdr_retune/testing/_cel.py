"""The official CEL runtime."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from dgdr_retune.testing._json import Json
from dgdr_retune.testing._schema import Node, UnsupportedSchemaError

_VARIABLES: Final = {"self": cel.Type.DYN, "oldSelf": cel.Type.DYN}
_COMPILED_MAX: Final = 1024  # far more than the rules of a few definitions
_NUL: Final = re.compile(
    r"(?P<before>(?<!\\)(?:\\\\)*)(?:\\(?:u0000|U0{8}|x00|000|x\{0+\})|\0)"
    r"(?P<range>(?:(?<=\[\\x00)|(?<=\[\^\\x00))-)?"
)
"""NUL in a rule or a pattern, as itself or as an escape, and that a class of characters begins with a range from it."""
_PRIVATE_USE: Final = 0xE000


class CelError(Exception):
    """A rule that could not be evaluated: a missing key, a wrong type, a number out of range."""


@cache
def _environment() -> Any:
    return cel.NewEnv(variables=_VARIABLES, extensions=[ext_strings.ExtStrings()])


@lru_cache(_COMPILED_MAX)
def _compiled(expression: str) -> Any:
    return _environment().compile(expression)


def check_rules(node: Node, path: str = "") -> None:
    """Compile every rule of a schema.

    Raises:
        UnsupportedSchemaError: the runtime cannot compile one, for a fault or a function that only Kubernetes has.
    """
    for rule in node.rules:
        try:
            _compiled(rule.expression)
        except RuntimeError as error:
            raise UnsupportedSchemaError(path, f"the rule `{rule.expression}`: {error}") from error
    for name, child in _children(node):
        check_rules(child, f"{path}{name}")


def _children(node: Node) -> Iterator[tuple[str, Node]]:
    yield from ((f".{name}", child) for name, child in node.properties.items())
    yield from (("[*]", child) for child in (node.items, node.additional) if child is not None)


def evaluate(expression: str, variables: Mapping[str, Json]) -> Json:
    """The value of an expression.

    Raises:
        CelError: it has none.
    """
    texts = {text for value in variables.values() for text in _texts(value)}
    if any("\0" in text for text in texts):
        stand_in = _unused([expression, *texts])
        expression = _source_without_nul(expression, stand_in)
        variables = {name: _without_nul(value, stand_in) for name, value in variables.items()}
    result = _compiled(expression).eval(data=dict(variables))
    if result.type() == cel.Type.ERROR:
        raise CelError(str(result.value()))
    return result.plain_value()


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether an RE2 pattern matches somewhere in a text."""
    if "\0" in text:
        stand_in = _unused([pattern, text])
        pattern, text = _source_without_nul(pattern, stand_in), text.replace("\0", stand_in)
    return bool(evaluate("self.matches(oldSelf)", {"self": text, "oldSelf": pattern}))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            yield from value
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)


def _unused(texts: Iterable[str]) -> str:
    """A character that is in none of the texts, to stand for NUL: the runtime's bindings end a string at its first."""
    used = set().union(*texts)
    return next(chr(point) for point in range(_PRIVATE_USE, sys.maxunicode) if chr(point) not in used)


def _without_nul(value: Any, stand_in: str) -> Any:
    match value:
        case str():
            return value.replace("\0", stand_in)
        case dict():
            return {_without_nul(key, stand_in): _without_nul(item, stand_in) for key, item in value.items()}
        case list():
            return [_without_nul(item, stand_in) for item in value]
    return value


def _source_without_nul(source: str, stand_in: str) -> str:
    """A rule or a pattern that says of the stand-in what it says of NUL; a range from NUL goes on from the next."""
    return _NUL.sub(lambda found: found["before"] + stand_in + (r"\x01-" if found["range"] else ""), source)
