"""The CustomResourceDefinitions, generated from the models."""

from typing import Any, Final

import yaml

from dgdr_retune.api._choices import CRD_OWNER, CRD_OWNER_LABEL
from dgdr_retune.api._declare import Presence
from dgdr_retune.api._kinds import Kind
from dgdr_retune.api._object import GROUP, VERSION
from dgdr_retune.api._rule import Rule, TransitionRule
from dgdr_retune.api._shape import Field, FreeObject, List, Object, Scalar, Shape

_FREE_VALUE: Final = {"nullable": True, "x-kubernetes-preserve-unknown-fields": True}
"""A value of a free object. It has no type, for only so does a server compare it whole when a rule asks whether the
object changed; it may be null, for else a server would drop nulls."""


def custom_resource_definition(kind: Kind) -> dict[str, Any]:
    """The manifest of a kind's CRD: v1beta2 alone, served and stored."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name, "labels": {CRD_OWNER_LABEL: CRD_OWNER}},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _root(kind.shape)},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [dict(column) for column in kind.columns],
                }
            ],
        },
    }


def crd_text(kind: Kind) -> str:
    """The manifest of a kind's CRD as YAML, the same bytes every time."""
    return yaml.safe_dump(custom_resource_definition(kind), sort_keys=False, width=120, allow_unicode=True)


def _root(shape: Object) -> dict[str, Any]:
    """The schema of a whole object: Kubernetes itself knows apiVersion, kind and metadata."""
    schema = structural_schema(shape)
    properties = schema["properties"]
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": properties["spec"],
        "status": properties["status"],
    }
    schema["required"] = ["spec"]
    return schema


def structural_schema(shape: Shape) -> dict[str, Any]:
    """The OpenAPI v3 schema of a shape, structural as apiextensions.k8s.io/v1 wants it."""
    match shape:
        case Scalar():
            schema = _scalar(shape)
        case FreeObject():
            schema = {"type": "object", "additionalProperties": dict(_FREE_VALUE)}
        case List():
            schema = _list(shape)
        case Object():
            schema = _object(shape)
    if shape.rules:
        schema["x-kubernetes-validations"] = [_validation(rule) for rule in shape.rules]
    return schema


def _scalar(shape: Scalar) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": shape.type}
    if shape.enum:
        schema["enum"] = list(shape.enum)
    bounds = {
        "minLength": shape.min_length,
        "maxLength": shape.max_length,
        "minimum": shape.minimum if shape.above is None else shape.above,
        "exclusiveMinimum": None if shape.above is None else True,
        "maximum": shape.maximum,
    }
    return schema | {name: bound for name, bound in bounds.items() if bound is not None}


def _list(shape: List) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": structural_schema(shape.item)}
    bounds = {"minItems": shape.min_length, "maxItems": shape.max_length}
    schema |= {name: bound for name, bound in bounds.items() if bound is not None}
    if shape.key is None:
        return schema | {"x-kubernetes-list-type": "atomic"}
    return schema | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [shape.key]}


def _object(shape: Object) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "description": shape.description}
    if shape.fields:
        schema["properties"] = {field.name: _field(field) for field in shape.fields}
    if required := [field.name for field in shape.fields if field.presence is Presence.REQUIRED]:
        schema["required"] = required
    if shape.open_ended:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema


def _field(field: Field) -> dict[str, Any]:
    described = {"description": field.description} if field.description else {}
    defaulted = {} if field.default is None else {"default": field.default}
    return structural_schema(field.shape) | described | defaulted


def _validation(rule: Rule | TransitionRule) -> dict[str, str]:
    where = {"fieldPath": f".{rule.field}"} if rule.field else {}
    return {"rule": rule.cel, "message": rule.message} | where
