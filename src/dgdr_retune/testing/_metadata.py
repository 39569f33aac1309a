"""The metadata of an object: what the server writes into it, and what it refuses there."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dgdr_retune.testing._errors import Cause
from dgdr_retune.testing._go import shown
from dgdr_retune.testing._json import Json

OWNED_BY_THE_SERVER: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
KNOWN: Final = frozenset(
    {
        *OWNED_BY_THE_SERVER,
        "annotations",
        "finalizers",
        "generateName",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
    }
)
MAX_ANNOTATIONS_BYTES: Final = 256 * 1024

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME_PART: Final = re.compile("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_MAX_SUBDOMAIN: Final = 253
_MAX_NAME_PART: Final = 63

_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_NAME_PART_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def metadata_faults(metadata: dict[str, Json]) -> Iterator[Cause]:
    """What is wrong with the metadata of an object by itself."""
    name = metadata.get("name", "")
    if not name:
        yield Cause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
    elif len(name) > _MAX_SUBDOMAIN:
        yield _invalid("metadata.name", name, f"must be no more than {_MAX_SUBDOMAIN} bytes")
    elif not _SUBDOMAIN.fullmatch(name):
        yield _invalid("metadata.name", name, _SUBDOMAIN_TEXT)
    for key, value in (metadata.get("labels") or {}).items():
        yield from _qualified_name_faults("metadata.labels", key)
        if len(value) > _MAX_NAME_PART:
            yield _invalid("metadata.labels", value, f"must be no more than {_MAX_NAME_PART} bytes")
        elif value and not _NAME_PART.fullmatch(value):
            yield _invalid("metadata.labels", value, _VALUE_TEXT)
    yield from _annotation_faults(metadata.get("annotations") or {})
    for finalizer in metadata.get("finalizers") or ():
        yield from _qualified_name_faults("metadata.finalizers", finalizer)
    yield from _owner_faults(metadata.get("ownerReferences") or ())


def new_finalizer_faults(new: dict[str, Json], old: dict[str, Json]) -> Iterator[Cause]:
    """Finalizers that an update adds to an object that is being deleted."""
    added = [each for each in new.get("finalizers") or () if each not in (old.get("finalizers") or ())]
    if old.get("deletionTimestamp") and added:
        listed = ", ".join(f'"{each}"' for each in added)
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
    for index, owner in enumerate(owners):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                yield _invalid(f"metadata.ownerReferences[{index}].{name}", "", "must not be empty")
    if sum(owner.get("controller") is True for owner in owners) > 1:
        yield _invalid("metadata.ownerReferences", owners, "Only one reference can have Controller set to true")


def _qualified_name_faults(path: str, name: str, shown_as: str | None = None) -> Iterator[Cause]:
    prefix, slash, last = name.rpartition("/")
    given = name if shown_as is None else shown_as
    if slash and (not prefix or len(prefix) > _MAX_SUBDOMAIN or not _SUBDOMAIN.fullmatch(prefix)):
        yield _invalid(path, given, f"prefix part {_SUBDOMAIN_TEXT}")
    if not last or len(last) > _MAX_NAME_PART:
        yield _invalid(path, given, f"name part must be no more than {_MAX_NAME_PART} bytes")
    elif not _NAME_PART.fullmatch(last):
        yield _invalid(path, given, _NAME_PART_TEXT)


def _invalid(path: str, value: Json, detail: str) -> Cause:
    return Cause(path, "FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}")
