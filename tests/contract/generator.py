"""Objects near the bounds of the definitions, half of them meant to be accepted."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.contract.row import Operation, Row
from tests.contract.table import ROWS

from dgdr_retune.api import KINDS, Kind, custom_resource_definition

Json = Any
Path = tuple[str | int, ...]

ACCEPTED_OBJECTS = {
    kind.name: [
        row.object
        for row in ROWS
        if row.kind == kind and not (row.refused or row.validate_alone or "levels deep" in row.warned)
    ]
    for kind in KINDS
}
SCHEMAS = {
    kind.name: custom_resource_definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for kind in KINDS
}
WORDS = ("a", "a-b", "a.b", "A", "-a", "a/b", "a//b", "../a", "/a", "a/", ".", "a\0b", "a\n", "é", "😀", " ", "a" * 64)
TEXTS = (*WORDS, "120s", "0s", "1h30m", "1.5h", "60", "m", "1e3s", "2026-10-01T12:00:00Z", "2026-10-01", "TTFT", "vllm")
PARTS = ("spec", "status")
OPERATIONS: tuple[Operation, ...] = ("update", "update status")
MUTATIONS = (1, 1, 1, 2, 3)


def near_the_bounds(random: Random, kind: Kind, part: str = "spec") -> Json:
    """An object of the kind that the table knows to be accepted, changed in a few places of its spec or status."""
    made = copy.deepcopy(random.choice(ACCEPTED_OBJECTS[kind.name]))
    gently = random.random() < 0.6
    for _ in range(random.choice(MUTATIONS)):
        _change(random, made, SCHEMAS[kind.name], part, gently=gently)
    return made


def updates(count: int, seed: int) -> list[Row]:
    """Updates of stored objects, valid or not, that change another few places of them."""
    random = Random(seed)  # noqa: S311 - a test that can be run again
    rows = []
    for number in range(count):
        kind, operation = random.choice(KINDS), random.choice(OPERATIONS)
        old = near_the_bounds(random, kind, random.choice(PARTS))
        new = copy.deepcopy(old)
        for _ in range(random.choice((0, 1, 1, 2))):
            part = "status" if operation == "update status" else random.choice(PARTS)
            _change(random, new, SCHEMAS[kind.name], part, gently=random.random() < 0.7)
        row_id = f"generated {operation} {number} of {kind.short}"
        rows.append(Row(id=row_id, kind=kind, operation=operation, object=new, old=old, loose=True))
    return rows


def _change(random: Random, made: Json, schema: Json, part: str, *, gently: bool) -> None:
    places = [path for path in _places(made, schema, ()) if path[0] == part and len(path) > 1]
    if not places:
        return
    path = random.choice(places)
    parent, below = made, schema
    for step in path[:-1]:
        parent, below = parent[step], _below(below, step)
    last = path[-1]
    node = _below(below, last)
    removable = isinstance(parent, dict) and last in parent and (not gently or last not in below.get("required", ()))
    if removable and random.random() < 0.25:
        del parent[last]
    elif not gently and isinstance(parent, dict) and random.random() < 0.1:
        parent["unknown"] = 1
    else:
        value = random.choice(_inside(node) if gently else [*_inside(node), *_outside(node)])
        if isinstance(parent, dict):
            parent[last] = copy.deepcopy(value)
        elif isinstance(last, int):
            parent[last : last + 1] = [copy.deepcopy(value)]


def _places(value: Json, schema: Json, path: Path) -> Iterator[Path]:
    """Where a field is, or could be."""
    if isinstance(value, dict):
        for name, below in schema.get("properties", {}).items():
            if name != "metadata":
                yield (*path, name)
                if name in value:
                    yield from _places(value[name], below, (*path, name))
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield (*path, index)
            yield from _places(item, schema["items"], (*path, index))


def _below(schema: Json, step: str | int) -> Json:
    return schema["items"] if isinstance(step, int) else schema["properties"][step]


def _inside(node: Json) -> list[Json]:
    """Values that the schema of a field lets pass; its rules may not."""
    match node.get("type"):
        case "integer" | "number":
            return _numbers_inside(node)
        case "string" if "enum" in node:
            return list(node["enum"])
        case "string":
            least, most = node.get("minLength", 0), node.get("maxLength", 100)
            return ["a" * max(least, 1), "a" * most, *(text for text in TEXTS if least <= len(text) <= most)]
        case "array":
            least, most = node.get("minItems", 0), min(node.get("maxItems", 3), 4)
            items = _inside(node["items"])
            return [(items * size)[:size] for size in range(least, most + 1)]
        case "object" if "properties" in node:
            whole = {name: _inside(below)[0] for name, below in node["properties"].items()}
            least = {name: whole[name] for name in node.get("required", ())}
            return [least, whole, *(least | {name: value} for name, value in whole.items())]
    free = [None, 1, 1.0, "a", [1, {"a": None}], {"a": {"b": 1}}]
    return [{}, {"a": "b"}, {"c": "1"}] if node.get("type") == "object" else free


def _numbers_inside(node: Json) -> list[Json]:
    least, most = node["minimum"], node["maximum"]
    if node.get("exclusiveMinimum"):
        return [least + 1e-9, least + 0.5, least + 1, most - 1, most]
    return [least, least + 1, most - 1, most]


def _outside(node: Json) -> list[Json]:
    """Values beyond a bound, or of another type."""
    wrong: list[Json] = [None, True, "x", 1.5, 2**63, ["x"], {"x": 1}]
    match node.get("type"):
        case "integer" | "number":
            return [*wrong, node["minimum"] - 1, node["maximum"] + 1, float(node["minimum"] + 1), -0.5, 0]
        case "string":
            return [*wrong, "", *TEXTS, "a" * (node.get("maxLength", 100) + 1), 1]
        case "array":
            items = _inside(node["items"])
            return [*wrong, [], [items[0], items[0]], (items * 20)[: min(node.get("maxItems", 3), 30) + 1]]
    return [*wrong, {}, "", [], 1]


def shown(thing: Json) -> str:
    """An object in a failure's message."""
    return json.dumps(thing, ensure_ascii=True)
