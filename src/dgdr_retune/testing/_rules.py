"""The walk over an object that asks the rules of its schema, with kube-apiserver's transitions and ratcheting."""

from collections.abc import Iterator
from typing import cast

from attrs import evolve, frozen

from dgdr_retune.testing._cel import CelError
from dgdr_retune.testing._errors import Cause, FieldReason
from dgdr_retune.testing._go import shown
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._schema import METADATA, Node, Rule
from dgdr_retune.testing._typed import holds, typed
from dgdr_retune.testing._validation import Correlation, stored_item

_NAMES = Node(
    type="object", properties={"name": Node(type="string"), "generateName": Node(type="string")}
)  # what rules at the root may see of the metadata


@frozen
class _Place:
    """A node on the walk.

    Attributes:
        path: of the field.
        node: its schema.
        nearest: the last correlation above or here, None on a create.
        is_root: whether this is the object itself.
    """

    path: str
    node: Node
    correlation: Correlation | None
    nearest: Correlation | None
    is_root: bool = False

    def unchanged(self) -> bool:
        """Whether a fault here is forgiven."""
        judged = self.correlation if self.correlation is not None else self.nearest
        return judged is not None and judged.equal()

    def key(self, name: str, node: Node) -> "_Place":
        """The place of a field."""
        path = f"{self.path}.{name}".lstrip(".") if name in self.node.properties else f"{self.path}[{name}]"
        if self.correlation is None:
            return evolve(self, path=path, node=node, is_root=False)
        return _Place(path, node, self.correlation.key(name), self.correlation)

    def index(self, index: int, node: Node) -> "_Place":
        """The place of an item."""
        path = f"{self.path}[{index}]"
        if self.correlation is None:
            return evolve(self, path=path, node=node, is_root=False)
        return _Place(path, node, self.correlation.index(index), self.correlation)


def rule_faults(new: Json, old: Json, root: Node) -> list[Cause]:
    """The rules of a custom resource that do not hold.

    Args:
        new: the whole object.
        old: the stored one, None on a create.
        root: its schema.
    """
    correlation = Correlation(new, old, root) if old is not None else None
    return list(_walk(new, old, _Place("", root, correlation, None, is_root=True)))


def _walk(new: Json, old: Json, place: _Place) -> Iterator[Cause]:
    node = place.node
    if new is None:
        return
    if node.rules:
        yield from _asked(new, old, place)
    match new:
        case dict():
            stored = old if isinstance(old, dict) else {}
            for name, item in new.items():
                if place.is_root and name in METADATA:
                    continue
                if (child := node.child(name)) is not None:
                    yield from _walk(item, stored.get(name), place.key(name, child))
        case list() if node.items is not None:
            for index, item in enumerate(new):
                yield from _walk(item, stored_item(item, old, node), place.index(index, node.items))


def _asked(new: Json, old: Json, place: _Place) -> Iterator[Cause]:
    alone = {"self": _seen(new, place)}
    beside_old = _pair(new, old, place) if any(rule.is_transition for rule in place.node.rules) else alone
    for rule in place.node.rules:
        if rule.is_transition and old is None:
            continue
        try:
            if holds(rule.expression, beside_old if rule.is_transition else alone):
                continue
        except CelError as error:
            yield Cause(
                place.path,
                "FieldValueInvalid",
                f"Invalid value: {shown(place.node.type)}: {error} evaluating rule: {rule.message}",
            )
            continue
        if rule.is_transition or not place.unchanged():
            yield _fault(new, rule, place)


def _pair(new: Json, old: Json, place: _Place) -> dict[str, Json]:
    if old is None:
        return {}
    left, right = _compared(new, old, place.node)
    return {"self": _seen(left, place), "oldSelf": _seen(right, place)}


def _compared(new: Json, old: Json, node: Node) -> tuple[Json, Json]:
    """The two values as `self == oldSelf && oldSelf == self` sees them.

    Of objects with as many keys, it overlooks those that one side has alone and the schema does not declare.
    """
    if not (node.properties and isinstance(new, dict) and isinstance(old, dict)):
        return new, old
    if len(new) == len(old):
        overlooked = {name for name in new.keys() ^ old.keys() if node.child(name) is None}
        new = {name: item for name, item in new.items() if name not in overlooked}
        old = {name: item for name, item in old.items() if name not in overlooked}
    for name in [name for name in new if name in old]:
        if (child := node.child(name)) is not None:
            left, right = _compared(new[name], old[name], child)
            new, old = new | {name: left}, old | {name: right}
    return new, old


def _seen(value: Json, place: _Place) -> Json:
    if not place.is_root:
        return typed(value, place.node)
    root = typed({name: item for name, item in value.items() if name not in METADATA}, place.node)
    metadata = {name: item for name, item in value.get("metadata", {}).items() if name in _NAMES.properties}
    return {
        **root,
        "apiVersion": value.get("apiVersion", ""),
        "kind": value.get("kind", ""),
        "metadata": typed(metadata, _NAMES),
    }


def _fault(value: Json, rule: Rule, place: _Place) -> Cause:
    path = f"{place.path}{rule.field_path}".lstrip(".")
    given = "" if place.node.type in ("object", "array") else f": {shown(value)}"
    reason = cast("FieldReason", rule.reason)
    match reason:
        case "FieldValueRequired":
            return Cause(path, reason, f"Required value: {rule.message}")
        case "FieldValueForbidden":
            return Cause(path, reason, f"Forbidden: {rule.message}")
        case "FieldValueDuplicate":
            return Cause(path, reason, f"Duplicate value{given}")
    return Cause(path, "FieldValueInvalid", f"Invalid value{given}: {rule.message}")
