"""Putting our CustomResourceDefinitions on a cluster, and only ours."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from attrs import frozen
from kubernetes_asyncio.client import ApiClient, ApiException, ApiextensionsV1Api

from dgdr_retune.api import CRD_OWNER, CRD_OWNER_LABEL

FIELD_MANAGER: Final = "dgdr-retune"

IN_FORCE_WITHIN_S: Final = 30.0

_LOOK_EVERY_S: Final = 0.1
_APPLY: Final = "application/apply-patch+yaml"
_JSON_PATCH: Final = "application/json-patch+json"


class ForeignDefinitionError(Exception):
    """A CRD of this name is there already and is not ours; nothing was changed."""

    reason: Final = "ForeignDefinition"


class DefinitionRefusedError(Exception):
    """The API server refused to read or to write a CRD; the message names it and says why, in one line."""

    reason: Final = "DefinitionRefused"


class NamesTakenError(Exception):
    """A CRD was applied and is not served, for another one has its kind or short name."""

    reason: Final = "NamesTaken"


@frozen
class _Present:
    resource_version: str
    ours: bool
    serves: str


async def install(client: ApiClient, definitions: Sequence[dict[str, Any]]) -> None:
    """Apply the CRDs by server-side apply, and wait until they are served.

    None is applied unless the server would take each of them, which a dry run tells. What changes on the cluster after
    that can still stop it between two of them; done again it applies the rest.

    Errors: `ForeignDefinitionError`, `DefinitionRefusedError`, `NamesTakenError`, `TimeoutError` after 30 s.
    """
    api = ApiextensionsV1Api(client)
    names = [definition["metadata"]["name"] for definition in definitions]
    present = []
    for name in names:
        with _named(name):
            present.append(await _present(api, name))
    pairs = zip(names, present, strict=True)
    if foreign := [f"{name} {each.serves}" for name, each in pairs if each is not None and not each.ours]:
        raise ForeignDefinitionError(
            f"not ours, so nothing was changed: {'; '.join(foreign)}."
            " Run on what is served, or remove these definitions and their objects first"
        )
    for dry_run in (True, False):
        for definition, each in zip(definitions, present, strict=True):
            with _named(definition["metadata"]["name"]):
                await _apply(api, definition, each, dry_run=dry_run)
    async with asyncio.timeout(IN_FORCE_WITHIN_S):
        for name in names:
            with _named(name):
                while not await _in_force(api, name):  # noqa: ASYNC110 - another process changes it
                    await asyncio.sleep(_LOOK_EVERY_S)


async def _apply(
    api: ApiextensionsV1Api, definition: dict[str, Any], present: _Present | None, *, dry_run: bool
) -> None:
    name = definition["metadata"]["name"]
    options: dict[str, Any] = {"field_manager": FIELD_MANAGER} | ({"dry_run": "All"} if dry_run else {})
    if present is not None:
        # server-side apply leaves what another manager (kubectl, Helm) wrote beside ours: a looser schema would stay
        unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": present.resource_version}
        spec = {"op": "replace", "path": "/spec", "value": definition["spec"]}
        await api.patch_custom_resource_definition(  # type: ignore[call-arg]  # its stub lacks _content_type
            name, [unchanged, spec], _content_type=_JSON_PATCH, **options
        )
        if dry_run:
            return  # the apply would be tried on what the patch has not replaced
    await api.patch_custom_resource_definition(  # type: ignore[call-arg]  # as above
        name, definition, force=present is not None, _content_type=_APPLY, **options
    )


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        try:
            said = json.loads(error.body or b"")["message"]
        except (TypeError, ValueError, LookupError):  # something before the API server answered
            said = f"{error.status} {error.reason}"
        raise DefinitionRefusedError(f"{name}: the API server refuses: {' '.join(said.split())}") from error


async def _present(api: ApiextensionsV1Api, name: str) -> _Present | None:
    try:
        found = await api.read_custom_resource_definition(name)
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        raise
    served = [f"{each.name}{' (stored)' if each.storage else ''}" for each in found.spec.versions if each.served]
    managers = ", ".join(sorted({each.manager for each in found.metadata.managed_fields or ()}))
    return _Present(
        resource_version=found.metadata.resource_version,
        ours=(found.metadata.labels or {}).get(CRD_OWNER_LABEL) == CRD_OWNER,
        serves=f"serves {', '.join(served)}, written by {managers or 'nobody known'}",
    )


async def _in_force(api: ApiextensionsV1Api, name: str) -> bool:
    status = (await api.read_custom_resource_definition(name)).status
    conditions = {each.type: each for each in (status.conditions or ())}
    names = conditions.get("NamesAccepted")
    if names is not None and names.status == "False":
        raise NamesTakenError(f"{name} is applied, but another definition has its names: {names.message}")
    return "Established" in conditions and conditions["Established"].status == "True"
