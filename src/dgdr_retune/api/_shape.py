"""The declarations of a model as one tree of plain values, which everything derived from the models walks."""

import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as bounds
from attrs import evolve, field, frozen
from pydantic.fields import FieldInfo

from dgdr_retune.api._declare import ApiModel, Content, Defaulting, ListMap, Presence
from dgdr_retune.api._rule import Rule, TransitionRule

Rules = tuple[Rule | TransitionRule, ...]


@frozen
class Scalar:
    """A string, integer or number with its bounds. `above` is exclusive, the other bounds are inclusive."""

    type: Literal["string", "integer", "number"]
    enum: tuple[str, ...] = ()
    min_length: int | None = None
    max_length: int | None = None
    minimum: int | None = None
    above: int | None = None
    maximum: int | None = None
    rules: Rules = ()


@frozen
class FreeObject:
    """An object with any content."""

    rules: Rules = ()


@frozen
class List:
    """A list; with `key` its items are told apart by that field, else it is replaced as a whole."""

    item: "Shape"
    min_length: int | None = None
    max_length: int | None = None
    key: str | None = None
    rules: Rules = ()


@frozen
class Field:
    """A field of an object. `default` is what is filled in, None for nothing; with `crd_alone` not by admission."""

    name: str
    shape: "Shape"
    presence: Presence | None
    default: Any
    crd_alone: bool
    description: str
    example: Any


@frozen
class Object:
    """An object with declared fields, in the order of their declaration."""

    fields: tuple[Field, ...]
    description: str
    open_ended: bool
    rules: Rules
    by_name: dict[str, Field] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "by_name", {each.name: each for each in self.fields})


Shape = Scalar | FreeObject | List | Object

_SCALARS: dict[type, Literal["string", "integer", "number"]] = {str: "string", int: "integer", float: "number"}


@cache
def shape_of(model: type[ApiModel]) -> Object:
    """The tree of a model's declarations."""
    return Object(
        fields=tuple(_field(info) for info in model.model_fields.values()),
        description=" ".join((model.__doc__ or "").split()),
        open_ended=model.open_ended,
        rules=model.rules,
    )


def _field(info: FieldInfo) -> Field:
    presence = next((each for each in info.metadata if isinstance(each, Presence)), None)
    return Field(
        name=info.alias or "",
        shape=_shape(info.annotation, info.metadata),
        presence=presence,
        default=_default(info),
        crd_alone=Defaulting.CRD_ALONE in info.metadata,
        description=" ".join((info.description or "").split()),
        example=info.examples[0] if info.examples else None,
    )


def _default(info: FieldInfo) -> Any:
    if info.is_required():
        return None
    return info.default.stored() if isinstance(info.default, ApiModel) else info.default


def _shape(annotation: Any, metadata: list[Any]) -> Shape:
    """The shape of an annotation with the metadata that stands beside it."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        flat = [each for extra in more for each in (extra.metadata if isinstance(extra, FieldInfo) else [extra])]
        return _shape(inner, [*metadata, *flat])
    if origin in (Union, types.UnionType):
        (inner,) = [each for each in get_args(annotation) if each is not type(None)]
        return _shape(inner, metadata)
    bare = _undescribed(metadata) or _typed(annotation)
    return evolve(
        bare, **_bounds(metadata), rules=(*bare.rules, *(each for each in metadata if isinstance(each, Rule)))
    )


def _undescribed(metadata: list[Any]) -> Shape | None:
    if Content.FREE in metadata:
        return FreeObject()
    if Content.KUBERNETES in metadata:
        return Object(fields=(), description="", open_ended=True, rules=())
    return None


def _typed(annotation: Any) -> Shape:
    origin = get_origin(annotation)
    if origin is Literal:
        return Scalar(type="string", enum=get_args(annotation))
    if origin is list:
        return List(item=_shape(get_args(annotation)[0], []))
    if issubclass(annotation, ApiModel):
        return shape_of(annotation)
    return Scalar(type=_SCALARS[annotation])


def _bounds(metadata: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in metadata:
        match each:
            case bounds.MinLen():
                found["min_length"] = each.min_length
            case bounds.MaxLen():
                found["max_length"] = each.max_length
            case bounds.Ge():
                found["minimum"] = each.ge
            case bounds.Gt():
                found["above"] = each.gt
            case bounds.Le():
                found["maximum"] = each.le
            case ListMap():
                found["key"] = each.key
    return found
