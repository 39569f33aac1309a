"""Kubernetes objects in YAML and JSON files, read as `kubectl` reads them."""

import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

Json = Any

_INT: Final = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT: Final = re.compile(
    r"[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"
)
_TAG: Final = "tag:yaml.org,2002:"
_RESOLVED_OTHERWISE: Final = {_TAG + name for name in ("int", "float", "timestamp", "value")}
_JSON_TAGS: Final = {_TAG + name for name in ("null", "bool", "int", "float", "str", "seq", "map")}


class ObjectFileError(ValueError):
    """A file that cannot be read as objects; the message names the file and the place."""

    reason: Final = "UnreadableFile"


class _Loader(yaml.SafeLoader):
    """What JSON can hold: a date and a time (12:30) stay strings, 1e3 is a number, a key that comes twice an error."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _RESOLVED_OTHERWISE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012 - as above
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag in _JSON_TAGS
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Json:  # noqa: FBT001, FBT002 - PyYAML's signature
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError) as error:
            kind = node.tag.removeprefix(_TAG)
            raise yaml.constructor.ConstructorError(
                None, None, f"cannot be read as {kind}: {error}", node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Json]:  # noqa: FBT001, FBT002 - as above
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == _TAG + "merge":
                continue  # its keys give way to those that are written out
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(
                    "while reading an object", node.start_mark, "a key is a list or an object", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    "while reading an object", node.start_mark, f"the key {key!r} comes twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver(_TAG + "int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+.0123456789"))


def objects(path: Path) -> Iterator[Json]:
    """The objects of a file, the items of lists one by one.

    Errors: `ObjectFileError`.
    """
    try:
        documents = list(yaml.load_all(path.read_bytes(), Loader=_Loader))
    except (OSError, yaml.YAMLError, RecursionError) as error:
        raise ObjectFileError(f"{path}: {error}") from error
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List" and isinstance(document.get("items"), list):
            yield from document["items"]
        elif document is not None:
            yield document
