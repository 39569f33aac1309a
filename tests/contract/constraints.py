"""Everything that a CRD's schema states about an object, as one name a statement: `path:keyword` or `path:message`."""

from collections.abc import Iterator
from typing import Any

Json = Any

KEYWORDS = (
    "enum",
    "minLength",
    "maxLength",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "minItems",
    "maxItems",
    "default",
)


def constraints(definition: Json) -> set[str]:
    """The names of a CustomResourceDefinition's statements on `spec` and `status`."""
    (version,) = definition["spec"]["versions"]
    return set(_of(version["schema"]["openAPIV3Schema"], ""))


def _of(schema: Json, path: str) -> Iterator[str]:
    yield from _here(schema, path)
    for name, below in schema.get("properties", {}).items():
        if path or name in ("spec", "status"):
            yield from _of(below, _below(path, name))
    if "items" in schema:
        yield from _of(schema["items"], f"{path}[]")


def _here(schema: Json, path: str) -> Iterator[str]:
    if path and "type" in schema:
        yield f"{path}:type"
    for keyword in KEYWORDS:
        exclusive = keyword == "minimum" and "exclusiveMinimum" in schema
        if keyword in schema and not exclusive:
            yield f"{path}:{keyword}"
    if schema.get("x-kubernetes-list-type") == "map":
        yield f"{path}:listMap"
    for rule in schema.get("x-kubernetes-validations", ()):
        yield f"{path}{rule.get('fieldPath', '')}:{rule['message']}".lstrip(".")
    for name in schema.get("required", ()):
        yield f"{_below(path, name)}:required"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
