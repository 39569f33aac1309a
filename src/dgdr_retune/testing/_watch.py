"""A watch: the writes to a resource since a revision, as one client sees them through its selectors."""

from collections.abc import Callable
from typing import Final

from attrs import frozen

from dgdr_retune.testing._errors import ApiError
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._store import Store, Write

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

Event = dict[str, Json]
"""``{"type": ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, "object": …}``."""


@frozen
class Scope:
    """What a watch or a list looks at.

    Attributes:
        resource: as it is stored.
        namespace: empty for all.
        selects: whether an object is among those asked for.
        shown: how an object looks to a client.
    """

    resource: str
    namespace: str
    selects: Callable[[Json], bool]
    shown: Callable[[Json], Json]


class Watch:
    """A stream that is asked for what is new; it never waits.

    After an ERROR event it is over.
    """

    def __init__(self, store: Store, scope: Scope, revision: int, first: list[Event], blank: Json) -> None:
        self._store = store
        self._scope = scope
        self._revision = revision
        self._first = first
        self._blank = blank
        self.over = False

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self._first = self._first, []
        if self.over:
            return events
        try:
            writes = self._store.writes_after(self._revision)
        except ApiError as error:
            self.over = True
            return [*events, {"type": "ERROR", "object": error.status()}]
        for write in writes:
            self._revision = write.revision
            if self.is_about(write):
                events += self._seen(write)
        return events

    def is_about(self, write: Write) -> bool:
        """Whether a write is to what is watched, whatever the selectors say."""
        return write.key.resource == self._scope.resource and self._scope.namespace in ("", write.key.namespace)

    def bookmark(self, *, ends_initial_events: bool = False) -> Event:
        """How far the client has seen."""
        metadata: Json = {"resourceVersion": str(self._revision)}
        if ends_initial_events:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return {"type": "BOOKMARK", "object": {**self._blank, "metadata": metadata}}

    def _seen(self, write: Write) -> list[Event]:
        shown, selects = self._scope.shown, self._scope.selects
        was = write.old is not None and selects(write.old)
        is_now = write.new is not None and selects(write.new)
        if is_now:
            return [{"type": "MODIFIED" if was else "ADDED", "object": shown(write.new)}]
        if not was:
            return []
        last = write.old if write.new is None else write.new
        metadata = {**last["metadata"], "resourceVersion": str(write.revision)}
        return [{"type": "DELETED", "object": shown({**last, "metadata": metadata})}]
