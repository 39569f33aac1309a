"""What is wrong with the declarations of an API, in the manner of kube-api-linter."""

import re
from collections.abc import Iterator
from typing import Any

from dgdr_retune.api import ApiModel
from dgdr_retune.api._declare import Presence
from dgdr_retune.api._shape import Field, FreeObject, List, Object, Scalar, Shape, shape_of

CAMEL = re.compile(r"[a-z][a-z0-9]*([A-Z][a-z0-9]*)*")
PASCAL = re.compile(r"[A-Z][A-Za-z0-9]*")
NOT_OURS = {"backends", "backendFramework", "generator"}
"""Enums whose values are the names of other people's programs."""


def findings(model: type[ApiModel]) -> list[str]:
    """Everything that is wrong, as `path: what`."""
    return list(_object(shape_of(model), ""))


def _object(shape: Object, path: str) -> Iterator[str]:
    for field in shape.fields:
        yield from (f"{path}{field.name}: {what}" for what in _field(field))
        yield from _inside(field.shape, f"{path}{field.name}", field.name)


def _field(field: Field) -> Iterator[str]:
    if field.presence is None:
        yield "is declared neither optional nor required"
    if field.presence is Presence.REQUIRED and field.default is not None:
        yield "is required and has a default"
    if not field.description:
        yield "has no description"
    elif not field.description.endswith("."):
        yield "has a description that is no sentence"
    if field.example is None and _is_leaf(field.shape):
        yield "has no example"
    if not CAMEL.fullmatch(field.name):
        yield "is no camelCase name"
    if re.search(r"(Time|Timestamp)$", field.name) and not field.name.endswith("Time"):
        yield "names a time with another word than Time"


def _is_leaf(shape: Shape) -> bool:
    """Whether a reader meets a value here: a list shows its items' values only if they are no objects."""
    return _is_leaf(shape.item) if isinstance(shape, List) else not isinstance(shape, Object)


def _inside(shape: Shape, path: str, name: str) -> Iterator[str]:
    match shape:
        case Object():
            yield from _object(shape, f"{path}.")
        case List():
            if shape.max_length is None:
                yield f"{path}: is a list without maxItems"
            yield from _inside(shape.item, f"{path}[]", name)
        case Scalar():
            yield from (f"{path}: {what}" for what in _scalar(shape, name))
    if not isinstance(shape, FreeObject):
        yield from (f"{path}: has a rule without a message" for rule in shape.rules if not rule.message)


def _scalar(shape: Scalar, name: str) -> Iterator[str]:
    if shape.type == "string":
        if not shape.enum and shape.max_length is None:
            yield "is a string without maxLength"
        for value in shape.enum:
            if name not in NOT_OURS and not PASCAL.fullmatch(value):
                yield f"has a value {value!r} that is no PascalCase name"
        return
    if (shape.minimum is None and shape.above is None) or shape.maximum is None:
        yield "is a number without bounds"


def schema_findings(schema: Any, path: str = "", *, in_a_rule: bool = False) -> Iterator[str]:
    """What is wrong with a schema as it is shipped.

    A map below a rule needs a bound, or the rule's cost has none. A free object is the exception: it holds documents of
    others, which nobody can count beforehand, and rules compare it whole or ask whether it is there, so that its cost
    ends with the size that a server takes.
    """
    in_a_rule = in_a_rule or "x-kubernetes-validations" in schema
    if schema.get("type") == "array" and "x-kubernetes-list-type" not in schema:
        yield f"{path}: is a list without a list type"
    if "type" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        yield f"{path}: has no type"
    if in_a_rule and "additionalProperties" in schema and "maxProperties" not in schema:
        values = schema["additionalProperties"]
        if not (isinstance(values, dict) and values.get("x-kubernetes-preserve-unknown-fields")):
            yield f"{path}: is a map without maxProperties that a rule reads"
    for name, below in schema.get("properties", {}).items():
        yield from schema_findings(below, f"{path}.{name}", in_a_rule=in_a_rule)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schema_findings(schema[key], f"{path}.{key}", in_a_rule=in_a_rule)
