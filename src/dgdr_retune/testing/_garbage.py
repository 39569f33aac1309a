"""The garbage collector: what is deleted because its owner is, and an owner that waits for what it owns."""

import asyncio
import random
from typing import Any

from dgdr_retune.testing._deletion import FOREGROUND, ORPHAN
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._part import Access, Part, without
from dgdr_retune.testing._store import Key, Write


class GarbageCollector(Part):
    """Deletes objects whose owners are all gone, and sees foreground and orphaning deletions through."""

    def __init__(self, access: Access, loop: asyncio.AbstractEventLoop, rng: random.Random, **options: Any) -> None:
        super().__init__(access, loop, rng, **options)
        self._keys: dict[str, Key] = {}  # by UID
        self._owned: dict[str, dict[Key, None]] = {}  # by the owner's UID; a dict keeps the order

    def saw(self, write: Write) -> None:
        """Keep who owns what, and look at what a write may have decided."""
        was, now = _owner_uids(write.old), _owner_uids(write.new)
        for owner in dict.fromkeys(was + now):
            if owner in now:
                self._owned.setdefault(owner, {})[write.key] = None
            else:
                self._owned.get(owner, {}).pop(write.key, None)
            if owner in self._keys:
                self.look(self._keys[owner])
        if write.new is not None:
            self._keys[write.new["metadata"]["uid"]] = write.key
            self.look(write.key)
            return
        uid = write.old["metadata"]["uid"]
        self._keys.pop(uid, None)
        for key in self._owned.pop(uid, ()):
            self.look(key)

    def sync(self, key: Key) -> None:
        """Do the next thing that is due for an object."""
        value = self.access.get(key)
        if value is None:
            return
        finalizers = value["metadata"].get("finalizers", ())
        if "deletionTimestamp" not in value["metadata"]:
            self._see_to_owners(key, value)
        elif ORPHAN in finalizers:
            self._orphan_dependents(key, value)
        elif FOREGROUND in finalizers:
            self._see_to_dependents(key, value)

    def _see_to_owners(self, key: Key, value: Json) -> None:
        """Delete an object that has lost all its owners; of some that are gone or going, only let go."""
        owners = value["metadata"].get("ownerReferences", [])
        present = {owner["uid"]: self._owner(owner, key) for owner in owners}
        going = [uid for uid, owner in present.items() if owner is not None and _waits_for_dependents(owner)]
        solid = [owner for owner in owners if present[owner["uid"]] is not None and owner["uid"] not in going]
        if not owners or len(solid) == len(owners):
            return
        if solid:
            revision = value["metadata"]["resourceVersion"]
            self.access.patch(key, {"metadata": {"ownerReferences": solid, "resourceVersion": revision}})
        elif going and self._dependents(value):
            self.access.delete(key, "Foreground")
        else:
            finalizers = value["metadata"].get("finalizers", ())
            policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
            self.access.delete(key, policy)

    def _see_to_dependents(self, key: Key, value: Json) -> None:
        """Have what an object owns deleted, and let the object go once nothing that blocks it is left."""
        dependents = self._dependents(value)
        for each, _ in dependents:
            self.look(each)
        if not any(owner.get("blockOwnerDeletion") is True for _, owner in dependents):
            metadata = value["metadata"]
            self.access.patch(key, without(metadata["finalizers"], FOREGROUND, metadata["resourceVersion"]))

    def _orphan_dependents(self, key: Key, value: Json) -> None:
        """Take one dependent from its owner; the last one lets the owner go."""
        uid = value["metadata"]["uid"]
        for each, _ in self._dependents(value):
            metadata = self.access.get(each)["metadata"]
            kept = [owner for owner in metadata["ownerReferences"] if owner["uid"] != uid]
            revision = metadata["resourceVersion"]
            self.access.patch(each, {"metadata": {"ownerReferences": kept, "resourceVersion": revision}})
            return
        self.access.patch(key, without(value["metadata"]["finalizers"], ORPHAN, value["metadata"]["resourceVersion"]))

    def _dependents(self, value: Json) -> list[tuple[Key, Json]]:
        """What an object owns, each with the reference to it."""
        uid = value["metadata"]["uid"]
        found = []
        for key in self._owned.get(uid, ()):
            owners = self.access.get(key)["metadata"].get("ownerReferences", ())
            found += [(key, owner) for owner in owners if owner["uid"] == uid]
        return found

    def _owner(self, reference: Json, dependent: Key) -> Json:
        """The object that a reference means, None if it is gone: a UID, in the namespace of what is owned."""
        key = self._keys.get(reference["uid"])
        if key is None or key.name != reference["name"] or key.namespace not in ("", dependent.namespace):
            return None
        return self.access.get(key)


def _owner_uids(value: Json) -> list[str]:
    if value is None:
        return []
    return [owner["uid"] for owner in value["metadata"].get("ownerReferences", ())]


def _waits_for_dependents(owner: Json) -> bool:
    metadata = owner["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND in metadata.get("finalizers", ())
