"""How a field of the API is declared.

A kind is a pydantic model: its types and bounds are pydantic's, its descriptions are the docstrings, and the rest is
said by the markers below, which stand in `Annotated`. Everything else (CRD schema, defaulting, validation, reference)
is derived from these declarations by `shape_of`.
"""

from enum import Enum
from typing import Annotated, Any, ClassVar, Final, Self

from attrs import frozen
from pydantic import BaseModel, ConfigDict, ValidationError

from dgdr_retune.api._json import JsonValueError, canonical
from dgdr_retune.api._rule import Rule, TransitionRule


class Presence(Enum):
    """Whether a field must be there; every field says which on purpose."""

    REQUIRED = "required"
    OPTIONAL = "optional"


REQUIRED: Final = Presence.REQUIRED
OPTIONAL: Final = Presence.OPTIONAL


class Content(Enum):
    """Whose business the content of an object is."""

    FREE = "free"
    """Not ours to judge: kept as it is, nulls included."""
    KUBERNETES = "kubernetes"
    """Kubernetes judges it without a schema of ours."""


FREE: Final = Content.FREE
KUBERNETES: Final = Content.KUBERNETES

FreeObject = Annotated[dict[str, Any], FREE]
"""An object with any content."""


class Defaulting(Enum):
    """Who fills a default in. Without this marker both the CRD and admission do."""

    CRD_ALONE = "crd alone"


CRD_ALONE: Final = Defaulting.CRD_ALONE


@frozen
class ListMap:
    """A list whose items are told apart by one field, as server-side apply merges it."""

    key: str


class InvalidObjectError(ValueError):
    """An object that the models cannot hold; `problems` are readable, with field paths."""

    reason: Final = "InvalidObject"

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class UnknownFieldsError(ValueError):
    """An object to be written has fields that the API does not know; `paths` names them."""

    reason: Final = "UnknownFields"

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(f"unknown fields: {', '.join(paths)}; an API server would drop or refuse them, remove them")
        self.paths = paths


def wire_name(name: str) -> str:
    """The wire's camelCase of a Python name: `max_rounds` is `maxRounds`, `e2e_ms` is `e2eMs`."""
    head, *tail = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in tail)


class ApiModel(BaseModel):
    """A part of a kind. Unknown fields are kept on reading, for the server may know more than we do.

    `rules` hold for the whole object; `open_ended` says that fields which are not declared belong to it (a deployment's
    specification inside a Candidate), not to a newer API.
    """

    model_config = ConfigDict(
        alias_generator=wire_name,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="allow",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule | TransitionRule, ...]] = ()
    open_ended: ClassVar[bool] = False

    @classmethod
    def read(cls, value: Any) -> Self:
        """The model of a JSON value from a server or a file.

        Errors: `InvalidObjectError` for a value that breaks a type or a bound; rules are for `validate`.
        """
        try:
            return cls.model_validate(canonical(value), by_name=False)
        except JsonValueError as error:
            raise InvalidObjectError((str(error),)) from error
        except ValidationError as error:
            problems = (f"{_path(each['loc'])}: {each['msg']}".removeprefix(": ") for each in error.errors())
            raise InvalidObjectError(tuple(problems)) from error

    def stored(self) -> dict[str, Any]:
        """The JSON object, fields that we do not know included: what was read comes back equal."""
        stored: dict[str, Any] = canonical(_plain(self))
        return stored

    def written(self) -> dict[str, Any]:
        """The JSON object for a create or an update.

        Errors: `UnknownFieldsError` where a field is not of this API.
        """
        if unknown := tuple(_unknown(self, "")):
            raise UnknownFieldsError(unknown)
        return self.stored()


def _unknown(model: ApiModel, path: str) -> list[str]:
    found = [] if model.open_ended else [f"{path}{name}" for name in model.model_extra or {}]
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(item, ApiModel):
                position = f"[{index}]" if isinstance(value, list) else ""
                found += _unknown(item, f"{path}{field.alias}{position}.")
    return found


def _plain(value: Any) -> Any:
    """A model as plain values: what was set, what must be there, and what nobody knows."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, ApiModel):
        return value
    plain = dict(value.model_extra or {})
    for name, field in type(value).model_fields.items():
        item = getattr(value, name)
        if REQUIRED in field.metadata or (name in value.model_fields_set and item is not None):
            plain[field.alias or name] = _plain(item)
    return plain


def _path(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")
