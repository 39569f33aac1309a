"""The metadata of an object: its form, what the server writes into it, and what it refuses there."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from dgdr_retune.testing._errors import Cause, bad_request
from dgdr_retune.testing._go import shown
from dgdr_retune.testing._json import Json

OWNED_BY_THE_SERVER: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
MAX_ANNOTATIONS_BYTES: Final = 256 * 1024

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_PART: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_MAX_SUBDOMAIN: Final = 253
_MAX_PART: Final = 63

_NAMES: Final = f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_PART}')"
_CHARACTERS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_PART_TEXT: Final = f"name part {_CHARACTERS} {_NAMES}"
_PREFIXED: Final = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_KEY_TEXT: Final = f"a valid label key {_CHARACTERS} {_NAMES} {_PREFIXED}"
_VALUE_TEXT: Final = (
    f"a valid label must be an empty string or {_CHARACTERS.removeprefix('must ')} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_PART})?')"
)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_number(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text_by_text(value: Json) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_list_of_text(value: Json) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_list_of_objects(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


_FORMS: Final[Mapping[str, Callable[[Json], bool]]] = {
    "annotations": _is_text_by_text,
    "creationTimestamp": _is_text,
    "deletionGracePeriodSeconds": _is_number,
    "deletionTimestamp": _is_text,
    "finalizers": _is_list_of_text,
    "generateName": _is_text,
    "generation": _is_number,
    "labels": _is_text_by_text,
    "managedFields": _is_list_of_objects,
    "name": _is_text,
    "namespace": _is_text,
    "ownerReferences": _is_list_of_objects,
    "resourceVersion": _is_text,
    "selfLink": _is_text,
    "uid": _is_text,
}


def formed(metadata: Json, kind: str) -> tuple[dict[str, Json], list[str]]:
    """A copy of the metadata without what is null or unknown, and the paths of what is unknown.

    Raises:
        ApiError: 400, a field is of a wrong type.
    """
    if not isinstance(metadata, dict):
        raise bad_request(f"the object cannot be handled as a {kind}: metadata is no object")
    known = {name: value for name, value in metadata.items() if name in _FORMS and value is not None}
    for name, value in known.items():
        if not _FORMS[name](value):
            raise bad_request(f"the object cannot be handled as a {kind}: metadata.{name} is of a wrong type")
    return known, [f"metadata.{name}" for name in metadata if name not in _FORMS]


def metadata_faults(metadata: dict[str, Json]) -> Iterator[Cause]:
    """What is wrong with the metadata of an object by itself."""
    name = metadata.get("name", "")
    if not name:
        yield Cause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
    elif len(name) > _MAX_SUBDOMAIN:
        yield _invalid("metadata.name", name, f"must be no more than {_MAX_SUBDOMAIN} characters")
    elif not re.fullmatch(_SUBDOMAIN, name):
        yield _invalid("metadata.name", name, _SUBDOMAIN_TEXT)
    for key, value in metadata.get("labels", {}).items():
        yield from _qualified_name_faults("metadata.labels", key)
        if len(value) > _MAX_PART:
            yield _invalid("metadata.labels", value, f"must be no more than {_MAX_PART} bytes")
        elif value and not re.fullmatch(_PART, value):
            yield _invalid("metadata.labels", value, _VALUE_TEXT)
    yield from _annotation_faults(metadata.get("annotations", {}))
    for finalizer in metadata.get("finalizers", ()):
        yield from _qualified_name_faults("metadata.finalizers", finalizer)
    yield from _owner_faults(metadata.get("ownerReferences", ()))


def changed_metadata_faults(new: dict[str, Json], old: dict[str, Json]) -> Iterator[Cause]:
    """What an update may not do to the metadata."""
    for name in ("uid", "deletionTimestamp"):
        if new.get(name, old.get(name)) != old.get(name):
            yield _invalid(f"metadata.{name}", new[name], "field is immutable")
    added = [each for each in new.get("finalizers", ()) if each not in old.get("finalizers", ())]
    if old.get("deletionTimestamp") and added:
        listed = ", ".join(map(shown, added))
        yield Cause(
            "metadata.finalizers",
            "FieldValueForbidden",
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{listed}}}",
        )


def _annotation_faults(annotations: dict[str, str]) -> Iterator[Cause]:
    for key in annotations:
        yield from _qualified_name_faults("metadata.annotations", key.lower(), shown_as=key)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > MAX_ANNOTATIONS_BYTES:
        message = f"Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes"
        yield Cause("metadata.annotations", "FieldValueTooLong", message)


def _owner_faults(owners: Sequence[dict[str, Json]]) -> Iterator[Cause]:
    path = "metadata.ownerReferences"
    for owner in owners:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                detail = "version must not be empty" if name == "apiVersion" else "must not be empty"
                yield _invalid(f"{path}.{name}", "", detail)
    controllers = [f"{owner['kind']}/{owner['name']}" for owner in owners if owner.get("controller") is True]
    if len(controllers) > 1:
        first, second, *_ = controllers
        detail = "Only one reference can have Controller set to true. "
        yield _invalid(path, owners, f'{detail}Found "true" in references for {first} and {second}')


def _qualified_name_faults(path: str, name: str, shown_as: str | None = None) -> Iterator[Cause]:
    given = name if shown_as is None else shown_as
    *prefixes, part = name.split("/")
    if len(prefixes) > 1:
        yield _invalid(path, given, _KEY_TEXT)
        return
    for prefix in prefixes:
        if not prefix:
            yield _invalid(path, given, "prefix part must be non-empty")
        elif len(prefix) > _MAX_SUBDOMAIN:
            yield _invalid(path, given, f"prefix part must be no more than {_MAX_SUBDOMAIN} characters")
        elif not re.fullmatch(_SUBDOMAIN, prefix):
            yield _invalid(path, given, f"prefix part {_SUBDOMAIN_TEXT}")
    if not part:
        yield _invalid(path, given, "name part must be non-empty")
    elif len(part) > _MAX_PART:
        yield _invalid(path, given, f"name part must be no more than {_MAX_PART} bytes")
    if not re.fullmatch(_PART, part):
        yield _invalid(path, given, _PART_TEXT)


def _invalid(path: str, value: Json, detail: str) -> Cause:
    return Cause(path, "FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}")
