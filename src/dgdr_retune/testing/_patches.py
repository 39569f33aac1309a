"""The two patches that a custom resource takes: RFC 7396 (merge) and RFC 6902 (a list of operations)."""

from collections.abc import Sequence
from typing import Final

from dgdr_retune.testing._errors import ApiError, bad_request
from dgdr_retune.testing._json import Json, copied, same

MERGE: Final = "application/merge-patch+json"
OPERATIONS: Final = "application/json-patch+json"


def _refused(detail: str) -> ApiError:
    return ApiError(422, "Invalid", f"the server rejected our request due to an error in our request: {detail}")


def apply_patch(content_type: str, value: Json, patch: Json) -> Json:
    """The patched value; the given ones stay as they are.

    Raises:
        ApiError: 415 for another kind of patch, 400 for one that cannot be read, 422 for one that does not apply.
    """
    match content_type, patch:
        case "application/merge-patch+json", dict():
            return merged(value, patch)
        case "application/json-patch+json", list():
            return _operated(copied(value), patch)
        case (("application/merge-patch+json" | "application/json-patch+json"), _):
            raise bad_request(f"the body is no {content_type}")
    raise ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {OPERATIONS}, {MERGE}",
    )


def merged(value: Json, patch: Json) -> Json:
    """RFC 7396: objects are merged key by key, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return copied(patch)
    base = dict(value) if isinstance(value, dict) else {}
    for key, item in patch.items():
        if item is None:
            base.pop(key, None)
        else:
            base[key] = merged(base.get(key), item)
    return base


def _operated(value: Json, operations: Sequence[Json]) -> Json:
    document = {"": value}  # so that the whole value has a parent too
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise _refused("an operation is an object with `op` and `path`")
        _apply(document, operation)
    return document[""]


def _apply(document: dict[str, Json], operation: dict[str, Json]) -> None:
    parent, last = _find(document, operation["path"])
    match operation.get("op"):
        case "add":
            _add(parent, last, copied(operation.get("value")))
        case "remove":
            _take(parent, last)
        case "replace":
            _take(parent, last)
            _add(parent, last, copied(operation.get("value")))
        case "test":
            found = _read(parent, last) if _is_there(parent, last) else None
            if not same(found, operation.get("value")):
                raise _refused(f"testing value {operation['path']} failed")
        case "move":
            source = _find(document, str(operation.get("from")))
            _add(parent, last, _take(*source))
        case "copy":
            _add(parent, last, copied(_read(*_find(document, str(operation.get("from"))))))
        case other:
            raise _refused(f"unexpected kind: {other}")


def _find(document: dict[str, Json], path: str) -> tuple[Json, str]:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]
    parent: Json = document
    for part in parts[:-1]:
        if not _is_there(parent, part):
            raise _refused(f"missing path: {path}")
        parent = _read(parent, part)
    return parent, parts[-1]


def _is_there(parent: Json, key: str) -> bool:
    match parent:
        case dict():
            return key in parent
        case list():
            return key.isdecimal() and int(key) < len(parent)
    return False


def _read(parent: Json, key: str) -> Json:
    if not _is_there(parent, key):
        raise _refused(f"missing key: {key}")
    return parent[int(key)] if isinstance(parent, list) else parent[key]


def _take(parent: Json, key: str) -> Json:
    _read(parent, key)
    return parent.pop(int(key) if isinstance(parent, list) else key)


def _add(parent: Json, key: str, value: Json) -> None:
    match parent:
        case dict():
            parent[key] = value
        case list() if key == "-":
            parent.append(value)
        case list() if key.isdecimal() and int(key) <= len(parent):
            parent.insert(int(key), value)
        case _:
            raise _refused(f"missing key: {key}")
