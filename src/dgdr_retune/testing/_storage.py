"""Objects of the resources that are served: read by their schema, written with what a server adds."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from dgdr_retune.testing._errors import ApiError
from dgdr_retune.testing._json import Json, same, stored
from dgdr_retune.testing._judgement import shaped
from dgdr_retune.testing._own_kinds import prepared
from dgdr_retune.testing._requests import Target, not_found
from dgdr_retune.testing._resources import BUILT_IN, DEFINITIONS, NAMESPACES, Resource, read_definition
from dgdr_retune.testing._store import Key, Store

NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5


class Storage:
    """The store, and which resources are in it.

    Args:
        now: the clock.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.store = Store()
        self._now = now
        self._resources = {each.key: each for each in BUILT_IN}
        self._made = 0
        for name in ("default", "kube-system"):
            self.create(Target(NAMESPACES, name=name), {"metadata": {"name": name}})

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What is served, in the order it was added."""
        return tuple(self._resources.values())

    def has(self, target: Target) -> bool:
        """Whether the object is there."""
        return self.store.get(target.key) is not None

    def read(self, target: Target) -> dict[str, Json]:
        """A copy of the object, as its schema shows it today.

        Raises:
            ApiError: 404, it is not there.
        """
        found = self.store.get(target.key)
        if found is None:
            raise not_found(target)
        return shaped(found, target)[0]

    def new(self, target: Target, value: dict[str, Json]) -> dict[str, Json]:
        """The object as it would be created."""
        resource = target.resource
        self._made += 1
        metadata = {
            **value["metadata"],
            **({"namespace": target.namespace} if target.namespace else {}),
            "uid": str(uuid.UUID(int=self._made, version=4)),
            "creationTimestamp": self.timestamp(),
            **({"generation": 1} if resource.has_generation else {}),
        }
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(name, None)
        made = {**value, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return dict(stored(prepared(resource, made)))

    def create(self, target: Target, value: dict[str, Json]) -> Json:
        """Store a new object."""
        made = self.store.put(target.key, self.new(target, value))
        self._serve(target, made)
        return made

    def update(self, target: Target, value: dict[str, Json]) -> Json:
        """Store a change; one that changes nothing is no write."""
        value = stored(value)
        present = self.store.get(target.key)
        if same(value, present):
            return present
        put = self.store.put(target.key, value)
        self._serve(target, put)
        return put

    def remove(self, target: Target) -> Json:
        """Remove the object; a definition takes its objects with it."""
        removed = self.store.delete(target.key)
        if target.resource is DEFINITIONS:
            served = self._resources.pop(read_definition(removed).key)
            for key, _ in list(self.store.items(served.key)):
                self.store.delete(key)
        return removed

    def require_namespace(self, namespace: str) -> None:
        """Refuse to create in a namespace that is not there, or is going.

        Raises:
            ApiError: 404 or 403.
        """
        found = self.store.get(Key(NAMESPACES.key, "", namespace))
        if found is None:
            raise not_found(Target(NAMESPACES, name=namespace))
        if "deletionTimestamp" in found["metadata"]:
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise ApiError(403, "Forbidden", message)

    def timestamp(self, after_s: int = 0) -> str:
        """Now, or some seconds later, as metadata has it."""
        return (self._now().astimezone(UTC) + timedelta(seconds=after_s)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def suffix(self) -> str:
        """The end of a generated name, another one on each call."""
        self._made += 1
        number, letters = self._made, ""
        for _ in range(SUFFIX_LENGTH):
            number, digit = divmod(number, len(NAME_ALPHABET))
            letters += NAME_ALPHABET[digit]
        return letters

    def _serve(self, target: Target, value: Json) -> None:
        if target.resource is DEFINITIONS:
            served = read_definition(value)
            self._resources[served.key] = served
