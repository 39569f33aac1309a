"""The official CEL runtime."""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from dgdr_retune.testing._json import Json
from dgdr_retune.testing._schema import Node, UnsupportedSchemaError

_VARIABLES: Final = {"self": cel.Type.DYN, "oldSelf": cel.Type.DYN}


class CelError(Exception):
    """A rule that could not be evaluated: a missing key, a wrong type, a number out of range."""


@cache
def _environment() -> Any:
    return cel.NewEnv(variables=_VARIABLES, extensions=[ext_strings.ExtStrings()])


@cache
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
    if any(_holds_nul(value) for value in variables.values()):
        expression = _with_literals(expression, variables)
        variables = {}
    result = _compiled(expression).eval(data=dict(variables))
    if result.type() == cel.Type.ERROR:
        raise CelError(str(result.value()))
    return result.plain_value()


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether an RE2 pattern matches somewhere in a text."""
    return bool(evaluate("self.matches(oldSelf)", {"self": text, "oldSelf": pattern}))


def _holds_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(map(_holds_nul, value)) or any(map(_holds_nul, value.values()))
        case list():
            return any(map(_holds_nul, value))
    return False


def _with_literals(expression: str, variables: Mapping[str, Json]) -> str:
    """The expression with its variables written out: the runtime's bindings end a string at its first NUL."""
    for name, value in variables.items():
        expression = f"[{_literal(value)}].map({name}, {expression})[0]"
    return expression


def _literal(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_literal, value)) + "]"
        case str():
            return '"' + "".join(f"\\U{ord(character):08x}" for character in value) + '"'
        case float() if math.isnan(value):
            return 'double("NaN")'
        case datetime():
            return f'timestamp("{value.isoformat()}")'
    return json.dumps(value)
