"""Which Events there are about which object, and when one may be written: bounded in number, size and rate. Pure."""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Literal, TypeAlias

from attrs import define, field, frozen

from dgdr_retune.kube._resource import EVENTS, Json

EventType: TypeAlias = Literal["Normal", "Warning"]

MAX_OBJECTS: Final = 1024
"""Objects that are remembered; of those that had no Event for longest nothing is."""
MAX_SERIES: Final = 32
"""Events of one object that are remembered."""
MAX_SIMILAR: Final = 10
"""Events of one object, type and reason, with different messages, within `SIMILAR_S`; more are combined into one."""
SIMILAR_S: Final = 600.0
BURST: Final = 25
"""Writes about one object at once."""
REFILL_S: Final = 300.0
"""Per write after that."""
MAX_MESSAGE: Final = 1024

_MAX_NAME: Final = 253
_COMBINED: Final = "(combined from similar events): "


@frozen
class About:
    """The object that an Event is about, as its ``involvedObject`` names it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, obj: Mapping[str, Json]) -> "About":
        """The reference to an object."""
        metadata = obj["metadata"]
        return cls(
            obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"], metadata.get("uid", "")
        )

    def reference(self) -> dict[str, Json]:
        """As JSON."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {name: value for name, value in fields.items() if value}


@define(eq=False)
class Series:
    """One Event: the same thing, said about the same object any number of times.

    Attributes:
        about: the object.
        type: of the Event.
        reason: of the Event.
        message: the latest.
        name: the Event's.
        first: when it was said first.
        last: when it was said last.
        last_s: the same by the loop's clock.
        count: how often it was said.
        written: what of that the server knows.
        is_stored: whether the server has the Event.
        failures: attempts in a row to write it that failed.
    """

    about: About
    type: EventType
    reason: str
    message: str
    name: str
    first: datetime
    last: datetime
    last_s: float
    count: int = 0
    written: int = 0
    is_stored: bool = False
    failures: int = 0

    @property
    def namespace(self) -> str:
        """Where the Event is; Events about what is in no namespace are in ``default``."""
        return self.about.namespace or "default"

    def event(self, component: str) -> dict[str, Json]:
        """The whole Event (core/v1)."""
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"namespace": self.namespace, "name": self.name},
            "involvedObject": self.about.reference(),
            "type": self.type,
            "reason": self.reason,
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": _time(self.first),
            **self.changes(),
        }

    def changes(self) -> dict[str, Json]:
        """What of it changes."""
        return {"message": self.message, "count": self.count, "lastTimestamp": _time(self.last)}


@define
class _Object:
    """What was said about one object, and how many writes it has left."""

    series: OrderedDict[tuple[EventType, str, str], Series] = field(factory=OrderedDict)
    writes: float = float(BURST)
    at_s: float = 0.0

    def refill(self, now_s: float) -> None:
        self.writes = min(float(BURST), self.writes + (now_s - self.at_s) / REFILL_S)
        self.at_s = now_s


class SeriesBook:
    """All Events of one recorder, and which of them the server does not know as they are.

    Times in seconds are the loop's.
    """

    def __init__(self) -> None:
        self._objects: OrderedDict[About, _Object] = OrderedDict()
        self._waiting: dict[Series, None] = {}

    def say(self, about: About, type_: EventType, reason: str, message: str, *, now: datetime, now_s: float) -> None:
        """Count one occurrence."""
        known = self._objects.setdefault(about, _Object())
        self._objects.move_to_end(about)
        if len(self._objects) > MAX_OBJECTS:
            _, oldest = self._objects.popitem(last=False)
            for old in oldest.series.values():
                self._waiting.pop(old, None)
        message = message[:MAX_MESSAGE]
        key = (type_, reason, message)
        if key not in known.series and _similar(known, type_, reason, now_s) >= MAX_SIMILAR:
            key = (type_, reason, _COMBINED)
            message = (_COMBINED + message)[:MAX_MESSAGE]
        series = known.series.get(key)
        if series is None:
            name = _name(about, key, now)
            series = known.series[key] = Series(about, type_, reason, message, name, first=now, last=now, last_s=now_s)
        known.series.move_to_end(key)
        if len(known.series) > MAX_SERIES:
            _, old = known.series.popitem(last=False)
            self._waiting.pop(old, None)
        series.message, series.last, series.last_s = message, now, now_s
        series.count += 1
        self._waiting.setdefault(series)

    def due(self, now_s: float) -> Series | None:
        """The Event that waits longest of those that may be written now. That takes one write of its object's."""
        for series in self._waiting:
            known = self._objects[series.about]
            known.refill(now_s)
            if known.writes >= 1.0:
                known.writes -= 1.0
                return series
        return None

    def next_due_s(self, now_s: float) -> float | None:
        """When one of those that wait may be written; None if none waits."""
        waiting = (self._objects[series.about] for series in self._waiting)
        return min((now_s + max(0.0, 1.0 - known.writes) * REFILL_S for known in waiting), default=None)

    def wrote(self, series: Series, count: int) -> None:
        """The server knows of so many occurrences."""
        series.is_stored, series.written, series.failures = True, count, 0
        if series.written == series.count:
            self._waiting.pop(series, None)

    def forget(self, series: Series) -> None:
        """Begin a new Event when it is said again."""
        self._waiting.pop(series, None)
        known = self._objects.get(series.about)
        if known is not None:
            known.series = OrderedDict((key, each) for key, each in known.series.items() if each is not series)

    def __len__(self) -> int:
        """How many Events are remembered."""
        return sum(len(known.series) for known in self._objects.values())


def _similar(known: _Object, type_: EventType, reason: str, now_s: float) -> int:
    return sum(
        (each.type, each.reason) == (type_, reason) and each.last_s > now_s - SIMILAR_S
        for each in known.series.values()
    )


def _name(about: About, key: tuple[EventType, str, str], now: datetime) -> str:
    """A name of its own that a repeated creation finds again."""
    said = "\0".join((about.kind, about.namespace, about.name, about.uid, *key, now.isoformat()))
    digest = sha256(said.encode()).hexdigest()[:16]
    return f"{about.name[: _MAX_NAME - len(digest) - 1].rstrip('.-')}.{digest}"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
