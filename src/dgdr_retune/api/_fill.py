"""What an API server does to an object before it validates it: drop nulls and unknown fields, fill in defaults."""

from typing import Any

from attrs import define, field

from dgdr_retune.api._declare import Presence
from dgdr_retune.api._shape import FreeObject, List, Object, Shape

Json = Any


@define
class Pruned:
    """A value without the nulls and the unknown fields of its shape, and the paths of the latter."""

    value: Json
    unknown: list[str] = field(factory=list)


def pruned(shape: Shape | None, value: Json, path: str = "") -> Pruned:
    """The value as a server keeps it; without a shape nothing of it is known.

    A null of a declared field means that the field is absent; a null in a free value is kept. Values of a wrong type
    are kept, for validation to refuse them, but every key in them is unknown.
    """
    match shape, value:
        case Object(), dict():
            result = Pruned({})
            for name, item in value.items():
                below = f"{path}.{name}" if path else name
                if name in shape.by_name:
                    if item is not None:
                        inner = pruned(shape.by_name[name].shape, item, below)
                        result.value[name] = inner.value
                        result.unknown += inner.unknown
                elif shape.open_ended:
                    result.value[name] = item
                else:
                    result.unknown.append(below)
            return result
        case ((FreeObject() | Object(open_ended=True)), _):
            return Pruned(value)
        case _, dict():
            return Pruned({}, [f"{path}.{name}" for name in value])
        case _, list():
            below = shape.item if isinstance(shape, List) else None
            items = [pruned(below, item, f"{path}[{index}]") for index, item in enumerate(value)]
            return Pruned([each.value for each in items], [name for each in items for name in each.unknown])
    return Pruned(value)


def filled(shape: Shape, value: Json, *, by_crd: bool) -> Json:
    """A copy of the value with its defaults; fields that are not declared stay.

    Args:
        shape: of the value.
        value: the value.
        by_crd: with the defaults that a CRD alone gives.
    """
    match shape, value:
        case Object(), dict():
            defaults = {
                each.name: each.default
                for each in shape.fields
                if each.presence is Presence.OPTIONAL
                and each.default is not None
                and value.get(each.name) is None
                and (by_crd or not each.crd_alone)
            }
            return {
                name: filled(shape.by_name[name].shape, item, by_crd=by_crd) if name in shape.by_name else item
                for name, item in (value | defaults).items()
            }
        case List(), list():
            return [filled(shape.item, item, by_crd=by_crd) for item in value]
    return value
