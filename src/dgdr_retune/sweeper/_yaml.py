"""YAML as snapshots and manifests have it: in the given order, one line a string, written by libyaml where it is."""

from typing import Any, Final

import yaml

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ONE_LINE: Final = 2**31 - 1


def dump(value: Any) -> str:
    """A plain value as YAML."""
    text: str = yaml.dump(value, Dumper=_DUMPER, sort_keys=False, width=_ONE_LINE)
    return text


def load(text: str) -> Any:
    """A YAML document as plain values; raises as `yaml` does."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 -- both loaders are the safe ones
