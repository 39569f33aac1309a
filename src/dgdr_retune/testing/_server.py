"""A simulated API server: kube-apiserver's storage and judgement in one process, on the caller's clock."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from dgdr_retune.testing._admission import Admission, Operation, Review
from dgdr_retune.testing._errors import ApiError, Cause, bad_request
from dgdr_retune.testing._garbage import deletion_finalizers
from dgdr_retune.testing._json import Json, copied, same, stored
from dgdr_retune.testing._judgement import invalid, judge, prepare_update, read_body, reported, shaped
from dgdr_retune.testing._lists import list_objects, open_watch, scope_of
from dgdr_retune.testing._patches import apply_patch
from dgdr_retune.testing._requests import MAX_BODY_BYTES, Request, Response, Target, conflict, find_target, not_found
from dgdr_retune.testing._resources import BUILT_IN, DEFINITIONS, NAMESPACES, Resource, read_definition
from dgdr_retune.testing._schema import UnsupportedSchemaError
from dgdr_retune.testing._store import Key, Store
from dgdr_retune.testing._watch import Watch

NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5


def _utc_now() -> datetime:
    return datetime.now(UTC)


class SimulatedApiServer:
    """Answers requests as kube-apiserver does.

    It serves Kubernetes' own kinds that this project uses, without judging their content, and custom resources by the
    schema and the rules of their CustomResourceDefinition. There is no authentication, and no server-side apply.

    Args:
        now: the clock; timestamps are cut to seconds.
        admission: webhooks, asked in this order.
    """

    def __init__(self, *, now: Callable[[], datetime] = _utc_now, admission: Sequence[Admission] = ()) -> None:
        self._now = now
        self._admission = tuple(admission)
        self._store = Store()
        self._resources = {each.key: each for each in BUILT_IN}
        self._made = 0
        for name in ("default", "kube-system"):
            self._put_new(Target(NAMESPACES, name=name), {"metadata": {"name": name}, "status": {"phase": "Active"}})

    @property
    def store(self) -> Store:
        """The objects as they are stored, for looking behind the API."""
        return self._store

    def resources(self) -> tuple[Resource, ...]:
        """What is served, in the order it was added."""
        return tuple(self._resources.values())

    def install(self, definition: Json) -> None:
        """Create a CustomResourceDefinition, or replace the one of its name.

        Raises:
            UnsupportedSchemaError: it holds something that is not simulated.
        """
        read_definition(definition)
        target = Target(DEFINITIONS, name=definition["metadata"]["name"])
        if self._store.get(target.key) is None:
            self._put_new(target, definition)
        else:
            self._put(target, {**self._read(target), "spec": definition["spec"]})

    def handle(self, request: Request) -> Response:
        """Answer one request; a refusal is an answer too."""
        try:
            return self._answer(request)
        except ApiError as error:
            return Response(error.code, error.status())

    def watch(self, request: Request) -> Watch:
        """Open the watch of a GET with ``watch=true``.

        Raises:
            ApiError: it cannot be opened.
        """
        target = find_target(self._resources.values(), request.path)
        return open_watch(self._store, scope_of(target, request, self._shown(target.resource)), target, request)

    def compact(self) -> None:
        """Forget the past: watches and lists of an earlier revision get 410."""
        self._store.compact()

    def _answer(self, request: Request) -> Response:
        if len(request.body) > MAX_BODY_BYTES:
            raise ApiError(413, "RequestEntityTooLarge", f"the limit of a body is {MAX_BODY_BYTES} bytes")
        target = find_target(self._resources.values(), request.path)
        if request.method == "GET":
            return Response(200, self._got(target, request))
        match request.method, bool(target.name), target.subresource:
            case "POST", False, "" if target.namespace or not target.resource.namespaced:
                return self._create(target, request)
            case "PUT", True, _:
                return self._update(target, request)
            case "PATCH", True, _:
                return self._patch(target, request)
            case "DELETE", True, "":
                return self._delete(target, request)
            case "DELETE", False, "":
                return self._delete_all(target, request)
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _got(self, target: Target, request: Request) -> Json:
        if target.name:
            return self._read(target)
        return list_objects(self._store, scope_of(target, request, self._shown(target.resource)), target, request)

    def _shown(self, resource: Resource) -> Callable[[Json], Json]:
        target = Target(resource)
        return lambda value: shaped(value, target)[0]

    def _read(self, target: Target) -> dict[str, Json]:
        """The object as its schema shows it today."""
        found = self._store.get(target.key)
        if found is None:
            raise not_found(target)
        return shaped(found, target)[0]

    def _create(self, target: Target, request: Request) -> Response:
        resource = target.resource
        value, repeated = read_body(request.body)
        new, unknown = shaped(value, target)
        warnings = reported(unknown, repeated, request.field_validation, resource)
        metadata = new["metadata"]
        if metadata.get("namespace", target.namespace) != target.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if metadata.pop("resourceVersion", ""):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if target.namespace:
            self._require_namespace(target.namespace)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + self._suffix()
        target = Target(resource, target.namespace, metadata.get("name", ""))
        new = self._mutated("CREATE", new, None, target)
        if resource.has_status:
            new.pop("status", None)
        judge(new, None, target)
        self._check_definition(target, new)
        warnings += self._validated("CREATE", new, None, target)
        if self._store.get(target.key) is not None:
            raise ApiError(
                409,
                "AlreadyExists",
                f'{resource.qualified} "{target.name}" already exists',
                details={"name": target.name, "group": resource.group, "kind": resource.plural},
            )
        made = self._new(target, new) if request.dry_run else self._put_new(target, new)
        return Response(201, copied(made), tuple(warnings))

    def _update(self, target: Target, request: Request) -> Response:
        value, repeated = read_body(request.body)
        new, unknown = shaped(value, target)
        warnings = reported(unknown, repeated, request.field_validation, target.resource)
        if new["metadata"].get("name", "") != target.name:
            raise bad_request(
                f"the name of the object ({new['metadata'].get('name', '')}) "
                f"does not match the name on the URL ({target.name})"
            )
        return self._replace(target, new, request, warnings)

    def _patch(self, target: Target, request: Request) -> Response:
        patch, repeated = read_body(request.body)
        patched = apply_patch(request.content_type, self._read(target), patch)
        new, unknown = shaped(patched, target)
        try:
            warnings = reported(unknown, repeated, request.field_validation, target.resource)
        except ApiError as error:
            cause = Cause("patch", "FieldValueInvalid", f"Invalid value: {error.message}")
            raise invalid(target, [cause]) from error
        return self._replace(target, new, request, warnings)

    def _replace(self, target: Target, new: dict[str, Json], request: Request, warnings: list[str]) -> Response:
        old = self._read(target)
        self._check_revision(target, new["metadata"], old["metadata"])
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        new = prepare_update(self._mutated("UPDATE", new, old, target), old, target)
        judge(new, old, target)
        if not target.subresource:
            self._check_definition(target, new)
        warnings += self._validated("UPDATE", new, old, target)
        if request.dry_run:
            return Response(200, stored(new), tuple(warnings))
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return Response(200, copied(self._remove(target)), tuple(warnings))
        return Response(200, copied(self._put(target, new)), tuple(warnings))

    def _check_revision(self, target: Target, given: dict[str, Json], present: dict[str, Json]) -> None:
        uid, revision = given.get("uid"), given.get("resourceVersion", "")
        if uid and uid != present["uid"]:
            raise conflict(
                target,
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present['uid']}",
            )
        if not revision and target.resource.is_custom:
            message = "Invalid value: 0: must be specified for an update"
            raise invalid(target, [Cause("metadata.resourceVersion", "FieldValueInvalid", message)])
        if revision and revision != present["resourceVersion"]:
            raise conflict(
                target,
                "the object has been modified; please apply your changes to the latest version and try again",
            )

    def _delete(self, target: Target, request: Request) -> Response:
        options, _ = read_body(request.body or b"{}")
        return self._deleted(target, options if isinstance(options, dict) else {}, request)

    def _delete_all(self, target: Target, request: Request) -> Response:
        options, _ = read_body(request.body or b"{}")
        scope = scope_of(target, request, self._shown(target.resource))
        everything = list_objects(self._store, scope, target, Request("GET", request.path))
        for key, value in list(self._store.items(target.resource.key, target.namespace)):
            if scope.selects(value):
                self._deleted(Target(target.resource, key.namespace, key.name), options, request)
        return Response(200, everything)

    def _deleted(self, target: Target, options: dict[str, Json], request: Request) -> Response:
        old = self._read(target)
        metadata = old["metadata"]
        for name, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            wanted = (options.get("preconditions") or {}).get(name)
            if wanted is not None and wanted != metadata[name]:
                raise conflict(
                    target,
                    f"Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {metadata[name]}",
                )
        policy = options.get("propagationPolicy") or request.query.get("propagationPolicy", "")
        if policy not in ("", "Background", "Foreground", "Orphan"):
            message = f'Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
            raise invalid(target, [Cause("propagationPolicy", "FieldValueNotSupported", message)])
        self._validated("DELETE", None, old, target)
        finalizers = deletion_finalizers(metadata.get("finalizers") or [], policy, target.resource.propagation)
        if finalizers:
            going = {**old, "metadata": {**metadata, "finalizers": finalizers}}
            if "deletionTimestamp" not in metadata:
                going["metadata"] |= {"deletionTimestamp": self._timestamp(), "deletionGracePeriodSeconds": 0}
                if target.resource.has_generation:
                    going["metadata"]["generation"] = metadata.get("generation", 0) + 1
            return Response(200, copied(going if request.dry_run else self._put(target, going)))
        if not request.dry_run:
            self._remove(target)
        return Response(
            200,
            {
                "apiVersion": "v1",
                "kind": "Status",
                "metadata": {},
                "status": "Success",
                "details": {
                    "name": target.name,
                    "group": target.resource.group,
                    "kind": target.resource.plural,
                    "uid": metadata["uid"],
                },
            },
        )

    def _mutated(self, operation: Operation, new: Json, old: Json, target: Target) -> dict[str, Json]:
        for each in self._admission:
            review = Review(operation, target.resource, target.subresource, copied(new), copied(old))
            new = shaped(each.mutate(review), target)[0]
        return dict(new)

    def _validated(self, operation: Operation, new: Json, old: Json, target: Target) -> Iterable[str]:
        review = Review(operation, target.resource, target.subresource, copied(new), copied(old))
        return [warning for each in self._admission for warning in each.validate(review)]

    def _require_namespace(self, namespace: str) -> None:
        found = self._store.get(Key(NAMESPACES.key, "", namespace))
        if found is None:
            raise not_found(Target(NAMESPACES, name=namespace))
        if "deletionTimestamp" in found["metadata"]:
            raise ApiError(
                403,
                "Forbidden",
                f"unable to create new content in namespace {namespace} because it is being terminated",
            )

    def _check_definition(self, target: Target, new: Json) -> None:
        if target.resource is not DEFINITIONS:
            return
        try:
            read_definition(new)
        except UnsupportedSchemaError as error:
            raise invalid(target, [Cause(error.path, "FieldValueInvalid", str(error))]) from error

    def _new(self, target: Target, value: dict[str, Json]) -> dict[str, Json]:
        resource = target.resource
        self._made += 1
        metadata = {
            **value["metadata"],
            **({"namespace": target.namespace} if target.namespace else {}),
            "uid": str(uuid.UUID(int=self._made, version=4)),
            "creationTimestamp": self._timestamp(),
            **({"generation": 1} if resource.has_generation else {}),
        }
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(name, None)
        made = {**value, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return dict(stored(made))

    def _put_new(self, target: Target, value: dict[str, Json]) -> Json:
        made = self._store.put(target.key, self._new(target, value))
        self._serve(target, made)
        return made

    def _put(self, target: Target, value: dict[str, Json]) -> Json:
        """Store a change; one that changes nothing is no write."""
        value = stored(value)
        present = self._store.get(target.key)
        if same(value, present):
            return present
        put = self._store.put(target.key, value)
        self._serve(target, put)
        return put

    def _serve(self, target: Target, value: Json) -> None:
        if target.resource is DEFINITIONS:
            served = read_definition(value)
            self._resources[served.key] = served

    def _remove(self, target: Target) -> Json:
        removed = self._store.delete(target.key)
        if target.resource is DEFINITIONS:
            served = self._resources.pop(read_definition(removed).key)
            for key, _ in list(self._store.items(served.key)):
                self._store.delete(key)
        return removed

    def _timestamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _suffix(self) -> str:
        """Letters that no other call has returned, as names that are generated end."""
        self._made += 1
        number, letters = self._made, ""
        for _ in range(SUFFIX_LENGTH):
            number, digit = divmod(number, len(NAME_ALPHABET))
            letters += NAME_ALPHABET[digit]
        return letters
