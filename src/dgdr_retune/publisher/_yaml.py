"""YAML from a process that is not trusted, read as PyYAML writes it: plain values, bounded while they are built."""

import math
from collections.abc import Iterator
from typing import Any, Final

import yaml
from attrs import define, field

Json = Any

MAX_NODES: Final = 500_000
"""Values after aliases are expanded: a few aliases of aliases make billions."""

MAX_DEPTH: Final = 64

_NUMBER_SHOWN: Final = 100

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "null"))
_COLLECTIONS: Final = frozenset((None, "!", _TAG + "seq", _TAG + "map"))


class YamlError(ValueError):
    """A text that is no YAML, or YAML that is not plain, or too much of it."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the fast one, where it was built
    """Events and the meaning of scalars; a date is text, for JSON has none."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the attribute by which PyYAML's resolvers are set
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TAG + "timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def events(self) -> Iterator[yaml.Event]:
        while self.check_event():
            yield self.get_event()


def documents(text: str) -> list[Json]:
    """The documents of a text as JSON values; what aliases share is shared.

    Errors: `YamlError` for what is no YAML, tags, repeated keys, keys that are no text, numbers that JSON does not
    have, text that is no Unicode, an alias of what is not whole yet, and more than `MAX_NODES` or `MAX_DEPTH`.
    """
    try:
        loader = _Loader(text)
        try:
            return _build(loader)
        finally:
            loader.dispose()
    except YamlError:
        raise
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise YamlError(f"line {line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(f"not YAML: {error}") from error


@define
class _Open:
    """A list or an object that is being filled; `key` is that of the value to come."""

    value: list[Json] | dict[str, Json]
    anchor: str | None
    nodes_before: int
    key: str | None = None

    def add(self, item: Json) -> None:
        if isinstance(self.value, list):
            self.value.append(item)
        elif self.key is not None:
            self.value[self.key] = item
            self.key = None
        elif not isinstance(item, str):
            raise YamlError("a key must be text; quote it")
        elif item in self.value:
            raise YamlError(f"the key {item[:100]!r} stands twice")
        else:
            self.key = item


@define
class _Builder:
    """Documents as they grow; `anchors` holds what is whole, with the nodes that it counts for."""

    loader: _Loader
    whole: list[Json] = field(factory=list)
    open_: list[_Open] = field(factory=list)
    anchors: dict[str, tuple[Json, int]] = field(factory=dict)
    nodes: int = 0

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self.anchors.clear()
            case yaml.ScalarEvent():
                self._put(_scalar(self.loader, event), 1, event.anchor)
            case yaml.AliasEvent():
                if event.anchor not in self.anchors:
                    raise YamlError(f"the alias *{event.anchor} stands within its own anchor, or has none")
                self._put(*self.anchors[event.anchor], None)
            case yaml.CollectionStartEvent():
                self._open(event)
            case yaml.CollectionEndEvent():
                closed = self.open_.pop()
                if closed.anchor:
                    self.anchors[closed.anchor] = (closed.value, self.nodes - closed.nodes_before)
            case _:
                pass  # the ends of documents and of the text

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        if event.tag not in _COLLECTIONS:
            raise YamlError(f"the tag {event.tag!r} is not used here; write the plain value")
        if len(self.open_) == MAX_DEPTH:
            raise YamlError(f"nested deeper than {MAX_DEPTH} levels")
        value: list[Json] | dict[str, Json] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        if event.anchor:
            self.anchors.pop(event.anchor, None)
        before = self.nodes
        self._put(value, 1, None)
        self.open_.append(_Open(value, event.anchor, before))

    def _put(self, value: Json, nodes: int, anchor: str | None) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise YamlError(f"more than {MAX_NODES} values, aliases expanded")
        if anchor:
            self.anchors[anchor] = (value, nodes)
        if self.open_:
            self.open_[-1].add(value)
        else:
            self.whole.append(value)


def _build(loader: _Loader) -> list[Json]:
    builder = _Builder(loader)
    for event in loader.events():
        try:
            builder.take(event)
        except YamlError as error:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise YamlError(f"line {line}: {error}") from error
    return builder.whole


def _scalar(loader: _Loader, event: yaml.ScalarEvent) -> Json:
    tag = event.tag
    if tag is None or tag == "!":
        tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
    if tag not in _SCALARS:
        raise YamlError(f"the tag {tag!r} is not used here; write the plain value")
    value = loader.yaml_constructors[tag](loader, yaml.ScalarNode(tag, event.value))
    if isinstance(value, int | float) and not _is_finite(value):
        raise YamlError(f"{event.value[:_NUMBER_SHOWN]} is no number that an API server takes; write null")
    if isinstance(value, str) and not value.isprintable():
        _check_unicode(value)
    return value


def _is_finite(number: float) -> bool:
    """Whether it is a finite number once an API server has read it: an integer beyond int64 as a double."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise YamlError("text with half a surrogate pair is no Unicode") from error
