"""What the sweeper is given: AISimulate's input, its section `dgdr_run`, and the number of replications."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import msgspec
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from dgdr_retune.api import INPUT_VARIABLE, REPLICATIONS_VARIABLE
from dgdr_retune.sweeper._errors import InputError

Json = Any

OUTPUT_SECTION: Final = "dgdr_run"

MAX_INPUT_BYTES: Final = 1 << 20
"""A file's size at most; a process gets at most 128 KiB in one variable of its environment."""

MAX_REPLICATIONS: Final = 1000
"""Metrics of so many replications fit into one Candidate: an API server stores 1.5 MiB of an object."""

MAX_PUBLISHED: Final = 8000
"""Replications of all candidates of one snapshot: metrics of so many are 6 MB, of which a publisher reads 8 MiB."""

_VERSION: Final = r"(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})"


class Section(BaseModel):
    """A part of the input: unknown keys are refused, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OutputSection(Section):
    """The section `dgdr_run`, as AISimulate's output adapter of that name reads it."""

    name: Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    """The Run; names of rendered deployments begin with it."""
    snapshot_dir: Annotated[str, Field(min_length=1)] | None = None
    """Where the snapshot is written."""
    namespace: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Namespace of rendered deployments."""
    generator: Literal["aic", "direct"] = "aic"
    """What renders: AISimulate's own (`aic`), or a template."""
    runtime_image: Annotated[str, Field(min_length=1, max_length=1024)]
    """Image of rendered deployments; its tag is a version such as 1.6.1 unless `runtime_version_override` is one."""
    runtime_version_override: Annotated[str, Field(pattern=rf"^{_VERSION}$")] | None = None
    """Version of Dynamo in the image."""
    num_gpus_per_node: Annotated[int, Field(ge=1, strict=True)]
    """GPUs of one node."""
    max_candidates: Annotated[int, Field(ge=1, strict=True)] = 5
    """So many candidates at most are in a snapshot."""
    snapshot_interval_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)] = 5.0
    """Least time between two snapshots, the first and the last excepted."""

    @model_validator(mode="after")
    def _has_version(self) -> Self:
        name = self.runtime_image.partition("@")[0].rpartition("/")[2]
        if self.runtime_version_override is None and not re.fullmatch(_VERSION, name.rpartition(":")[2]):
            raise ValueError(
                "the tag of runtime_image must be a version such as 1.6.1, or give runtime_version_override"
            )
        return self


def read_document(environment: Mapping[str, str], file: Path | None) -> dict[str, Json]:
    """AISimulate's input with `dgdr_run`: from a file (YAML, so JSON too), else from the environment (JSON).

    Errors: `InputError`.
    """
    document = _json(environment) if file is None else _yaml(file)
    if not isinstance(document, dict):
        raise InputError("the input is no mapping; give AISimulate's sections and dgdr_run")
    return document


def output_section(document: Mapping[str, Json]) -> OutputSection:
    """The section `dgdr_run`.

    Errors: `InputError`.
    """
    if OUTPUT_SECTION not in document:
        raise InputError(f"{OUTPUT_SECTION}: missing; it says where the snapshot goes and what candidates are made of")
    try:
        return OutputSection.model_validate(document[OUTPUT_SECTION])
    except ValidationError as error:
        raise InputError(faults(error, OUTPUT_SECTION)) from error


def replications(environment: Mapping[str, str]) -> int:
    """How often each candidate is replayed; once where nothing is said, as AISimulate does.

    Errors: `InputError`.
    """
    text = environment.get(REPLICATIONS_VARIABLE, "1")
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text) or int(text) > MAX_REPLICATIONS:
        raise InputError(f"{REPLICATIONS_VARIABLE}: {text[:40]!r} is no whole number from 1 to {MAX_REPLICATIONS}")
    return int(text)


def faults(error: ValidationError, path: str = "") -> str:
    """Every fault with the path of what is wrong."""
    return "; ".join(_fault(each, path) for each in error.errors(include_url=False))


def _fault(error: ErrorDetails, path: str) -> str:
    where = _dotted([path, *error["loc"]] if path else error["loc"])
    what = error["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


def _dotted(location: Sequence[str | int]) -> str:
    """The path of a key: a knob's alternative is named after its key, and stands before it."""
    keys = [key for key, _ in groupby(location) if key != "scalar"]
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def _json(environment: Mapping[str, str]) -> Json:
    try:
        return msgspec.json.decode(environment[INPUT_VARIABLE].encode("utf-8", "surrogateescape"))
    except KeyError:
        raise InputError(f"no input: set {INPUT_VARIABLE}, or give --config") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{INPUT_VARIABLE}: not JSON: {error}") from error


def _yaml(file: Path) -> Json:
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_INPUT_BYTES + 1)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; give a readable file") from error
    if len(text) > MAX_INPUT_BYTES:
        raise InputError(f"{file}: over {MAX_INPUT_BYTES} bytes; an input has a few KiB")
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: not YAML: {error}") from error
