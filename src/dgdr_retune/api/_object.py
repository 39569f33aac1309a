"""What every kind has: the group and version, and metadata."""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from dgdr_retune.api._declare import OPTIONAL, REQUIRED, ApiModel

GROUP: Final = "nvidia.com"
VERSION: Final = "v1beta2"
API_VERSION: Final = f"{GROUP}/{VERSION}"


class OwnerReference(ApiModel):
    """An object that owns this one."""

    open_ended: ClassVar[bool] = True

    api_version: Annotated[str, REQUIRED]
    """The owner's group and version."""
    kind: Annotated[str, REQUIRED]
    """The owner's kind."""
    name: Annotated[str, REQUIRED]
    """The owner's name."""
    uid: Annotated[str, REQUIRED]
    """The owner's UID, which tells it from a later object of its name."""
    controller: Annotated[bool | None, OPTIONAL] = None
    """Whether this is the one owner that manages the object."""
    block_owner_deletion: Annotated[bool | None, OPTIONAL] = None
    """Whether a foreground deletion of the owner waits for this object."""


class ObjectMeta(ApiModel):
    """The part of Kubernetes' object metadata that this project reads or writes; the rest is kept as it is."""

    open_ended: ClassVar[bool] = True

    name: Annotated[str | None, OPTIONAL] = None
    """The object's name."""
    namespace: Annotated[str | None, OPTIONAL] = None
    """The object's namespace."""
    uid: Annotated[str | None, OPTIONAL] = None
    """The object's UID."""
    resource_version: Annotated[str | None, OPTIONAL] = None
    """Changes with every write."""
    generation: Annotated[int | None, OPTIONAL] = None
    """Changes with every write of the specification."""
    creation_timestamp: Annotated[str | None, OPTIONAL] = None
    """When the object was created."""
    deletion_timestamp: Annotated[str | None, OPTIONAL] = None
    """When its deletion was asked for."""
    labels: Annotated[dict[str, str] | None, OPTIONAL] = None
    """What selectors match."""
    annotations: Annotated[dict[str, str] | None, OPTIONAL] = None
    """What selectors do not match."""
    finalizers: Annotated[list[str] | None, OPTIONAL] = None
    """Who must agree before the object goes."""
    owner_references: Annotated[list[OwnerReference] | None, OPTIONAL] = None
    """With whom the object goes."""


class ObjectReference(ApiModel):
    """An object of the same namespace."""

    name: Annotated[str, REQUIRED, Field(min_length=1, max_length=253, examples=["qwen-run-1"])]
    """Its name."""
