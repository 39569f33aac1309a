"""How a kind is addressed in the Kubernetes API."""

from typing import Any, Final
from urllib.parse import quote

from attrs import frozen

Json = Any
"""A JSON value: dict, list, str, int, float, bool or None."""


@frozen
class Resource:
    """A kind and where it is served.

    Attributes:
        group: empty for the core group.
        version: of the group.
        plural: its name in a path.
        kind: its name in an object.
        namespaced: whether its objects are in namespaces.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects spell it: ``v1``, ``batch/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, of a part of it, or (without a name) of all objects in a namespace or everywhere.

        Raises:
            ValueError: an object's place is incomplete, or one of the parts is no segment of a path.
        """
        if name and self.namespaced != bool(namespace):
            raise ValueError(f"a {self.kind} is addressed {'with' if self.namespaced else 'without'} a namespace")
        if subresource and not name:
            raise ValueError(f"the subresource {subresource} belongs to one object: name it")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{_segment(namespace)}" if namespace else ""
        parts = "".join(f"/{_segment(part)}" for part in (name, subresource) if part)
        return f"{root}{place}/{self.plural}{parts}"


def _segment(text: str) -> str:
    if text in (".", ".."):
        raise ValueError(f"{text!r} is no name")
    return quote(text, safe=":")


def is_stored(value: Json) -> bool:
    """Whether a value is an object as a server stores it, and nothing (a Status, say) that is sent in place of one."""
    if not isinstance(value, dict) or value.get("kind") == "Status":
        return False
    match value.get("metadata"):
        case {"name": str(), "uid": str(), "resourceVersion": str(version)}:
            return version.isdecimal()
    return False


CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PODS: Final = Resource("", "v1", "pods", "Pod")
JOBS: Final = Resource("batch", "v1", "jobs", "Job")
EVENTS: Final = Resource("", "v1", "events", "Event")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
ROLE_BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
