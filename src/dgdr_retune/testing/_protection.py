"""What Kubernetes does to claims and namespaces that are being deleted."""

from dgdr_retune.testing._json import Json
from dgdr_retune.testing._own_kinds import CLAIM_PROTECTION
from dgdr_retune.testing._part import CLAIMS, NAMESPACES, PODS, Part, claims_of, key_of, without
from dgdr_retune.testing._store import Key, Write


class ClaimProtection(Part):
    """Keeps a claim as long as there is a pod object on a node that mounts it, be the pod finished or not."""

    def saw(self, write: Write) -> None:
        """Look at a claim that changed, and at those of a pod that changed."""
        if write.key.resource == CLAIMS:
            self.look(write.key)
        elif write.key.resource == PODS:
            value = write.old if write.new is None else write.new
            for name in claims_of(value["spec"]):
                self.look(Key(CLAIMS, write.key.namespace, name))

    def sync(self, key: Key) -> None:
        """Let a claim go that nothing uses."""
        claim = self.access.get(key)
        if claim is None or "deletionTimestamp" not in claim["metadata"]:
            return
        metadata = claim["metadata"]
        if CLAIM_PROTECTION in metadata.get("finalizers", ()) and not any(
            pod["spec"].get("nodeName") and key.name in claims_of(pod["spec"])
            for pod in self.access.all(PODS, key.namespace)
        ):
            self.access.patch(key, without(metadata["finalizers"], CLAIM_PROTECTION, metadata["resourceVersion"]))


class NamespaceController(Part):
    """Empties a namespace that is being deleted, and then lets it go."""

    def saw(self, write: Write) -> None:
        """Look at a namespace that changed, or lost an object."""
        if write.key.resource == NAMESPACES:
            self.look(write.key)
        elif write.new is None and write.key.namespace:
            self.look(Key(NAMESPACES, "", write.key.namespace))

    def sync(self, key: Key) -> None:
        """Delete the next object; after the last one, the namespace."""
        namespace = self.access.get(key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return
        left = [
            (resource, value) for resource in self.access.namespaced() for value in self.access.all(resource, key.name)
        ]
        for resource, value in left:
            if "deletionTimestamp" not in value["metadata"]:
                self.access.delete(key_of(value, resource), "Background")
                self.look(key)
                return
        if not left:
            self.access.put(key, _let_go(namespace), "finalize")


def _let_go(namespace: Json) -> Json:
    return {**namespace, "spec": {"finalizers": []}}
