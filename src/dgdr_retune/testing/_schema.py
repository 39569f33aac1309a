"""The structural schema of a CustomResourceDefinition, read once, and what a server does with it before judging.

Only keywords that are understood are accepted: a schema with another one is refused when it is installed, so that
nothing passes here for want of a check.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from attrs import field, frozen

from dgdr_retune.testing._json import Json, copied

METADATA: Final = frozenset({"apiVersion", "kind", "metadata"})
STRING_FORMATS: Final = frozenset({"", "date-time"})
NUMBER_FORMATS: Final = frozenset({"", "int32", "int64", "double"})

_KNOWN: Final = frozenset(
    {
        "additionalProperties",
        "default",
        "description",
        "enum",
        "example",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)
_KNOWN_OF_A_RULE: Final = frozenset({"fieldPath", "message", "reason", "rule"})


class UnsupportedSchemaError(ValueError):
    """A schema with something that is not simulated; ``path`` says where."""

    reason: Final = "UnsupportedSchema"

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}; the simulated API server cannot judge it, ask a real one")
        self.path = path


@frozen
class Rule:
    """One entry of ``x-kubernetes-validations``.

    Attributes:
        expression: in CEL.
        message: what a user reads.
        field_path: below the node, the field that the error names, such as ``.spec``; empty for the node.
        reason: the kind of fault.
    """

    expression: str
    message: str
    field_path: str = ""
    reason: str = "FieldValueInvalid"

    @property
    def is_transition(self) -> bool:
        """Whether it compares with the stored value, and so is asked on updates only and never ratcheted."""
        return "oldSelf" in self.expression


@frozen
class Node:
    """One schema with what is below it. Bounds that are absent are None."""

    type: str
    nullable: bool = False
    int_or_string: bool = False
    preserves_unknown: bool = False
    properties: Mapping[str, "Node"] = field(factory=dict)
    additional: "Node | None" = None
    items: "Node | None" = None
    required: tuple[str, ...] = ()
    default: Json = None
    enum: tuple[Json, ...] = ()
    format: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()

    def child(self, key: str) -> "Node | None":
        """The schema of a key of an object, if it has one."""
        return self.properties.get(key, self.additional)


ANYTHING: Final = Node(type="object", preserves_unknown=True)
"""The schema of a resource without one: everything is kept, nothing is judged."""


def read_schema(document: Mapping[str, Json], path: str = "") -> Node:
    """The tree of an ``openAPIV3Schema``.

    Raises:
        UnsupportedSchemaError: something in it is not simulated.
    """
    if unknown := sorted(document.keys() - _KNOWN):
        raise UnsupportedSchemaError(path or "schema", f"`{unknown[0]}` is not supported")
    kind = document.get("type", "")
    known_formats = NUMBER_FORMATS if kind in ("integer", "number") else STRING_FORMATS
    if document.get("format", "") not in known_formats:
        raise UnsupportedSchemaError(path, f"format `{document['format']}` is not supported")
    additional = document.get("additionalProperties")
    if isinstance(additional, bool):
        raise UnsupportedSchemaError(path, "`additionalProperties` must be a schema")
    items = document.get("items")
    return Node(
        type=kind,
        nullable=document.get("nullable", False),
        int_or_string=document.get("x-kubernetes-int-or-string", False),
        preserves_unknown=document.get("x-kubernetes-preserve-unknown-fields", False),
        properties={
            name: read_schema(below, f"{path}.{name}".lstrip("."))
            for name, below in document.get("properties", {}).items()
        },
        additional=None if additional is None else read_schema(additional, f"{path}[*]"),
        items=None if items is None else read_schema(items, f"{path}[*]"),
        required=tuple(document.get("required", ())),
        default=document.get("default"),
        enum=tuple(document.get("enum", ())),
        format=document.get("format", ""),
        minimum=document.get("minimum"),
        maximum=document.get("maximum"),
        exclusive_minimum=document.get("exclusiveMinimum", False),
        exclusive_maximum=document.get("exclusiveMaximum", False),
        min_length=document.get("minLength"),
        max_length=document.get("maxLength"),
        pattern=document.get("pattern", ""),
        min_items=document.get("minItems"),
        max_items=document.get("maxItems"),
        min_properties=document.get("minProperties"),
        max_properties=document.get("maxProperties"),
        list_type=document.get("x-kubernetes-list-type", "atomic"),
        list_keys=tuple(document.get("x-kubernetes-list-map-keys", ())),
        rules=tuple(_read_rule(rule, path) for rule in document.get("x-kubernetes-validations", ())),
    )


def _read_rule(document: Mapping[str, Json], path: str) -> Rule:
    if unknown := sorted(document.keys() - _KNOWN_OF_A_RULE):
        raise UnsupportedSchemaError(path, f"`{unknown[0]}` of a validation rule is not supported")
    message = document.get("message") or f"failed rule: {document['rule']}"
    return Rule(
        expression=document["rule"].strip(),
        message=message.strip(),
        field_path=document.get("fieldPath", ""),
        reason=document.get("reason", "FieldValueInvalid"),
    )


def fill_defaults(value: Json, node: Node) -> None:
    """Add, in place, what is absent and has a default; a null counts as absent unless the schema allows null."""
    match value:
        case dict():
            for name, below in node.properties.items():
                if below.default is not None and _is_absent(value, name, below):
                    value[name] = copied(below.default)
            for name, item in value.items():
                if (child := node.child(name)) is not None:
                    fill_defaults(item, child)
        case list() if node.items is not None:
            for item in value:
                fill_defaults(item, node.items)


def _is_absent(value: dict[str, Json], name: str, node: Node) -> bool:
    return name not in value or (value[name] is None and not node.nullable)


def drop_nulls(value: Json, node: Node) -> None:
    """Remove, in place, the fields that are null where the schema does not allow null."""
    match value:
        case dict():
            for name, item in list(value.items()):
                child = node.child(name)
                if child is None:
                    continue
                if item is None and not child.nullable:
                    del value[name]
                else:
                    drop_nulls(item, child)
        case list() if node.items is not None:
            for item in value:
                drop_nulls(item, node.items)


def prune(value: dict[str, Json], root: Node) -> list[str]:
    """Remove, in place, the fields that the schema does not know.

    Returns:
        Their paths, sorted.
    """
    return sorted(_pruned(value, root, "", is_root=True))


def _pruned(value: Json, node: Node | None, path: str, *, is_root: bool = False) -> Iterator[str]:
    match value:
        case dict():
            for name, item in list(value.items()):
                if is_root and name in METADATA:
                    continue
                child = node.child(name) if node is not None else None
                if child is not None:
                    yield from _pruned(item, child, f"{path}{name}.")
                elif node is None or not node.preserves_unknown:
                    del value[name]
                    yield f"{path}{name}"
        case list() if node is None or node.items is not None or not node.preserves_unknown:
            for index, item in enumerate(value):
                yield from _pruned(item, node.items if node is not None else None, f"{path[:-1]}[{index}].")
