"""What the publisher's ServiceAccount may do: exactly what the publisher does. The chart and the tests read it here."""

from typing import Any, Final

from dgdr_retune.api import CANDIDATE, GROUP, MANAGED_BY, MANAGED_BY_LABEL, RUN

Json = Any

RULES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (GROUP, CANDIDATE.plural, ("get", "list", "create", "delete")),
    (GROUP, f"{CANDIDATE.plural}/status", ("update",)),
    (GROUP, RUN.plural, ("get",)),
    (GROUP, f"{RUN.plural}/status", ("patch",)),
    ("", "pods", ("get",)),
)
"""API group, resource and verbs."""


def publisher_cluster_role(name: str) -> dict[str, Json]:
    """The manifest of the ClusterRole that the operator binds in each namespace that has a Run."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {MANAGED_BY_LABEL: MANAGED_BY}},
        "rules": [
            {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)} for group, resource, verbs in RULES
        ],
    }
