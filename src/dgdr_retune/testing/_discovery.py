"""What clients ask before they know which resources there are."""

from collections.abc import Mapping, Sequence
from typing import Final

from dgdr_retune.testing._json import Json
from dgdr_retune.testing._requests import Request, Response
from dgdr_retune.testing._resources import Resource

_VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_FIXED: Final[Mapping[str, Json]] = {
    "healthz": "ok",
    "livez": "ok",
    "readyz": "ok",
    "version": {"major": "1", "minor": "36", "gitVersion": "v1.36.3+simulated"},
    "api": {"kind": "APIVersions", "versions": ["v1"]},
}


def discover(resources: Sequence[Resource], request: Request) -> Response | None:
    """The answer to a question about what is served; None if it is none of those."""
    if request.method != "GET":
        return None
    path = request.path.strip("/")
    if path in _FIXED:
        return Response(200, _FIXED[path])
    served = dict.fromkeys((each.group, each.version) for each in resources)
    if path == "apis":
        groups = [_group(group, version) for group, version in served if group]
        return Response(200, {"apiVersion": "v1", "kind": "APIGroupList", "groups": groups})
    for group, version in served:
        if path == (f"apis/{group}/{version}" if group else f"api/{version}"):
            return Response(200, _resource_list(resources, group, version))
    return None


def _group(group: str, version: str) -> Json:
    served = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [served], "preferredVersion": served}


def _resource_list(resources: Sequence[Resource], group: str, version: str) -> Json:
    served = [each for each in resources if (each.group, each.version) == (group, version)]
    parts = [(each, "") for each in served] + [(each, "/status") for each in served if each.has_status]
    return {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": sorted((_resource(each, part) for each, part in parts), key=lambda entry: str(entry["name"])),
    }


def _resource(resource: Resource, part: str) -> Json:
    return {
        "name": resource.plural + part,
        "singularName": "" if part else resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["get", "patch", "update"] if part else _VERBS,
        **({} if part else {"shortNames": list(resource.short_names)}),
    }
