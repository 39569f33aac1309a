"""The rules of a schema, asked of the official CEL runtime.

The values are handed over as kube-apiserver types them: an integer field as int, a number field as double, a time as a
timestamp; what the schema does not describe takes part in comparisons and in nothing else.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from dgdr_retune.testing._json import Json, encode
from dgdr_retune.testing._schema import Node, UnsupportedSchemaError

_UNREADABLE: Final = b"a value that is not of its field's type"
"""What CEL sees there: no operation accepts it and nothing equals it."""


class _WholeFloat(int):
    """A number that was sent as 1.0 where an integer is declared: no rule can read it."""


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {"string": (str,), "boolean": (bool,), "integer": (int,)}
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


def holds(expression: str, variables: Mapping[str, Any]) -> bool:
    """Whether a rule holds.

    A field that was sent as 1.0 where an integer is declared makes the rule fail wherever it is looked at, be it only
    for its presence: so the rule is asked with it, as an integer, and without it, and both must agree.

    Raises:
        CelError: the rule cannot be evaluated.
    """
    result = evaluate(expression, variables) is True
    if any(map(_holds_unreadable, variables.values())):
        readable = {name: _readable(value) for name, value in variables.items()}
        if (evaluate(expression, readable) is True) is not result:
            raise CelError("invalid data, expected int, got float64")
    return result


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether an RE2 pattern matches somewhere in a text."""
    return bool(evaluate("self.matches(oldSelf)", {"self": text, "oldSelf": pattern}))


def typed(value: Json, node: Node | None) -> Any:
    """A value as a rule sees it by its schema."""
    if node is None or (node.type == "" and not node.int_or_string):
        return encode(value).decode()
    match value:
        case dict() if node.type == "object":
            return {name: typed(item, node.child(name)) for name, item in value.items()}
        case list() if node.type == "array":
            return [typed(item, node.items) for item in value]
    return _scalar(value, node)


def _scalar(value: Json, node: Node) -> Any:
    if value is None and node.nullable:
        return None
    if node.type == "string" and node.format == "date-time" and isinstance(value, str):
        return _time(value)
    if node.type == "number" and type(value) in (int, float):
        return float(value)
    if node.type == "integer" and isinstance(value, float) and value.is_integer():
        return _WholeFloat(value)
    kinds = (str, int) if node.int_or_string else _KINDS.get(node.type, ())
    return value if type(value) in kinds else _UNREADABLE


def _time(text: str) -> Any:
    try:
        moment = datetime.fromisoformat(text) if text else datetime.fromtimestamp(0, UTC)
    except ValueError:
        return _UNREADABLE
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _holds_unreadable(value: Any) -> bool:
    match value:
        case dict():
            return any(map(_holds_unreadable, value.values()))
        case list():
            return any(map(_holds_unreadable, value))
    return isinstance(value, _WholeFloat)


def _readable(value: Any) -> Any:
    match value:
        case dict():
            return {name: _readable(item) for name, item in value.items() if not isinstance(item, _WholeFloat)}
        case list():
            return [_readable(item) for item in value if not isinstance(item, _WholeFloat)]
    return value


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
        case bytes():
            return 'b"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'
        case datetime():
            return f'timestamp("{value.isoformat()}")'
    return json.dumps(value)
