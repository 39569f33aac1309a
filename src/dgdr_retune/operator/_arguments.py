"""From flags, environment and a file to settings."""

import argparse
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dgdr_retune import __version__
from dgdr_retune.operator._settings import Settings

ENVIRONMENT_PREFIX: Final = "DGDR_RETUNE_"
MAX_FILE_BYTES: Final = 1024 * 1024

_EXAMPLE: Final = """\
Every setting is a flag, a variable of the environment (--history-limit is
DGDR_RETUNE_HISTORY_LIMIT) and a key of the file given by --config
(history_limit: 10). A flag wins over the environment, which wins over the file.

  python -m dgdr_retune.operator --operator-namespace dgdr-retune \\
    --sweeper-image registry.example/dgdr-retune:0.1.0 \\
    --publisher-image registry.example/dgdr-retune:0.1.0 \\
    --runtime-image registry.example/vllm-runtime:1.6.1 --print-config

Exit codes: 0 stopped by SIGTERM or SIGINT, and the Lease is released; 1 it could
not go on; 2 settings. Inside a Pod its service account is used; elsewhere the
kubeconfig file, as kubectl does.
"""


class SettingsError(ValueError):
    """Settings that do not hold; each fault names the setting and where it came from."""

    reason: Final = "InvalidSettings"


def parser() -> argparse.ArgumentParser:
    """The flags: one for each setting."""
    made = argparse.ArgumentParser(
        prog="python -m dgdr_retune.operator",
        usage="%(prog)s [--config FILE] [--print-config] [--SETTING VALUE ...]",
        description="Turns Requests into Runs, Runs into Jobs, and holds the claim that a Job replays from.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=__version__)
    made.add_argument("--config", type=Path, metavar="FILE", help="a YAML file with settings")
    made.add_argument("--print-config", action="store_true", help="print the settings in force as YAML and exit")
    for name, field in Settings.model_fields.items():
        made.add_argument(_flag(name), dest=name, metavar="VALUE", help=_help(field))
    return made


def settings_from(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """The settings of a command line.

    Errors: `SettingsError`.
    """
    given: dict[str, Any] = {}
    source: dict[str, str] = {}
    if arguments.config is not None:
        given = _file(arguments.config)
        source = dict.fromkeys(given, str(arguments.config))
    for name in Settings.model_fields:
        variable = f"{ENVIRONMENT_PREFIX}{name.upper()}"
        if variable in environment:
            given[name], source[name] = environment[variable], variable
        if (value := getattr(arguments, name)) is not None:
            given[name], source[name] = value, _flag(name)
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        faults = (_fault(fault["loc"], fault["msg"], source) for fault in error.errors(include_url=False))
        raise SettingsError("\n".join(faults)) from error


def printed(settings: Settings) -> str:
    """The settings as a file that `--config` takes."""
    text: str = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, width=120)
    return text


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _help(field: FieldInfo) -> str:
    text = textwrap.shorten(field.description or "", 10_000)
    if field.is_required():
        return f"{text} Required.".replace("%", "%%")
    if field.default in (None, "", PydanticUndefined):
        return text.replace("%", "%%")
    return f"{text} [{field.default}]".replace("%", "%%")


def _file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; give the path of a file with settings") from error
    if len(text) > MAX_FILE_BYTES:
        raise SettingsError(f"{path}: over {MAX_FILE_BYTES} bytes; that is no file with settings")
    try:
        given = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not YAML: {error}") from error
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(key, str) for key in given):
        raise SettingsError(f"{path}: must hold settings by name, such as `history_limit: 10`")
    return given


def _fault(location: tuple[int | str, ...], message: str, source: Mapping[str, str]) -> str:
    message = message.removeprefix("Value error, ")
    if not location:
        return message
    name = str(location[0])
    if name not in Settings.model_fields:
        return f"{source[name]}: {name}: no such setting; see --help"
    if name not in source:
        return f"{_flag(name)} is required: give it, or set {ENVIRONMENT_PREFIX}{name.upper()}"
    return f"{source[name]}: {name}: {message}"
