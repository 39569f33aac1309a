"""`dgdr-retune crds`, `lower` and `validate`: the API without a cluster, and its definitions on one."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import typer
import yaml
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient

from dgdr_retune.api import (
    CANDIDATE,
    KINDS,
    REQUEST,
    RUN,
    Kind,
    crd_text,
    custom_resource_definition,
    kind_of,
    metadata_faults,
    validate,
)
from dgdr_retune.cli._install import DefinitionRefusedError, ForeignDefinitionError, NamesTakenError, install
from dgdr_retune.cli._objects import ObjectFileError, objects
from dgdr_retune.lowering import LoweringError, lower


class KindName(StrEnum):
    """A kind, as options spell it."""

    REQUEST = "request"
    RUN = "run"
    CANDIDATE = "candidate"


_KINDS: dict[KindName, Kind] = {KindName.REQUEST: REQUEST, KindName.RUN: RUN, KindName.CANDIDATE: CANDIDATE}


def register(app: typer.Typer) -> None:
    """Add the commands of this module to the application."""
    app.command("crds")(_crds)
    app.command("lower")(_lower)
    app.command("validate")(_validate)


def _crds(
    kind: Annotated[list[KindName] | None, typer.Option(help="Only this kind; may be given more than once.")] = None,
    write: Annotated[
        Path | None,
        typer.Option(help="Write one file a kind into this directory instead; it is made.", file_okay=False),
    ] = None,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Install them on the cluster of the kubeconfig instead.")
    ] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="With --apply: this file instead of $KUBECONFIG or ~/.kube/config.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="With --apply: this context of it.")] = None,
) -> None:
    """Print the CustomResourceDefinitions, generated from the models."""
    kinds = [_KINDS[name] for name in kind] if kind else list(KINDS)
    if apply:
        _apply(kinds, kubeconfig, context)
    elif write is not None:
        try:
            write.mkdir(parents=True, exist_ok=True)
            for each in kinds:
                (write / f"{each.crd_name}.yaml").write_text(crd_text(each), encoding="utf-8")
        except OSError as error:
            raise _failed(f"the definitions cannot be written: {error}") from error
    else:
        typer.echo("---\n".join(crd_text(each) for each in kinds), nl=False)


def _apply(kinds: list[Kind], kubeconfig: Path | None, context: str | None) -> None:
    try:
        asyncio.run(_install([custom_resource_definition(each) for each in kinds], kubeconfig, context))
    except config.ConfigException as error:
        raise _failed(f"there is no cluster to talk to: {error}") from error
    except TimeoutError as error:
        raise _failed("applied, but the API server does not serve them yet; look again in a minute") from error
    except (aiohttp.ClientError, OSError) as error:
        raise _failed(f"the cluster cannot be reached: {error}") from error
    except (DefinitionRefusedError, ForeignDefinitionError, NamesTakenError) as error:
        raise _failed(str(error)) from error
    for each in kinds:
        typer.echo(f"{each.crd_name} applied")


async def _install(definitions: list[dict[str, Any]], kubeconfig: Path | None, context: str | None) -> None:
    await config.load_kube_config(None if kubeconfig is None else str(kubeconfig), context=context)
    async with ApiClient() as client:
        await install(client, definitions)


def _lower(
    request: Annotated[Path, typer.Argument(help="A file with one Request (or Run).", exists=True, dir_okay=False)],
) -> None:
    """Print the AISimulate input that a Request lowers to; one that admission would refuse has none."""
    try:
        found = list(objects(request))
    except ObjectFileError as error:
        raise _failed(str(error)) from error
    if len(found) != 1 or not isinstance(found[0], dict):
        raise _failed(f"{request}: holds {len(found)} objects; give a file with one Request")
    verdict = validate(found[0])
    for warning in verdict.warnings:
        typer.echo(f"warning: {request}: {warning}", err=True)
    for fault in verdict.errors:
        typer.echo(f"error: {request}: {fault}", err=True)
    if verdict.errors:
        raise typer.Exit(1)
    try:
        lowered = lower(found[0])
    except LoweringError as error:
        raise _failed(f"{request}: {error.reason}: {error}") from error
    typer.echo(yaml.safe_dump(lowered.document, sort_keys=False, width=120, allow_unicode=True), nl=False)
    if (mount := lowered.trace) is not None:
        typer.echo(f"# mounts {mount.sub_path} of claim {mount.claim_name} at {mount.mount_path}", err=True)


def _validate(
    files: Annotated[
        list[Path], typer.Argument(help="Files with Requests, Runs or Candidates.", exists=True, dir_okay=False)
    ],
) -> None:
    """Print what an API server would say about each new object; the status is 1 if one would be refused.

    Of metadata it judges names, labels, annotations and types; whether a namespace exists the cluster alone knows.
    """
    refused = False
    for path in files:
        try:
            found = list(objects(path))
        except ObjectFileError as error:
            refused = True
            typer.echo(f"error: {error}")
            continue
        for each in found:
            verdict = validate(each)
            faults = verdict.errors
            if isinstance(each, dict) and kind_of(each) is not None:
                known = {fault.path for fault in faults}
                faults += tuple(fault for fault in metadata_faults(each.get("metadata")) if fault.path not in known)
            refused = refused or bool(faults)
            typer.echo(f"{path}: {_title(each)}: {'refused' if faults else 'ok'}")
            for fault in faults:
                typer.echo(f"  error: {fault}")
            for warning in verdict.warnings:
                typer.echo(f"  warning: {warning}")
    raise typer.Exit(int(refused))


def _title(value: Any) -> str:
    if not isinstance(value, dict):
        return "not an object"
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{value.get('kind', 'no kind')} {name or 'without a name'}"


def _failed(message: str) -> typer.Exit:
    typer.echo(f"error: {message}", err=True)
    return typer.Exit(1)
