"""A Request in both of its versions, on a cluster whose CRD stores v1beta1.

Such a cluster keeps a v1beta2 Request verbatim inside a v1beta1 one, in `spec.v1beta2` and `status.v1beta2` (the
carrier), and shows a native v1beta1 Request in v1beta2 as `spec.v1beta1` and `status.v1beta1`.
"""

from typing import Any, Final

from dgdr_retune.api._object import API_VERSION, GROUP

Json = Any

V1BETA1: Final = f"{GROUP}/v1beta1"

_PARTS: Final = ("spec", "status")


class ConversionError(ValueError):
    """A Request that mixes fields of one version with an envelope of the other."""

    reason: Final = "MixedVersions"

    def __init__(self, part: str, envelope: str) -> None:
        super().__init__(f"{part}.{envelope} must be an object, stand alone in {part} and hold no envelope itself")
        self.part = part


def is_carrier(value: Json) -> bool:
    """Whether the object is a v1beta1 Request that carries a v1beta2 one."""
    return (
        isinstance(value, dict)
        and value.get("apiVersion") == V1BETA1
        and isinstance(value.get("spec"), dict)
        and "v1beta2" in value["spec"]
    )


def to_v1beta1(request: dict[str, Json]) -> dict[str, Json]:
    """The v1beta1 form of a v1beta2 Request: its native one if it was written so, else a carrier.

    Errors: `ConversionError`. `to_v1beta2` is the inverse.
    """
    return _converted(request, V1BETA1, unwrap="v1beta1", wrap="v1beta2")


def to_v1beta2(request: dict[str, Json]) -> dict[str, Json]:
    """The v1beta2 form of a v1beta1 Request: what it carries, else a read-only view of the native one.

    Errors: `ConversionError`. `to_v1beta1` is the inverse.
    """
    return _converted(request, API_VERSION, unwrap="v1beta2", wrap="v1beta1")


def _converted(request: dict[str, Json], api_version: str, *, unwrap: str, wrap: str) -> dict[str, Json]:
    converted = {
        name: _part(name, value, unwrap, wrap) if name in _PARTS and isinstance(value, dict) else value
        for name, value in request.items()
    }
    return converted | {"apiVersion": api_version}


def _part(name: str, value: dict[str, Json], unwrap: str, wrap: str) -> Json:
    if unwrap not in value:
        if wrap in value:
            raise ConversionError(name, wrap)
        return {wrap: value}
    inner = value[unwrap]
    if len(value) > 1 or not isinstance(inner, dict) or wrap in inner or unwrap in inner:
        raise ConversionError(name, unwrap)
    return inner
