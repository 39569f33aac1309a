"""Performs what a decision asks for: one call for each action, and what became of it."""

import json
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, Literal, Protocol

import structlog
from attrs import frozen

from dgdr_retune.api import API_VERSION, RUN_FAILURE_ANNOTATION, RequestStatus
from dgdr_retune.api import RunStatus as StoredRunStatus
from dgdr_retune.controllers._actions import (
    Action,
    CreateJob,
    CreateRoleBinding,
    CreateRun,
    CreateServiceAccount,
    DeleteJob,
    DeleteRun,
    EmitEvent,
    PatchClaimFinalizers,
    PatchRequestStatus,
    PatchRunFailure,
    PatchRunStatus,
)
from dgdr_retune.controllers._caches import REQUESTS, RUNS, Caches
from dgdr_retune.controllers._observation import Failure, Ref, Refusal, RunStatus
from dgdr_retune.kube import (
    CLAIMS,
    JOBS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    AlreadyExistsError,
    Api,
    Cache,
    ConflictError,
    ForbiddenError,
    InvalidError,
    MaybeAppliedError,
    NotFoundError,
    Propagation,
    RefusedError,
    Resource,
)

Json = Any
_log = structlog.get_logger(__name__)


class Events(Protocol):
    """Where Events go, such as a `kube.EventRecorder`."""

    def record(
        self, about: dict[str, Json], reason: str, message: str, type_: Literal["Normal", "Warning"] = "Normal"
    ) -> None:
        """Have an Event about an object written, sometime."""
        ...


class Became(Enum):
    """What became of an action."""

    DONE = "done"
    GONE = "gone"
    """Its object is gone."""
    CONFLICT = "conflict"
    """Its object is no longer as it was decided on, or a name is taken."""
    INVALID = "invalid"
    """The server will never take it as it is."""
    FORBIDDEN = "forbidden"
    """The server does not take it for now."""
    UNKNOWN = "unknown"
    """The reply was lost: read before anything else."""


@frozen
class Outcome:
    """What became of an action.

    Attributes:
        became: which of the six.
        refusal: of the create of a Run or Job that is INVALID; of a Job also where that, or a step towards it, is
            FORBIDDEN.
    """

    became: Became
    refusal: Refusal | None = None


DONE: Final = Outcome(Became.DONE)

_CREATED: Final[Mapping[type[Action], Resource]] = {
    CreateRun: RUNS,
    CreateJob: JOBS,
    CreateServiceAccount: SERVICE_ACCOUNTS,
    CreateRoleBinding: ROLE_BINDINGS,
}


class Performer:
    """Performs actions and tells the caches what was written.

    Args:
        api: where to.
        caches: are told, so that nothing is decided on what they have not seen.
        events: where Events go.
    """

    def __init__(self, api: Api, caches: Caches, events: Events) -> None:
        self._api = api
        self._caches = caches
        self._events = events

    async def perform(self, action: Action, towards: CreateJob | None = None) -> Outcome:
        """Perform one action.

        Args:
            action: what to do.
            towards: the Job that it is a step towards, or is: its Run says what is forbidden on the way.

        Errors: `KubeError` for what says nothing about the object: the server is not reached, or grants it not.
        """
        try:
            await self._call(action)
        except (RefusedError, MaybeAppliedError) as error:
            outcome = _outcome(action, error, towards)
            if outcome is None:
                raise
            if outcome is not DONE:
                _log.info("action_not_done", **_named(action), outcome=outcome.became.value, error=str(error))
                return outcome
        if not isinstance(action, EmitEvent):
            _log.info("action_done", **_named(action))
        return DONE

    async def _call(self, action: Action) -> None:
        match action:
            case EmitEvent():
                self._events.record(_about(action), action.reason, action.message, action.type)
            case CreateRun() | CreateJob() | CreateServiceAccount() | CreateRoleBinding():
                await self._create(action)
            case DeleteRun(run=of):
                await self._delete(RUNS, self._caches.runs, of, "Background")
            case DeleteJob(job=of):
                await self._delete(JOBS, self._caches.jobs, of, "Foreground", of.resource_version)
            case _:
                await self._patch(action)

    async def _create(self, action: CreateRun | CreateJob | CreateServiceAccount | CreateRoleBinding) -> None:
        resource = _CREATED[type(action)]
        created = await self._api.create(resource, action.body["metadata"]["namespace"], action.body)
        if resource is RUNS:
            self._caches.runs.wrote(created)
        if resource is JOBS:
            self._caches.jobs.wrote(created)

    async def _delete(
        self, resource: Resource, cache: Cache, of: Ref, propagation: Propagation, resource_version: str | None = None
    ) -> None:
        with suppress(NotFoundError):  # which is what was wanted
            await self._api.delete(
                resource,
                of.namespace,
                of.name,
                uid=of.uid,
                resource_version=resource_version,
                propagation=propagation,
            )
        cache.deleted({"metadata": {"uid": of.uid}})

    async def _patch(
        self, action: PatchRequestStatus | PatchRunStatus | PatchRunFailure | PatchClaimFinalizers
    ) -> None:
        caches = self._caches
        match action:
            case PatchRequestStatus(request=of):
                resource, cache, patch, subresource = REQUESTS, caches.requests, _request_status(action), "status"
            case PatchRunStatus(run=of):
                resource, cache, patch, subresource = RUNS, caches.runs, _run_status(action.status), "status"
            case PatchRunFailure(run=of):
                resource, cache, patch, subresource = RUNS, caches.runs, _run_failure(action.failure), ""
            case PatchClaimFinalizers(claim=of):
                finalizers = {"metadata": {"finalizers": list(action.finalizers)}}
                resource, cache, patch, subresource = CLAIMS, caches.claims, finalizers, ""
        fenced = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": of.resource_version}}
        cache.wrote(await self._api.patch(resource, of.namespace, of.name, fenced, subresource=subresource))


