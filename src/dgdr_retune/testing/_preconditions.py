"""What must still be true of an object when a request is about to change it."""

from dgdr_retune.testing._errors import Cause, bad_request
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._judgement import invalid
from dgdr_retune.testing._requests import Target, conflict


def check_place(target: Target, given: dict[str, Json]) -> None:
    """The metadata of a body must name the object of the path.

    Raises:
        ApiError: 400.
    """
    if given.get("name", "") != target.name:
        raise bad_request(
            f"the name of the object ({given.get('name', '')}) does not match the name on the URL ({target.name})"
        )
    if given.get("namespace", target.namespace) != target.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def check_uid(target: Target, given: str, present: str) -> None:
    """An object that was read before must not have been replaced by another one of its name.

    Raises:
        ApiError: 409.
    """
    if given != present:
        raise conflict(target, f"Precondition failed: UID in precondition: {given}, UID in object meta: {present}")


def check_revision(target: Target, given: str, present: str) -> None:
    """An object that was read before must not have been changed since; custom resources must say what was read.

    Raises:
        ApiError: 422 without a resource version, 409 for another one than the stored one's.
    """
    if not given and target.resource.is_custom:
        message = "Invalid value: 0: must be specified for an update"
        raise invalid(target, [Cause("metadata.resourceVersion", "FieldValueInvalid", message)])
    if given and given != present:
        message = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(target, message)


def check_deletion(target: Target, wanted: dict[str, Json], present: dict[str, Json]) -> None:
    """The preconditions of a deletion, against the metadata of the object.

    Raises:
        ApiError: 409.
    """
    for name, label, suspicion in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if wanted.get(name, present[name]) != present[name]:
            raise conflict(
                target,
                f"the {label} in the precondition ({wanted[name]}) does not match the {label} in record "
                f"({present[name]}). The object might have been {suspicion}",
                named=target.resource.qualified_kind,
            )
