"""How the process is told what to do: flags and the environment of its pod."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

_VARIABLES: Final = {"namespace": "POD_NAMESPACE", "pod_name": "POD_NAME"}


class SettingsError(ValueError):
    """A flag or a variable that cannot be used; the message names it."""

    reason: Final = "InvalidSettings"


def _seconds(value: Any) -> Any:
    """A duration as Go writes it (`1s`, `1m30s`, `250ms`), in seconds."""
    if not isinstance(value, str):
        return value
    parts = _DURATION.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError("write a duration such as 1s, 500ms or 1m30s")
    return sum(float(number) * _UNIT_S[unit] for number, unit in parts)


_Name = Annotated[str, Field(pattern=_SUBDOMAIN, max_length=253)]


class Settings(BaseModel):
    """Everything the process goes by."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    snapshot_dir: Path
    """the directory in which the sweeper writes its snapshot"""
    run_name: _Name
    """the Run to publish for, in the pod's namespace"""
    sweeper_container: Annotated[str, Field(min_length=1)] = "sweeper"
    """the name of the sweeper's container in this pod"""
    poll_interval: Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=3600)] = 1.0
    """how long to wait between two polls, such as 1s or 500ms"""
    namespace: _Name
    """the pod's namespace"""
    pod_name: _Name
    """the pod's name"""


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the process with a code of its own."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings of a command line and an environment.

    Errors: `SettingsError`. `--help` ends the process.
    """
    parser = _Parser(
        prog="python -m dgdr_retune.publisher",
        description="Publish a sweeper's snapshots as Candidates and as the Run's status.",
        epilog="POD_NAMESPACE and POD_NAME come from the pod (downward API). Exit codes: 0 published, or the sweeper"
        " failed; 1 not published, wrong flags or SIGTERM; 3 no valid final snapshot; 4 the sweeper says it failed.",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    for name, field in Settings.model_fields.items():
        if name not in _VARIABLES:
            parser.add_argument(_flag(name), dest=name, required=field.is_required(), help=field.description)
    given = vars(parser.parse_args(arguments))
    variables = {name: environment[variable] for name, variable in _VARIABLES.items() if variable in environment}
    try:
        return Settings.model_validate({**given, **variables})
    except ValidationError as error:
        faults = (f"{_source(str(each['loc'][0]))}: {each['msg']}" for each in error.errors())
        raise SettingsError("; ".join(faults)) from error


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _source(name: str) -> str:
    return _VARIABLES.get(name) or _flag(name)
