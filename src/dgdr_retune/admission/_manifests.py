"""The webhook configurations that send an API server here."""

from typing import Any, Final

from dgdr_retune.api import GROUP, KINDS, REQUEST, VERSION

Json = Any

NAME: Final = "dgdr-retune"
TIMEOUT_SECONDS: Final = 5


def webhook_configurations(client: dict[str, Json], *, own_namespace: str) -> tuple[Json, Json]:
    """The manifests of the mutating and the validating webhook.

    They fail open, for the CRDs alone are safe; ask about v1beta2 as it is written, so that nothing is converted for
    them; and leave the operator's own namespace alone, so that its absence can keep nothing from starting there.

    Args:
        client: `caBundle`, and `service` (without a path) or `url` (its root).
        own_namespace: where the operator runs.
    """
    selector = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [own_namespace]}
    shared = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "matchPolicy": "Exact",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "namespaceSelector": {"matchExpressions": [selector]},
    }
    mutating = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": f"default.retune.dgdr.{GROUP}",
                "clientConfig": _client(client, "/mutate"),
                "rules": [_rule([REQUEST.plural])],
                "reinvocationPolicy": "Never",
                **shared,
            }
        ],
    }
    validating = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": f"validate.retune.dgdr.{GROUP}",
                "clientConfig": _client(client, "/validate"),
                "rules": [_rule([kind.plural for kind in KINDS])],
                **shared,
            }
        ],
    }
    return mutating, validating


def _client(client: dict[str, Json], path: str) -> dict[str, Json]:
    if "url" in client:
        return client | {"url": f"{client['url']}{path}"}
    return client | {"service": client["service"] | {"path": path}}


def _rule(resources: list[str]) -> dict[str, Json]:
    return {
        "apiGroups": [GROUP],
        "apiVersions": [VERSION],
        "operations": ["CREATE", "UPDATE"],
        "resources": resources,
        "scope": "Namespaced",
    }
