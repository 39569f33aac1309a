"""From the body of a request to an object that may be stored: what is filled in, what is dropped, what is refused."""

from collections.abc import Iterable, Sequence

from attrs import evolve

from dgdr_retune.testing._errors import BLOCKING, ApiError, Cause, bad_request
from dgdr_retune.testing._go import shown
from dgdr_retune.testing._json import Json, copied, decode, same
from dgdr_retune.testing._metadata import OWNED_BY_THE_SERVER, formed, metadata_faults
from dgdr_retune.testing._requests import FieldValidation, Target
from dgdr_retune.testing._resources import NAMESPACES, Resource
from dgdr_retune.testing._rules import rule_faults
from dgdr_retune.testing._schema import ANYTHING, drop_nulls, fill_defaults, prune
from dgdr_retune.testing._validation import Correlation, item_faults, schema_faults

_UNCHECKED = Cause(
    "",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def read_body(body: bytes) -> tuple[Json, tuple[str, ...]]:
    """The value and its repeated keys.

    Raises:
        ApiError: 400, it is not JSON.
    """
    try:
        return decode(body)
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from error


def shaped(value: Json, target: Target) -> tuple[dict[str, Json], list[str]]:
    """A copy of an object as the resource's schema shapes it, and the paths of the fields that it does not know.

    Raises:
        ApiError: 400, it is no object of this resource.
    """
    resource = target.resource
    if not isinstance(value, dict):
        raise bad_request("the body is no object")
    if (kind := value.get("kind", "")) != resource.kind:
        if not kind or not resource.is_custom:
            raise bad_request(f"the object provided is unrecognized (must be of type {resource.kind})")
        cause = Cause("kind", "FieldValueInvalid", f"Invalid value: {shown(kind)}: must be {resource.kind}")
        raise invalid(target, [cause], kind=kind)
    if (given := value.get("apiVersion", "")) != resource.api_version:
        raise bad_request(
            f"the API version in the data ({given}) does not match the expected API version ({resource.api_version})"
        )
    value = copied(value)
    value["metadata"], unknown = formed(value.get("metadata", {}), resource.kind)
    if resource.schema is not ANYTHING:
        fill_defaults(value, resource.schema)
        unknown += prune(value, resource.schema)
        drop_nulls(value, resource.schema)
    return value, unknown


def reported(unknown: Sequence[str], repeated: Sequence[str], mode: FieldValidation, resource: Resource) -> list[str]:
    """The warnings about unknown and repeated fields.

    Raises:
        ApiError: 400, they are refused.
    """
    found = [f'duplicate field "{path}"' for path in repeated] + [f'unknown field "{path}"' for path in unknown]
    if not found or mode == "Ignore":
        return []
    if mode == "Strict":
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"strict decoding error: {', '.join(found)}"
        )
    return found


def prepare_update(new: dict[str, Json], old: dict[str, Json], target: Target) -> dict[str, Json]:
    """The object that an update would store: the server's own fields and the other subresource stay as they are."""
    resource = target.resource
    metadata = {name: item for name, item in new["metadata"].items() if name not in OWNED_BY_THE_SERVER}
    metadata |= {name: old["metadata"][name] for name in OWNED_BY_THE_SERVER if name in old["metadata"]}
    metadata |= {name: old["metadata"][name] for name in ("namespace", "resourceVersion") if name in old["metadata"]}
    if target.subresource == "status":
        kept = {name: item for name, item in old.items() if name != "status"}
        return kept | ({"status": new["status"]} if "status" in new else {})
    if target.subresource == "finalize":
        return {**old, "spec": new["spec"]}
    result = {**new, "metadata": metadata}
    if resource is NAMESPACES:
        result["spec"] = old["spec"]
    if resource.has_status:
        result.pop("status", None)
        result |= {"status": old["status"]} if "status" in old else {}
    if resource.has_generation and not same(_asked_for(result), _asked_for(old)):
        metadata["generation"] = old["metadata"].get("generation", 0) + 1
    return result


def _asked_for(value: dict[str, Json]) -> dict[str, Json]:
    return {name: item for name, item in value.items() if name != "metadata"}


def judge(new: dict[str, Json], old: dict[str, Json] | None, target: Target) -> None:
    """Let an object pass or refuse it.

    Raises:
        ApiError: 422 with every fault.
    """
    found = list(metadata_faults(new["metadata"]))
    schema = target.resource.schema
    stored = Correlation(new, old, schema) if old is not None else None
    if target.subresource == "status":
        node = schema.properties.get("status")
        if node is not None and "status" in new:
            correlated = stored.key("status") if stored is not None else None
            below = schema_faults(new["status"], node, "", correlated)
            found += [evolve(each, field=f"status.{each.field}".rstrip(".")) for each in below]
    else:
        found += schema_faults(new, schema, "", stored)
    if old is None or not any(item_faults(old, schema, "")):
        found += item_faults(new, schema, "")
    if any(each.reason in BLOCKING for each in found):
        found.append(_UNCHECKED)
    else:
        found += rule_faults(new, old, schema)
    if found:
        raise invalid(target, found)


def invalid(target: Target, causes: Iterable[Cause], kind: str = "") -> ApiError:
    """422: the faults of an object, each once; ``kind`` where it is not the resource's."""
    found = tuple(dict.fromkeys(evolve(each, field=each.field or "<nil>") for each in causes))
    listed = ", ".join(f"{each.field}: {each.message}" for each in found)
    resource = evolve(target.resource, kind=kind or target.resource.kind)
    return ApiError(
        422,
        "Invalid",
        f'{resource.qualified_kind} "{target.name}" is invalid: {listed if len(found) == 1 else f"[{listed}]"}',
        causes=found,
        details={"name": target.name, "group": resource.group, "kind": resource.kind},
    )
