"""JSON merge patch (RFC 7396)."""

from typing import Any

Json = Any


def merge_patch(target: Json, patch: Json) -> Json:
    """The target changed by the patch; neither is modified.

    An object in the patch changes the object in its place key by key, null removes a key, anything else replaces.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), change)
    return merged
