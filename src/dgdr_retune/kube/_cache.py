"""The objects of one kind as a watch has shown them, and what we ourselves have written since."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from attrs import define

from dgdr_retune.kube._api import Listing
from dgdr_retune.kube._resource import Json

Object = dict[str, Json]
Change = tuple[Object | None, Object | None]
"""What was and what is; None before a creation and after a deletion."""
Project = Callable[[Object], Object]
Indexes = Mapping[str, Callable[[Object], Iterable[str]]]

_NONE: Final[Mapping[str, None]] = {}
_Key = TypeVar("_Key")


@define
class _Entry:
    """One object.

    Attributes:
        namespace, name, uid: of it.
        value: what is kept of it.
        version: its resource version.
        going: whether it is marked for deletion.
        shown: whether the server has shown it; False if we know it from our own write alone.
    """

    namespace: str
    name: str
    uid: str
    value: Object
    version: int
    going: bool
    shown: bool

    @property
    def place(self) -> tuple[str, str]:
        return self.namespace, self.name


def without_managed_fields(value: Object) -> Object:
    """The object without the record of who set which field: up to half of its size, and nothing here reads it."""
    metadata = {name: item for name, item in value["metadata"].items() if name != "managedFields"}
    return {**value, "metadata": metadata}


class Cache:
    """Reads without a call. What is read is shared and must not be changed.

    An object is its UID: one that was deleted and made again under its name is another one. A write of our own is seen
    at once if it is passed to :meth:`wrote`; until the watch has come as far, :meth:`is_behind` says so.

    Args:
        project: what is kept of an object.
        indexes: by name, the keys that what is kept can be found under.
    """

    def __init__(self, project: Project = without_managed_fields, indexes: Indexes | None = None) -> None:
        self._project = project
        self._keys_of = dict(indexes or {})
        self._entries: dict[str, _Entry] = {}
        self._places: dict[tuple[str, str], dict[str, None]] = {}
        self._indexes: dict[str, dict[str, dict[str, None]]] = {name: {} for name in self._keys_of}
        self._version = 0
        self._written: dict[str, int] = {}
        self._deleted: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, namespace: str, name: str) -> Object | None:
        """The object of that name; where one made again is known beside the one before, the newer."""
        found = [self._entries[uid] for uid in self._places.get((namespace, name), _NONE)]
        return max(found, key=lambda entry: entry.version).value if found else None

    def by_uid(self, uid: str) -> Object | None:
        """The object of that UID."""
        entry = self._entries.get(uid)
        return None if entry is None else entry.value

    def select(self, index: str, key: str) -> tuple[Object, ...]:
        """The objects under a key of an index, by namespace, name and UID."""
        return self._sorted(self._indexes[index].get(key, _NONE))

    def all(self) -> tuple[Object, ...]:
        """Every object, by namespace, name and UID."""
        return self._sorted(self._entries)

    def is_behind(self, namespace: str, name: str) -> bool:
        """Whether the watch has not come as far as our own last write to the object of that name."""
        uids = self._places.get((namespace, name), _NONE)
        return any(uid in self._written or uid in self._deleted for uid in uids)

    def wrote(self, written: Object) -> None:
        """Take in what the server answered to our own create, replace or patch; nothing is reported for it."""
        version = _version(written)
        uid = written["metadata"]["uid"]
        entry = self._entries.get(uid)
        if version <= self._version or (entry is not None and version < entry.version):
            return
        self._put(written, shown=entry is not None and entry.shown)
        self._written[uid] = version

    def deleted(self, deleted: Object) -> None:
        """Take in that the server has accepted our own deletion of this object; it stays until the watch shows more."""
        uid = deleted["metadata"]["uid"]
        entry = self._entries.get(uid)
        if entry is not None and not entry.going:
            self._deleted[uid] = None

    def listed(self, listing: Listing) -> list[Change]:
        """Take in a list, and give what it changes: deletions that no watch has shown come first."""
        version = int(listing.resource_version)
        unseen = self._written.copy()
        if version < self._version:  # the server was restored to an earlier moment: what came later never was
            self._written.clear()
            self._deleted.clear()
        self._forget_written(version)
        items = {item["metadata"]["uid"]: item for item in listing.items}
        gone = [uid for uid in self._entries if uid not in items and uid not in self._written]
        changes: list[Change] = [(self._drop(uid), None) for uid in gone]
        for uid, item in items.items():
            entry = self._entries.get(uid)
            if entry is not None and uid in self._written and entry.version > _version(item):
                entry.shown = True  # ours is newer
            elif entry is None or uid in unseen or entry.version != _version(item):
                changes.append(self._put(item, shown=True))
        self._version = version
        return changes

    def happened(self, kind: str, value: Object) -> list[Change]:
        """Take in an event of a watch, and give what it changes, at times (a repeated event) into itself."""
        version = _version(value)
        changes: list[Change] = []
        entry = None if kind == "BOOKMARK" else self._entries.get(value["metadata"]["uid"])
        is_news = entry is None or entry.version <= version
        if kind == "DELETED" and is_news:
            last = self._project(value) if entry is None else self._drop(entry.uid)
            changes.append((last, None))
        elif kind in ("ADDED", "MODIFIED") and is_news:
            changes.append(self._put(value, shown=True))
        self._version = max(self._version, version)
        unseen = [uid for uid in self._forget_written(self._version) if not self._entries[uid].shown]
        return changes + [(self._drop(uid), None) for uid in unseen]

    def _forget_written(self, version: int) -> list[str]:
        """The objects whose writes have been seen by a version: they are no longer behind."""
        seen = [uid for uid, written in self._written.items() if written <= version]
        for uid in seen:
            del self._written[uid]
        return seen

    def _put(self, value: Object, *, shown: bool) -> Change:
        metadata = value["metadata"]
        entry = _Entry(
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata["uid"],
            value=self._project(value),
            version=_version(value),
            going="deletionTimestamp" in metadata,
            shown=shown,
        )
        old = self._entries.get(entry.uid)
        if old is not None:
            self._unindex(old)
        self._entries[entry.uid] = entry
        self._places.setdefault(entry.place, {})[entry.uid] = None
        for index, keys_of in self._keys_of.items():
            for key in keys_of(entry.value):
                self._indexes[index].setdefault(key, {})[entry.uid] = None
        if entry.going and shown:
            self._deleted.pop(entry.uid, None)
        return None if old is None else old.value, entry.value

    def _drop(self, uid: str) -> Object:
        entry = self._entries.pop(uid)
        self._unindex(entry)
        _discard(self._places, entry.place, uid)
        self._written.pop(uid, None)
        self._deleted.pop(uid, None)
        return entry.value

    def _unindex(self, entry: _Entry) -> None:
        for index, keys_of in self._keys_of.items():
            for key in keys_of(entry.value):
                _discard(self._indexes[index], key, entry.uid)

    def _sorted(self, uids: Iterable[str]) -> tuple[Object, ...]:
        found = sorted((self._entries[uid] for uid in uids), key=lambda entry: (*entry.place, entry.uid))
        return tuple(entry.value for entry in found)


def _discard(groups: dict[_Key, dict[str, None]], key: _Key, uid: str) -> None:
    group = groups.get(key, {})
    group.pop(uid, None)
    if not group:
        groups.pop(key, None)


def _version(value: Object) -> int:
    """Resource versions of one kind can be compared as numbers."""
    return int(value["metadata"]["resourceVersion"])
