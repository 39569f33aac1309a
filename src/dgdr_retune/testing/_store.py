"""What etcd is to kube-apiserver: objects by key, a revision for each write, the writes since the last compaction."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from attrs import frozen

from dgdr_retune.testing._errors import expired
from dgdr_retune.testing._json import Json

WriteType = Literal["ADDED", "MODIFIED", "DELETED"]
FIRST_REVISION: Final = 1


class Key(NamedTuple):
    """Where an object is: its resource as ``group/plural``, its namespace (empty for none) and its name."""

    resource: str
    namespace: str
    name: str


@frozen
class Write:
    """One change. ``new`` is None for a deletion; ``old`` is None for a creation."""

    revision: int
    key: Key
    new: Json
    old: Json

    @property
    def type(self) -> WriteType:
        """How a watch calls it."""
        if self.new is None:
            return "DELETED"
        return "ADDED" if self.old is None else "MODIFIED"


class Store:
    """Objects and their writes. Values that go in or come out are never changed in place."""

    def __init__(self) -> None:
        self.revision = FIRST_REVISION
        self._objects: dict[Key, Json] = {}
        self._writes: list[Write] = []
        self._compacted = FIRST_REVISION - 1
        self._listeners: list[Callable[[Write], None]] = []

    def get(self, key: Key) -> Json | None:
        """The object, or None."""
        return self._objects.get(key)

    def put(self, key: Key, value: Json) -> Json:
        """Store an object; it comes back with its new resource version."""
        self.revision += 1
        value = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.revision)}}
        old = self._objects.get(key)
        self._objects[key] = value
        self._write(Write(self.revision, key, value, old))
        return value

    def delete(self, key: Key) -> Json:
        """Remove an object; its last state comes back, with the revision of the removal."""
        self.revision += 1
        old = self._objects.pop(key)
        self._write(Write(self.revision, key, None, old))
        return {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}}

    def items(self, resource: str, namespace: str = "", at: int | None = None) -> Iterator[tuple[Key, Json]]:
        """The objects of a resource by key; in one namespace or in all; as of now or of an earlier revision.

        Raises:
            ApiError: 410, the revision has been compacted away.
        """
        state = self._objects if at is None or at >= self.revision else self._as_of(at)
        for key in sorted(key for key in state if key.resource == resource and namespace in ("", key.namespace)):
            yield key, state[key]

    def writes_after(self, revision: int) -> list[Write]:
        """The writes that came later.

        Raises:
            ApiError: 410, some of them have been compacted away.
        """
        if revision < self._compacted:
            raise expired(f"too old resource version: {revision} ({self._compacted})")
        return self._writes[bisect_right(self._writes, revision, key=lambda write: write.revision) :]

    def compact(self) -> None:
        """Forget all writes up to now: who asks for an earlier revision gets 410."""
        self._compacted = self.revision
        self._writes.clear()

    def listen(self, listener: Callable[[Write], None]) -> None:
        """Call back after each write, with it."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Write], None]) -> None:
        """No longer call back."""
        self._listeners.remove(listener)

    def _write(self, write: Write) -> None:
        self._writes.append(write)
        for listener in tuple(self._listeners):
            listener(write)

    def _as_of(self, revision: int) -> dict[Key, Json]:
        state = dict(self._objects)
        for write in reversed(self.writes_after(revision)):
            if write.old is None:
                state.pop(write.key, None)
            else:
                state[write.key] = write.old
        return state
