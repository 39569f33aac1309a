"""YAML from people: safe types only, bounded in size and aliases, every value with the line it stands on."""

import re
from typing import Any, NoReturn

import yaml
from attrs import frozen

from dgdr_retune.planner._errors import ConfigurationError

MAX_BYTES = 1 << 20  # a configuration of this project is a few KiB
MAX_NODES = 100_000  # counted after aliases are expanded: a few aliases of aliases make billions
MAX_DEPTH = 64

_SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}

Location = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """Safe loading, by YAML 1.2 where 1.1 surprises people: 1e3 is a number; dates, 017, 1:30, yes, no are text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 -- the attribute by which PyYAML's resolvers are set
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag.rpartition(":")[2] not in {"timestamp", "bool", "int", "float"}
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF")
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9]\d*)$"), "-+0123456789")
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
    "-+0123456789.",
)


@frozen
class Document:
    """A YAML document as plain values, and where each of them stands (1-based lines, by path)."""

    source: str
    value: Any
    lines: dict[Location, int]

    def line(self, location: Location) -> int:
        """The line of the value at `location`, or of the nearest part above it that the document has."""
        while location not in self.lines and location:
            location = location[:-1]
        return self.lines.get(location, 1)


def parse_yaml(text: bytes, *, source: str) -> Document:
    """Parse one YAML document.

    Args:
        text: UTF-8 text, at most 1 MiB.
        source: the file's name, for messages.

    Raises:
        ConfigurationError: not UTF-8, not YAML, too large, too deep, too many aliases, a repeated key, or more than
            one document; the message names the line.
    """
    if len(text) > MAX_BYTES:
        raise ConfigurationError(f"{source}: {len(text)} bytes; a configuration has at most {MAX_BYTES}")
    try:
        loader = _Loader(text.decode("utf-8"))
        node = loader.get_single_node()
        lines: dict[Location, int] = {}
        if node is not None:
            _check(source, node, (), lines, _Budget(MAX_NODES))
        return Document(source, loader.construct_document(node) if node is not None else None, lines)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigurationError(f"{source}:{line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # of what a tag is put before
        raise ConfigurationError(f"{source}: not YAML: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{source}: nested too deeply; at most {MAX_DEPTH} levels") from error


class _Budget:
    """How many nodes are still allowed."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes


def _check(source: str, node: yaml.Node, at: Location, lines: dict[Location, int], budget: _Budget) -> None:
    """Walk the document as a reader would see it, aliases expanded."""
    budget.nodes -= 1
    line = node.start_mark.line + 1
    if budget.nodes < 0:
        _refuse(source, line, f"over {MAX_NODES} values after expanding aliases; write it without aliases")
    if len(at) > MAX_DEPTH:
        _refuse(source, line, f"nested deeper than {MAX_DEPTH} levels")
    lines[at] = line
    if isinstance(node, yaml.ScalarNode) and node.tag not in _SCALARS:
        _refuse(source, line, f"the tag {node.tag!r} is not used here; write the plain value")
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _check(source, item, (*at, index), lines, budget)
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, item in node.value:
            here = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                _refuse(source, here, "a key must be plain text")
            if key.value in seen:
                _refuse(source, here, f"the key {key.value!r} stands twice")
            seen.add(key.value)
            _check(source, item, (*at, key.value), lines, budget)
            lines[(*at, key.value)] = here


def _refuse(source: str, line: int, what: str) -> NoReturn:
    raise ConfigurationError(f"{source}:{line}: {what}")
