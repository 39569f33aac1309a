"""Which values of an update an API server takes for unchanged, so that a fault in them is no reason to refuse it.

Source: Kubernetes' CRD validation ratcheting (KEP-4008) as kube-apiserver 1.36 does it; the contract table holds it.
"""

from typing import Any, Final

from dgdr_retune.api._json import same
from dgdr_retune.api._shape import FreeObject, List, Object, Shape

Json = Any

ABSENT: Final = object()
"""There is no stored value to compare with."""


def stored_field(old: Json, name: str) -> Json:
    """The stored value that a field of the new object is compared with."""
    return old.get(name, ABSENT) if isinstance(old, dict) else ABSENT


def stored_item(shape: List, item: Json, old: Json) -> Json:
    """The stored value that an item of the new list is compared with: the one of its key, or none in a plain list."""
    key = item.get(shape.key) if isinstance(item, dict) and shape.key is not None else None
    if not isinstance(key, str | int | float) or not isinstance(old, list):
        return ABSENT
    return next((each for each in old if isinstance(each, dict) and same(each.get(shape.key), key)), ABSENT)


def unchanged(shape: Shape | None, value: Json, old: Json) -> bool:
    """Whether a server takes the value for what is stored.

    It follows its schema down. What the schema does not describe it cannot follow: an object of which it does not know
    a field always counts as changed, and so do all objects around it.
    """
    if isinstance(value, dict) and isinstance(old, dict):
        same_names = value.keys() == old.keys()
        return same_names and all(_field_unchanged(shape, name, item, old[name]) for name, item in value.items())
    if isinstance(shape, List) and shape.key is not None and isinstance(value, list) and isinstance(old, list):
        pairs = [(item, stored_item(shape, item, old)) for item in value]
        return len(value) == len(old) and all(unchanged(shape.item, item, before) for item, before in pairs)
    return old is not ABSENT and same(value, old)


def _field_unchanged(shape: Shape | None, name: str, item: Json, old: Json) -> bool:
    match shape:
        case Object() if name in shape.by_name:
            return unchanged(shape.by_name[name].shape, item, old)
        case FreeObject():
            return unchanged(None, item, old)
    return False


def lacks_keys(shape: Shape, value: Json) -> bool:
    """Whether a list of items that are told apart by a key holds two of one key, or one that is no object."""
    match shape, value:
        case Object(), dict():
            return any(lacks_keys(each.shape, value[each.name]) for each in shape.fields if each.name in value)
        case List(key=str()), list():
            if not all(isinstance(item, dict | None) for item in value):
                return True
            keys = [ABSENT if item is None else item.get(shape.key) for item in value]
            return any(key in keys[:index] for index, key in enumerate(keys))
        case List(), list():
            return any(lacks_keys(shape.item, item) for item in value)
    return False
