"""The resources that the simulated API server serves: Kubernetes' own, and those of CustomResourceDefinitions."""

from collections.abc import Mapping
from typing import Final, Literal

from attrs import frozen

from dgdr_retune.testing._cel import check_rules
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._schema import ANYTHING, Node, UnsupportedSchemaError, read_schema

Propagation = Literal["Background", "Foreground", "Orphan"]


@frozen
class Resource:
    """A kind and how it is served.

    Attributes:
        group: empty for the core group.
        version: the one that is served and stored.
        plural: its name in a path.
        schema: what its objects are judged by.
        namespaced: whether its objects are in namespaces.
        has_status: whether `status` is written through its subresource alone.
        has_generation: whether `metadata.generation` counts changes of what is asked for.
        is_custom: of a CustomResourceDefinition; such objects are replaced only with their resource version,
            Kubernetes' own also without.
        propagation: what a deletion without a policy does to dependents.
        short_names: for people.
    """

    group: str
    version: str
    kind: str
    plural: str
    schema: Node = ANYTHING
    namespaced: bool = True
    has_status: bool = False
    has_generation: bool = False
    is_custom: bool = False
    propagation: Propagation = "Background"
    short_names: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What it is stored under."""
        return f"{self.group}/{self.plural}"

    @property
    def api_version(self) -> str:
        """As objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """As messages name the kind."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
    has_status=True,
    has_generation=True,
    short_names=("crd", "crds"),
)
NAMESPACES: Final = Resource("", "v1", "Namespace", "namespaces", namespaced=False, has_status=True)

BUILT_IN: Final = (
    NAMESPACES,
    DEFINITIONS,
    Resource("", "v1", "ConfigMap", "configmaps"),
    Resource("", "v1", "Event", "events"),
    Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False, has_status=True),
    Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", has_status=True),
    Resource("", "v1", "Pod", "pods", has_status=True, has_generation=True),
    Resource("", "v1", "Secret", "secrets"),
    Resource("", "v1", "Service", "services", has_status=True),
    Resource("", "v1", "ServiceAccount", "serviceaccounts"),
    Resource("batch", "v1", "Job", "jobs", has_status=True, has_generation=True, propagation="Orphan"),
    Resource("coordination.k8s.io", "v1", "Lease", "leases"),
    Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", has_generation=True),
    Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False),
    Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    Resource("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
)


def read_definition(document: Mapping[str, Json]) -> Resource:
    """The resource of a CustomResourceDefinition of one version.

    Raises:
        UnsupportedSchemaError: it has several versions, or something that is not simulated.
    """
    spec = document["spec"]
    if len(spec["versions"]) != 1:
        raise UnsupportedSchemaError("spec.versions", "there must be one version")
    (version,) = spec["versions"]
    schema = read_schema(version["schema"]["openAPIV3Schema"])
    check_rules(schema)
    names = spec["names"]
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        schema=schema,
        namespaced=spec["scope"] == "Namespaced",
        has_status="status" in version.get("subresources", {}),
        has_generation=True,
        is_custom=True,
        short_names=tuple(names.get("shortNames", ())),
    )
