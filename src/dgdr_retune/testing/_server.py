"""A simulated API server: kube-apiserver's storage and judgement in one process, on the caller's clock."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from dgdr_retune.testing._admission import Admission, Operation, Review
from dgdr_retune.testing._deletion import Deletion, deletion_finalizers, read_deletion
from dgdr_retune.testing._errors import ApiError, Cause
from dgdr_retune.testing._json import Json, copied, stored
from dgdr_retune.testing._judgement import invalid, judge, prepare_update, read_body, reported, shaped
from dgdr_retune.testing._lists import list_objects, open_watch, scope_of
from dgdr_retune.testing._metadata import changed_metadata_faults
from dgdr_retune.testing._own_kinds import Grace, grace, may_go
from dgdr_retune.testing._patches import apply_patch
from dgdr_retune.testing._preconditions import check_deletion, check_place, check_revision, check_uid
from dgdr_retune.testing._requests import MAX_BODY_BYTES, Request, Response, Target, already_exists, find_target
from dgdr_retune.testing._resources import DEFINITIONS, NAMESPACES, Resource, read_definition
from dgdr_retune.testing._schema import UnsupportedSchemaError
from dgdr_retune.testing._storage import Storage
from dgdr_retune.testing._store import Store
from dgdr_retune.testing._watch import Scope, Watch


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
        self._storage = Storage(now)
        self._admission = tuple(admission)

    @property
    def store(self) -> Store:
        """The objects as they are stored, for looking behind the API."""
        return self._storage.store

    def resources(self) -> tuple[Resource, ...]:
        """What is served, in the order it was added."""
        return self._storage.resources

    def install(self, definition: Json) -> None:
        """Create a CustomResourceDefinition, or replace the one of its name.

        Raises:
            UnsupportedSchemaError: it holds something that is not simulated.
        """
        read_definition(definition)
        target = Target(DEFINITIONS, name=definition["metadata"]["name"])
        if self._storage.has(target):
            self._storage.update(target, {**self._storage.read(target), "spec": definition["spec"]})
        else:
            self._storage.create(target, definition)

    def handle(self, request: Request) -> Response:
        """Answer one request; a refusal is an answer too."""
        try:
            return self._answer(request)
        except ApiError as error:
            return Response(error.code, error.status())

    def is_watch(self, request: Request) -> bool:
        """Whether a request is answered by a stream, that is by :meth:`watch`.

        Raises:
            ApiError: 404, nothing is served at its path.
        """
        return request.asks_for_watch and not find_target(self.resources(), request.path).name

    def watch(self, request: Request) -> Watch:
        """Open the watch of a GET with ``watch=true``.

        Raises:
            ApiError: it cannot be opened.
        """
        target = find_target(self.resources(), request.path)
        return open_watch(self.store, self._scope(target, request), target, request)

    def compact(self) -> None:
        """Forget the past: watches and lists of an earlier revision get 410."""
        self.store.compact()

    def _answer(self, request: Request) -> Response:
        if len(request.body) > MAX_BODY_BYTES:
            raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")
        target = find_target(self.resources(), request.path)
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

    def _scope(self, target: Target, request: Request) -> Scope:
        bare = Target(target.resource)
        return scope_of(target, request, lambda value: shaped(value, bare)[0])

    def _got(self, target: Target, request: Request) -> Json:
        if target.name:
            return self._storage.read(target)
        return list_objects(self.store, self._scope(target, request), target, request)

    def _create(self, target: Target, request: Request) -> Response:
        resource = target.resource
        value, repeated = read_body(request.body)
        new, unknown = shaped(value, target)
        warnings = reported(unknown, repeated, request.field_validation, resource)
        metadata = new["metadata"]
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + self._storage.suffix()
        target = Target(resource, target.namespace, metadata.get("name", ""))
        check_place(target, metadata)
        if metadata.pop("resourceVersion", ""):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if target.namespace:
            self._storage.require_namespace(target.namespace)
        new = self._mutated("CREATE", new, None, target)
        if resource.has_status:
            new.pop("status", None)
        judge(new, None, target)
        _check_definition(target, new)
        warnings += self._validated("CREATE", new, None, target)
        if self._storage.has(target):
            raise already_exists(target)
        made = self._storage.new(target, new) if request.dry_run else self._storage.create(target, new)
        return Response(201, copied(made), tuple(warnings))

    def _update(self, target: Target, request: Request) -> Response:
        value, repeated = read_body(request.body)
        new, unknown = shaped(value, target)
        warnings = reported(unknown, repeated, request.field_validation, target.resource)
        if uid := new["metadata"].get("uid"):
            check_uid(target, uid, self._storage.read(target)["metadata"]["uid"])
        return self._replace(target, new, request, warnings)

    def _patch(self, target: Target, request: Request) -> Response:
        patch, repeated = read_body(request.body)
        patched = apply_patch(request.content_type, self._storage.read(target), patch)
        new, unknown = shaped(patched, target)
        try:
            warnings = reported(unknown, repeated, request.field_validation, target.resource)
        except ApiError as error:
            cause = Cause("patch", "FieldValueInvalid", f"Invalid value: {error.message}")
            raise invalid(target, [cause]) from error
        return self._replace(target, new, request, warnings)

    def _replace(self, target: Target, new: dict[str, Json], request: Request, warnings: list[str]) -> Response:
        check_place(target, new["metadata"])
        old = self._storage.read(target)
        check_revision(target, new["metadata"].get("resourceVersion", ""), old["metadata"]["resourceVersion"])
        if faults := list(changed_metadata_faults(new["metadata"], old["metadata"])):
            raise invalid(target, faults)
        new = prepare_update(self._mutated("UPDATE", new, old, target), old, target)
        judge(new, old, target)
        _check_definition(target, new)
        warnings += self._validated("UPDATE", new, old, target)
        if request.dry_run:
            return Response(200, stored(new), tuple(warnings))
        if new["metadata"].get("deletionTimestamp") and may_go(target.resource, new):
            return Response(200, copied(self._storage.remove(target)), tuple(warnings))
        return Response(200, copied(self._storage.update(target, new)), tuple(warnings))

    def _delete(self, target: Target, request: Request) -> Response:
        return self._deleted(target, read_deletion(request.body, request.query), request)

    def _delete_all(self, target: Target, request: Request) -> Response:
        deletion = read_deletion(request.body, request.query)
        scope = self._scope(target, request)
        listed = list_objects(self.store, scope, target, request)
        for key, value in list(self.store.items(target.resource.key, target.namespace)):
            if scope.selects(value):
                self._deleted(Target(target.resource, key.namespace, key.name), deletion, request)
        return Response(200, listed)

    def _deleted(self, target: Target, deletion: Deletion, request: Request) -> Response:
        old = self._storage.read(target)
        metadata = old["metadata"]
        check_deletion(target, deletion.preconditions, metadata)
        self._validated("DELETE", None, old, target)
        finalizers = deletion_finalizers(metadata.get("finalizers", []), deletion.policy, target.resource.propagation)
        left = grace(target.resource, old, deletion.grace_s)
        if finalizers or not left.at_once:
            going = self._going(target, old, finalizers, left)
            return Response(200, copied(going if request.dry_run else self._storage.update(target, going)))
        if not request.dry_run:
            self._storage.remove(target)
        resource = target.resource
        details = {"name": target.name, "group": resource.group, "kind": resource.plural, "uid": metadata["uid"]}
        status = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "details": details}
        return Response(200, status)

    def _going(self, target: Target, old: dict[str, Json], finalizers: list[str], left: Grace) -> dict[str, Json]:
        """The object, marked for deletion: it goes once its finalizers and its time are gone."""
        metadata = {**old["metadata"], "finalizers": finalizers}
        if not finalizers:
            metadata.pop("finalizers")
        is_new = "deletionTimestamp" not in metadata
        if is_new and target.resource.has_generation:
            metadata["generation"] = metadata.get("generation", 0) + 1
        if is_new or left.seconds < metadata["deletionGracePeriodSeconds"]:
            due = self._storage.timestamp(after_s=left.seconds)
            metadata |= {"deletionTimestamp": due, "deletionGracePeriodSeconds": left.seconds}
        going = {**old, "metadata": metadata}
        return {**going, "status": {"phase": "Terminating"}} if target.resource is NAMESPACES else going

    def _mutated(self, operation: Operation, new: Json, old: Json, target: Target) -> dict[str, Json]:
        for each in self._admission:
            review = Review(operation, target.resource, target.subresource, copied(new), copied(old))
            new = shaped(each.mutate(review), target)[0]
        return dict(new)

    def _validated(self, operation: Operation, new: Json, old: Json, target: Target) -> Iterable[str]:
        review = Review(operation, target.resource, target.subresource, copied(new), copied(old))
        return [warning for each in self._admission for warning in each.validate(review)]


def _check_definition(target: Target, new: Json) -> None:
    if target.resource is not DEFINITIONS or target.subresource:
        return
    try:
        read_definition(new)
    except UnsupportedSchemaError as error:
        raise invalid(target, [Cause(error.path, "FieldValueInvalid", str(error))]) from error
