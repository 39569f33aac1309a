"""What is wrong with an object's metadata, which an API server judges by its own rules and not by a CRD's.

`validate` leaves metadata to the server; this is for a file that no server has seen yet. What only a cluster knows
stays with it: whether the namespace exists, whether the name is taken, what `generateName` becomes.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from dgdr_retune.api._names import LABEL_MAX, LABEL_VALUE, SUBDOMAIN, SUBDOMAIN_MAX
from dgdr_retune.api._validate import Fault

Json = Any

ANNOTATIONS_MAX_BYTES: Final = 256 * 1024
"""Keys and values of all annotations together."""

_SHOWN_MAX: Final = 100
"""Characters of a value that a message repeats."""

_GENERATED_HEAD_MAX: Final = 58
"""Characters of `generateName` that a server keeps before its five random ones."""

_SUBDOMAIN_TEXT: Final = (
    f"must be a DNS-1123 subdomain of at most {SUBDOMAIN_MAX} characters: lower case letters, digits, - and ."
)
_LABEL_TEXT: Final = f"1 to {LABEL_MAX} letters, digits, -, _ and ., with a letter or a digit at both ends"
_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid")


def metadata_faults(metadata: Json) -> tuple[Fault, ...]:
    """Every fault of the metadata of a new object, in the order of its fields; an absent one is None."""
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        return (Fault("metadata", "Invalid value: must be an object", "FieldValueTypeInvalid"),)
    given = {name: value for name, value in metadata.items() if value is not None}
    return (*_name_faults(given), *(fault for name, value in given.items() for fault in _field_faults(name, value)))


def _name_faults(metadata: dict[str, Json]) -> Iterator[Fault]:
    name, head = metadata.get("name", ""), metadata.get("generateName", "")
    if not isinstance(name, str) or not isinstance(head, str):
        return  # told as a fault of its field
    if not name and not head:
        yield Fault("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
    if name and not _is_subdomain(name):
        yield _invalid("metadata.name", name, _SUBDOMAIN_TEXT)
    if head and not (_is_generating(head) and (name or _is_subdomain(head[:_GENERATED_HEAD_MAX] + "x"))):
        yield _invalid("metadata.generateName", head, f"{_SUBDOMAIN_TEXT}, and may end with -")


def _field_faults(name: str, value: Json) -> Iterator[Fault]:
    path = f"metadata.{name}"
    if name not in _TYPES:
        yield Fault(path, f'unknown field "{path}"')
        return
    is_of_type, type_text = _TYPES[name]
    if not is_of_type(value):
        yield Fault(path, f"Invalid value: must be {type_text}", "FieldValueTypeInvalid")
        return
    if name in ("labels", "annotations", "finalizers"):
        keys = (key.lower() if name == "annotations" else key for key in value)
        yield from (
            _invalid(path, key, f"must be {_LABEL_TEXT}, alone or after a domain and /")
            for key in keys
            if not _is_qualified_name(key)
        )
    if name == "labels":
        yield from (
            _invalid(path, text, f"must be {_LABEL_TEXT}") for text in value.values() if text and not _is_label(text)
        )
    if name == "annotations" and _bytes(value) > ANNOTATIONS_MAX_BYTES:
        yield Fault(path, f"Too long: may not be more than {ANNOTATIONS_MAX_BYTES} bytes", "FieldValueTooLong")
    if name == "ownerReferences":
        yield from (
            Fault(f"{path}[{index}].{field}", "Required value", "FieldValueRequired")
            for index, owner in enumerate(value)
            for field in _OWNER_FIELDS
            if not isinstance(owner.get(field), str) or not owner[field]
        )


def _invalid(path: str, value: str, detail: str) -> Fault:
    return Fault(path, f"Invalid value: {json.dumps(value[:_SHOWN_MAX])}: {detail}")


def _is_qualified_name(key: str) -> bool:
    prefix, separator, name = key.rpartition("/")
    return _is_label(name) and (not separator or _is_subdomain(prefix))


def _is_label(text: str) -> bool:
    return len(text) <= LABEL_MAX and LABEL_VALUE.fullmatch(text) is not None


def _is_subdomain(text: str) -> bool:
    return len(text) <= SUBDOMAIN_MAX and SUBDOMAIN.fullmatch(text) is not None


def _is_generating(head: str) -> bool:
    """Whether a server takes it, which looks at a - at the end as if it were a letter in the place of the last two."""
    masked = head[:-2] + "a" if len(head) > 1 and head.endswith("-") else head
    return _is_subdomain(masked)


def _bytes(annotations: dict[str, str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for pair in annotations.items() for text in pair)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_whole_number(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_texts_by_key(value: Json) -> bool:
    return isinstance(value, dict) and all(_is_text(each) for pair in value.items() for each in pair)


def _is_texts(value: Json) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_objects(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


_Type = tuple[Callable[[Json], bool], str]
_TEXT: Final[_Type] = (_is_text, "a string")
_WHOLE_NUMBER: Final[_Type] = (_is_whole_number, "a whole number")
_TEXTS_BY_KEY: Final[_Type] = (_is_texts_by_key, "an object of strings: quote numbers and true")
_OBJECTS: Final[_Type] = (_is_objects, "a list of objects")
_TYPES: Final[Mapping[str, _Type]] = {
    "annotations": _TEXTS_BY_KEY,
    "creationTimestamp": _TEXT,
    "deletionGracePeriodSeconds": _WHOLE_NUMBER,
    "deletionTimestamp": _TEXT,
    "finalizers": (_is_texts, "a list of strings"),
    "generateName": _TEXT,
    "generation": _WHOLE_NUMBER,
    "labels": _TEXTS_BY_KEY,
    "managedFields": _OBJECTS,
    "name": _TEXT,
    "namespace": _TEXT,
    "ownerReferences": _OBJECTS,
    "resourceVersion": _TEXT,
    "selfLink": _TEXT,
    "uid": _TEXT,
}
