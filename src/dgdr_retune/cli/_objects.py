"""Kubernetes objects in YAML and JSON files, read as `kubectl` reads them."""

import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

Json = Any

_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")


class ObjectFileError(ValueError):
    """A file that cannot be read as objects; the message names the file and the place."""

    reason: Final = "UnreadableFile"


class _Loader(yaml.SafeLoader):
    """A key that comes twice is an error, a date stays a string, 1e3 is a number."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Json]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    "while reading an object", node.start_mark, f"the key {key!r} comes twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


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
