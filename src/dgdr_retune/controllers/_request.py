"""What a Request needs next: a name reserved, a Run created, the Run accepted, the history kept short."""

from datetime import datetime
from typing import Any, Final

from attrs import evolve

from dgdr_retune.api import (
    ACCEPTED,
    API_VERSION,
    INPUT_HASH_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    REPLICATIONS_ANNOTATION,
    REQUEST,
    REQUEST_GENERATION_ANNOTATION,
    REQUEST_NAME_ANNOTATION,
    REQUEST_UID_ANNOTATION,
    RUN,
    ConditionStatus,
    JsonValueError,
    RequestReason,
    default,
    spec_digest,
)
from dgdr_retune.controllers._actions import Action, CreateRun, DeleteRun, PatchRequestStatus
from dgdr_retune.controllers._condition import event_of_change, with_condition
from dgdr_retune.controllers._configuration import Configuration
from dgdr_retune.controllers._decision import NOTHING, Decision
from dgdr_retune.controllers._observation import Read, RequestObservation, RequestState, RunState

Json = Any
Verdict = tuple[ConditionStatus, RequestReason, str]

_TO_CREATE: Final = frozenset({Read.REQUEST, Read.RUNS})
"""What a create, or the loss of a reservation, rests on: the Request may be on its way out, or its Run be there."""

_NAME_TAKEN_S: Final = 30.0
"""How often a name that somebody else has taken is looked at."""


def decide_request(seen: RequestObservation, configuration: Configuration, now: datetime) -> Decision:
    """What the Request needs next.

    The reservation, `status.activeRunRef`, is written before a Run is created and names the open Run afterwards, so
    that whoever comes after a crash goes on with the same name.
    """
    request = seen.request
    if request is None or request.deleting:
        return NOTHING
    if (current := _open_run(seen, request)) is not None:
        verdict = _created(current) if current.generation == request.generation else None
        return _settle(seen, request, configuration, now, active=current.ref.name, verdict=verdict)
    if request.generation > request.observed_generation:
        return _next_run(seen, request, configuration, now)
    if _is_unseen(seen, request.active_run):
        return Decision(reads=_TO_CREATE)
    return _settle(seen, request, configuration, now)


def _next_run(seen: RequestObservation, request: RequestState, configuration: Configuration, now: datetime) -> Decision:
    """A new generation and no open Run: reserve its Run's name, create the Run, accept it."""
    namesake = _named(seen, request.next_run)
    if namesake is not None:
        verdict = _created(namesake) if request.made(namesake) else _conflict(namesake)
        return _settle(seen, request, configuration, now, verdict=verdict)
    if _is_unseen(seen, request.active_run):
        return Decision(reads=_TO_CREATE)
    try:
        create = CreateRun(_run(request))
    except JsonValueError as error:  # a server stores what nests more deeply than anybody here reads
        return _settle(seen, request, configuration, now, verdict=_invalid(request, str(error)))
    if request.active_run != request.next_run:
        return _settle(seen, request, configuration, now, active=request.next_run)
    if seen.refused is not None and seen.refused.body == create.body:
        return _settle(seen, request, configuration, now, verdict=_invalid(request, seen.refused.message))
    return Decision((create,))


def _is_unseen(seen: RequestObservation, reserved: str) -> bool:
    """Whether the Run of a reservation may have been created without being in the cache."""
    return bool(reserved) and _named(seen, reserved) is None and not seen.fresh >= _TO_CREATE


def _open_run(seen: RequestObservation, request: RequestState) -> RunState | None:
    """The Run that is not done; of several, which only a leader that has lost its Lease makes, one goes first."""
    waiting = [run for run in seen.runs if request.made(run) and not run.is_done]
    return min(waiting, key=lambda run: (run.ref.name != request.active_run, run.generation), default=None)


def _named(seen: RequestObservation, name: str) -> RunState | None:
    return next((run for run in seen.runs if run.ref.name == name), None)


def _created(run: RunState) -> Verdict:
    return "True", RequestReason.RUN_CREATED, f"run {run.ref.name} is created"


def _conflict(run: RunState) -> Verdict:
    return (
        "False",
        RequestReason.RUN_NAME_CONFLICT,
        f"run {run.ref.name} exists and was not made for this generation: delete it, or change the specification",
    )


def _invalid(request: RequestState, why: str) -> Verdict:
    return (
        "False",
        RequestReason.INVALID_SPEC,
        f"run {request.next_run} was refused, change the specification: {why}",
    )


def _settle(
    seen: RequestObservation,
    request: RequestState,
    configuration: Configuration,
    now: datetime,
    *,
    active: str = "",
    verdict: Verdict | None = None,
) -> Decision:
    """Write the status if it is another one, and let go of the Runs that the history has no room for."""
    done = sorted(
        (run for run in seen.runs if request.made(run) and run.is_done and not run.deleting),
        key=lambda run: run.generation,
        reverse=True,
    )
    observed, conditions, reason = request.observed_generation, request.conditions, None
    if verdict is not None:
        status, reason, message = verdict
        conditions = with_condition(
            conditions, ACCEPTED, status, reason, message, generation=request.generation, now=now
        )
        if reason is not RequestReason.RUN_NAME_CONFLICT:
            observed = request.generation
    after = evolve(
        request,
        observed_generation=observed,
        active_run=active,
        recent_runs=tuple(run.ref.name for run in done[: configuration.history_limit]),
        conditions=conditions,
    )
    actions: list[Action] = []
    if after != request:
        actions = [_patch(after), *event_of_change(request, ACCEPTED, request.conditions, conditions)]
    actions += [DeleteRun(run.ref) for run in done[configuration.history_limit :]]
    if actions:
        return Decision(tuple(actions))
    return Decision(look_again_s=_NAME_TAKEN_S if reason is RequestReason.RUN_NAME_CONFLICT else None)


def _patch(request: RequestState) -> PatchRequestStatus:
    return PatchRequestStatus(
        request=request.ref,
        observed_generation=request.observed_generation,
        active_run=request.active_run,
        recent_runs=request.recent_runs,
        conditions=request.conditions,
    )


def _run(request: RequestState) -> dict[str, Json]:
    """The Run of the Request's generation: a full copy of its specification, defaults filled in."""
    spec = default(dict(request.object))["spec"]
    annotations = request.object["metadata"].get("annotations") or {}
    return {
        "apiVersion": API_VERSION,
        "kind": RUN.name,
        "metadata": {
            "name": request.next_run,
            "namespace": request.ref.namespace,
            "labels": {MANAGED_BY_LABEL: MANAGED_BY},
            "annotations": {
                REQUEST_NAME_ANNOTATION: request.ref.name,
                REQUEST_UID_ANNOTATION: request.ref.uid,
                REQUEST_GENERATION_ANNOTATION: str(request.generation),
                INPUT_HASH_ANNOTATION: spec_digest(spec),
                **{name: annotations[name] for name in (REPLICATIONS_ANNOTATION,) if name in annotations},
            },
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": REQUEST.name,
                    "name": request.ref.name,
                    "uid": request.ref.uid,
                    "controller": True,
                }
            ],
        },
        "spec": spec,
    }
