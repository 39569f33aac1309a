"""Writes docs/api.md, the reference of the API, from the models.

    python tools/api_reference.py

A test fails when the file is not what this writes.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from dgdr_retune.api import API_VERSION, KINDS, CandidateReason, Kind, RequestReason, RunReason
from dgdr_retune.api._declare import Presence
from dgdr_retune.api._shape import Field, FreeObject, List, Object, Scalar, Shape

PAGE = Path(__file__).parents[1] / "docs" / "api.md"

INTRODUCTION = f"""# API reference: `{API_VERSION}`

<!-- Written by tools/api_reference.py from the models. Change those, then run it. -->

Three kinds, all of them namespaced and with a `status` subresource. What is stated here is what the
CustomResourceDefinitions in `deploy/crds` state, and what `dgdr-retune validate FILE` checks without a cluster. Beside
it that command checks the metadata as an API server does (names, labels, annotations, finalizers, owners, types).

- A null means that the field is absent, except inside a free object, where it is kept.
- A *free* object holds anything; it is stored and handed on as it is.
- Whole numbers may be written with a fraction of zero (2.0); a server returns them without it (2), and that is how they
  are best written: in a field that a rule reads (`concurrency`), it refuses the fraction.
- An update is refused for what it changes, not for faults that were stored before the rule existed and that it leaves
  alone. An absent required field is the exception: it is a fault as soon as the object around it changes.
"""

REASONS = {
    "DynamoGraphDeploymentRequest": ("Accepted", RequestReason),
    "DynamoGraphDeploymentRun": ("Completed", RunReason),
    "DynamoGraphDeploymentCandidate": ("Evaluated", CandidateReason),
}


def reference() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for kind in KINDS:
        parts += _kind(kind)
    return "\n".join(parts)


def _kind(kind: Kind) -> Iterator[str]:
    yield f"## {kind.name}\n\nShort name `{kind.short}`. {kind.shape.description}\n"
    rules = [f"- {rule.message}" for rule in kind.shape.rules]
    if rules:
        yield "\n".join(rules) + "\n"
    for part in ("spec", "status"):
        shape = kind.shape.by_name[part].shape
        if isinstance(shape, Object):
            yield f"### {kind.name}: `{part}`\n\n{shape.description}\n"
            yield "\n".join(_table(shape)) + "\n"
    condition, reasons = REASONS[kind.name]
    yield f"### {kind.name}: reasons of `{condition}`\n"
    yield "\n".join(_reasons(reasons)) + "\n"


def _table(shape: Object) -> Iterator[str]:
    yield "| field | type | required | default | bounds and rules | meaning | example |"
    yield "|---|---|---|---|---|---|---|"
    yield from _rows(shape, "", shape)


def _rows(shape: Object, prefix: str, root: Object) -> Iterator[str]:
    for field in shape.fields:
        path = f"{prefix}{field.name}"
        above = tuple(rule.message for rule in root.rules if rule.field == path)
        yield _row(field, path, above)
        inner = field.shape.item if isinstance(field.shape, List) else field.shape
        if isinstance(inner, Object):
            yield from _rows(inner, f"{path}{'[]' if isinstance(field.shape, List) else ''}.", root)


def _row(field: Field, path: str, above: tuple[str, ...]) -> str:
    cells = (
        f"`{path}`",
        _type(field.shape),
        "yes" if field.presence is Presence.REQUIRED else "no",
        "" if field.default is None else f"`{json.dumps(field.default)}`",
        "; ".join((*_bounds(field.shape), *above)),
        field.description,
        "" if field.example is None else f"`{json.dumps(field.example, ensure_ascii=False)}`",
    )
    return f"| {' | '.join(map(_escaped, cells))} |"


def _type(shape: Shape) -> str:
    match shape:
        case Scalar():
            return ", ".join(f"`{value}`" for value in shape.enum) or shape.type
        case List():
            return f"list of {_type(shape.item)}"
        case FreeObject():
            return "free object"
    return "object"


def _bounds(shape: Shape) -> Iterator[str]:
    match shape:
        case Scalar():
            yield from _scalar_bounds(shape)
        case List():
            yield from _span("items", shape.min_length, shape.max_length)
            if shape.key is not None:
                yield f"one item for each `{shape.key}`"
            yield from (f"each: {bound}" for bound in _bounds(shape.item) if not isinstance(shape.item, Object))
    yield from (rule.message for rule in shape.rules if not rule.field)


def _scalar_bounds(shape: Scalar) -> Iterator[str]:
    yield from _span("characters", shape.min_length, shape.max_length)
    if shape.above is not None:
        yield f"above {shape.above}, up to {shape.maximum}"
    elif shape.minimum is not None:
        yield f"{shape.minimum} to {shape.maximum}"


def _span(what: str, least: int | None, most: int | None) -> Iterator[str]:
    if most is not None:
        yield f"{least or 0} to {most} {what}" if least else f"at most {most} {what}"


def _reasons(reasons: type[RequestReason | RunReason | CandidateReason]) -> Iterator[str]:
    yield "| reason | status and meaning |"
    yield "|---|---|"
    for reason in reasons:
        yield f"| `{reason.value}` | {reason.meaning} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
