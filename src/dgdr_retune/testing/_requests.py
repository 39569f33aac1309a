"""A request to the API server, and where it points."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from attrs import field, frozen

from dgdr_retune.testing._errors import ApiError, Cause, invalid_options
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._resources import NAMESPACES, Resource
from dgdr_retune.testing._store import Key

FieldValidation = Literal["Strict", "Warn", "Ignore"]
MAX_BODY_BYTES: Final = 3 * 1024 * 1024
_JSON: Final = "application/json"


@frozen
class Request:
    """One request, as HTTP carries it.

    Attributes:
        method: GET, POST, PUT, PATCH or DELETE.
        path: without the query.
        query: one value for a name.
        content_type: without parameters.
        body: empty for none.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(factory=dict)
    content_type: str = _JSON
    body: bytes = b""

    @property
    def dry_run(self) -> bool:
        """Whether everything is to be done but the write.

        Raises:
            ApiError: 422, there is no such dry run.
        """
        given = self.query.get("dryRun", "")
        if given not in ("", "All"):
            message = f'Unsupported value: ["{given}"]: supported values: "All"'
            raise invalid_options(self._options, Cause("dryRun", "FieldValueNotSupported", message))
        return given == "All"

    @property
    def field_validation(self) -> FieldValidation:
        """What happens to unknown and repeated fields.

        Raises:
            ApiError: 422, there is no such mode.
        """
        match self.query.get("fieldValidation", ""):
            case "Strict" | "Ignore" as mode:
                return mode
            case "" | "Warn":
                return "Warn"
            case other:
                message = f'Unsupported value: "{other}": supported values: "", "Ignore", "Strict", "Warn"'
                raise invalid_options(self._options, Cause("fieldValidation", "FieldValueNotSupported", message))

    @property
    def asks_for_watch(self) -> bool:
        """Whether the answer is a stream, if the path is that of a list."""
        return self.method == "GET" and self.flag("watch")

    def flag(self, name: str) -> bool:
        """Whether a parameter is set to what Go takes for true."""
        return self.query.get(name) in ("1", "t", "T", "true", "TRUE", "True")

    @property
    def _options(self) -> str:
        """What its parameters are called in messages."""
        return {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}.get(
            self.method, "DeleteOptions"
        )


@frozen
class Response:
    """One answer: an HTTP code, a JSON body, and texts for ``Warning`` headers."""

    code: int
    body: Json
    warnings: tuple[str, ...] = ()


@frozen
class Target:
    """What a path names: a resource, and in it a namespace, an object and a part of the object, each empty for none."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """Where the object is stored."""
        return Key(self.resource.key, self.namespace, self.name)


def find_target(resources: Iterable[Resource], path: str) -> Target:
    """The target of a path.

    Raises:
        ApiError: 404, nothing is served there.
    """
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise _nothing_there()
    served = {each.plural: each for each in resources if (each.group, each.version) == (group, version)}
    namespace = ""
    match rest:
        case ["namespaces", place, plural, *rest] if plural in served:
            resource, namespace = served[plural], place
            if not resource.namespaced:
                raise _nothing_there()
        case [plural, *rest] if plural in served:
            resource = served[plural]
            if resource.namespaced and rest:
                raise _nothing_there()
        case _:
            raise _nothing_there()
    match rest:
        case []:
            return Target(resource, namespace)
        case [name]:
            return Target(resource, namespace, name)
        case [name, part] if part in _parts(resource):
            return Target(resource, namespace, name, part)
    raise _nothing_there()


def _parts(resource: Resource) -> tuple[str, ...]:
    """Its subresources."""
    status = ("status",) if resource.has_status else ()
    return (*status, "finalize") if resource is NAMESPACES else status


def _nothing_there() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def not_found(target: Target) -> ApiError:
    """404: there is no such object."""
    resource = target.resource
    return ApiError(
        404,
        "NotFound",
        f'{resource.qualified} "{target.name}" not found',
        details={"name": target.name, "group": resource.group, "kind": resource.plural},
    )


def already_exists(target: Target) -> ApiError:
    """409: the name is taken."""
    resource = target.resource
    return ApiError(
        409,
        "AlreadyExists",
        f'{resource.qualified} "{target.name}" already exists',
        details={"name": target.name, "group": resource.group, "kind": resource.plural},
    )


def conflict(target: Target, detail: str, named: str = "") -> ApiError:
    """409: the object is not what the request says it is; ``named`` where the message does not name the resource."""
    resource = target.resource
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {named or resource.qualified} "{target.name}": {detail}',
        details={"name": target.name, "group": resource.group, "kind": resource.plural},
    )
