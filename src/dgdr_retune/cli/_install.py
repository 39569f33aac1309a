"""Putting our CustomResourceDefinitions on a cluster, and only ours."""

import asyncio
from collections.abc import Sequence
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


class NamesTakenError(Exception):
    """A CRD was applied and is not served, for another one has its kind or short name."""

    reason: Final = "NamesTaken"


@frozen
class _Present:
    resource_version: str
    ours: bool
    serves: str


async def install(client: ApiClient, definitions: Sequence[dict[str, Any]]) -> None:
    """Apply the CRDs by server-side apply, all of them or none, and wait until they are served.

    Errors: `ForeignDefinitionError`, `NamesTakenError`, `TimeoutError` after 30 s;
    `kubernetes_asyncio.client.ApiException` for what the API server refuses.
    """
    api = ApiextensionsV1Api(client)
    names = [definition["metadata"]["name"] for definition in definitions]
    present = [await _present(api, name) for name in names]
    pairs = zip(names, present, strict=True)
    if foreign := [f"{name} {each.serves}" for name, each in pairs if each is not None and not each.ours]:
        raise ForeignDefinitionError(
            f"not ours, so nothing was changed: {'; '.join(foreign)}."
            " Run on what is served, or remove these definitions and their objects first"
        )
    for definition, each in zip(definitions, present, strict=True):
        await _apply(api, definition, each)
    async with asyncio.timeout(IN_FORCE_WITHIN_S):
        for name in names:
            while not await _in_force(api, name):  # noqa: ASYNC110 - another process changes it
                await asyncio.sleep(_LOOK_EVERY_S)


async def _apply(api: ApiextensionsV1Api, definition: dict[str, Any], present: _Present | None) -> None:
    name = definition["metadata"]["name"]
    if present is not None:
        # server-side apply leaves what another manager (kubectl, Helm) wrote beside ours: a looser schema would stay
        unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": present.resource_version}
        versions = {"op": "replace", "path": "/spec/versions", "value": definition["spec"]["versions"]}
        await api.patch_custom_resource_definition(  # type: ignore[call-arg]  # its stub lacks _content_type
            name, [unchanged, versions], field_manager=FIELD_MANAGER, _content_type=_JSON_PATCH
        )
    await api.patch_custom_resource_definition(  # type: ignore[call-arg]  # as above
        name, definition, field_manager=FIELD_MANAGER, force=present is not None, _content_type=_APPLY
    )


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
