"""The configuration reference, generated from the model."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dgdr_retune.planner._configuration import Configuration

_HEAD = """\
# Configuration

Generated from the model: `dgdr-retune reference > docs/configuration.md`. Do not edit.

One YAML file, read by `dgdr-retune retune`, `cut` and `plan`; `dgdr-retune init SEGMENTS` writes a commented one.
An unknown key is an error. Relative paths are relative to the file.
`dgdr-retune retune CONFIG --print-config` shows what is in force, defaults included.
"""

_BOUNDS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
}

Schema = Mapping[str, Any]


def configuration_reference() -> str:
    """Markdown: a table for each section, a row for each key; a section used twice stands where it is used first."""
    schema = Configuration.model_json_schema()
    return _HEAD + "".join(_section(schema, schema, "", set()))


def _section(root: Schema, section: Schema, path: str, told: set[str]) -> Iterator[str]:
    if section["title"] in told:
        return
    told.add(section["title"])
    title = f"`{path}`" if path else "The file"
    yield f"\n## {title}\n\n{_prose(section)}\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
    required = section.get("required", [])
    for key, field in section["properties"].items():
        default = "required" if key in required else _default(root, field)
        yield f"| `{key}` | {_type(root, field)} | {default} | {_prose(field) or _prose(_resolve(root, field))} |\n"
    for key, field in section["properties"].items():
        for below, suffix in _sections_below(root, field):
            yield from _section(root, below, f"{path}.{key}{suffix}".removeprefix("."), told)


def _sections_below(root: Schema, field: Schema) -> Iterator[tuple[Schema, str]]:
    resolved = _resolve(root, field)
    if "properties" in resolved:
        yield resolved, ""
    for item in resolved.get("prefixItems", [resolved["items"]] if isinstance(resolved.get("items"), dict) else []):
        for below, suffix in _sections_below(root, item):
            yield below, f"[]{suffix}"
    for choice in _choices(resolved):
        yield from _sections_below(root, choice)


def _resolve(root: Schema, field: Schema) -> Schema:
    reference = field.get("$ref")
    resolved: Schema = root["$defs"][reference.rpartition("/")[2]] if reference else field
    return resolved


def _type(root: Schema, field: Schema) -> str:
    resolved = _resolve(root, field)
    if choices := _choices(resolved):
        return " or ".join(_type(root, choice) for choice in choices)
    if "const" in resolved:
        return f"`{resolved['const']}`"
    if "enum" in resolved:
        return ", ".join(f"`{value}`" for value in resolved["enum"])
    if "properties" in resolved:
        keys = resolved["properties"]
        return f"`{{{next(iter(keys))}: …}}`" if len(keys) == 1 else "section"
    if resolved.get("type") == "array":
        items: Schema = resolved.get("items") or next(iter(resolved.get("prefixItems", [])), {})
        kind = f"list of {_type(root, items)}" if items else "list"
    else:
        kind = str(resolved.get("format") or resolved.get("type", "any"))
    bounds = ", ".join(words.format(resolved[name]) for name, words in _BOUNDS.items() if name in resolved)
    return f"{kind} ({bounds})" if bounds else kind


def _choices(resolved: Schema) -> list[Schema]:
    """The forms that a value may have; that it may be left out is said by its default."""
    every = resolved.get("anyOf") or resolved.get("oneOf") or []
    return [choice for choice in every if choice.get("type") != "null"]


def _default(root: Schema, field: Schema) -> str:
    value = field.get("default")
    if value is None:
        return "unset"
    if isinstance(value, dict) and "properties" in _resolve(root, field):
        return "as below"
    return f"`{json.dumps(value)}`"


def _prose(schema: Schema) -> str:
    """A docstring as one line of a table."""
    return " ".join(schema.get("description", "").split()).replace("|", "\\|")