def _outcome(action: Action, error: RefusedError | MaybeAppliedError, towards: CreateJob | None) -> Outcome | None:
    """What became of an action, None where the answer says nothing about its object."""
    match error, action:
        case AlreadyExistsError(), CreateServiceAccount() | CreateRoleBinding():
            return DONE
        case ((InvalidError() | RefusedError(status=HTTPStatus.BAD_REQUEST)), CreateRun() | CreateJob()):
            # 400: a field that the server does not know, for its definitions may be those of another release
            return Outcome(Became.INVALID, Refusal(action.body, str(error)))
        case ForbiddenError(), _ if towards is not None:
            return Outcome(Became.FORBIDDEN, Refusal(towards.body, str(error), for_now=True))
    became = _became(error)
    return None if became is None else Outcome(became)


def _became(error: RefusedError | MaybeAppliedError) -> Became | None:
    match error:
        case NotFoundError():
            return Became.GONE
        case AlreadyExistsError() | ConflictError():
            return Became.CONFLICT
        case InvalidError():
            return Became.INVALID
        case MaybeAppliedError():
            return Became.UNKNOWN
        case RefusedError(status=status) if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Became.UNKNOWN  # it says what it failed at, not what it did
    return None


def _request_status(action: PatchRequestStatus) -> dict[str, Json]:
    status = RequestStatus.model_validate(
        {
            "observedGeneration": action.observed_generation or None,
            "activeRunRef": {"name": action.active_run} if action.active_run else None,
            "recentRunRefs": [{"name": name} for name in action.recent_runs],
            "conditions": list(action.conditions),
        }
    ).stored()
    return {"status": {"activeRunRef": None, **status}}


def _run_status(status: RunStatus) -> dict[str, Json]:
    job = {"name": status.job_name, "uid": status.job_uid}
    written = StoredRunStatus.model_validate(
        {
            "phase": status.phase or None,
            "jobRef": {name: value for name, value in job.items() if value} or None,
            "aisimulate": None if status.input is None else {"input": dict(status.input)},
            "startTime": status.start_time or None,
            "completionTime": status.completion_time or None,
            "conditions": list(status.conditions) or None,
        }
    )
    return {"status": written.stored()}


def _run_failure(failure: Failure) -> dict[str, Json]:
    said = json.dumps({"reason": str(failure.reason), "message": failure.message})
    return {"metadata": {"annotations": {RUN_FAILURE_ANNOTATION: said}}}


def _about(action: EmitEvent) -> dict[str, Json]:
    return {
        "apiVersion": API_VERSION,
        "kind": action.kind,
        "metadata": {
            "name": action.about.name,
            "namespace": action.about.namespace,
            "uid": action.about.uid,
            "resourceVersion": action.about.resource_version,
        },
    }


def _named(action: Action) -> dict[str, str]:
    """What is done, to what, for the log."""
    match action:
        case CreateRun() | CreateJob() | CreateServiceAccount() | CreateRoleBinding():
            metadata = action.body["metadata"]
            namespace, name = metadata["namespace"], metadata["name"]
        case PatchRequestStatus(request=of) | PatchRunStatus(run=of) | PatchRunFailure(run=of) | DeleteRun(run=of):
            namespace, name = of.namespace, of.name
        case PatchClaimFinalizers(claim=of) | DeleteJob(job=of) | EmitEvent(about=of):
            namespace, name = of.namespace, of.name
    return {"action": type(action).__name__, "namespace": namespace, "name": name}
