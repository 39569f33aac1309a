"""What a Run needs next. The steps stand in the order in which they are asked; the first that answers decides."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from attrs import evolve

from dgdr_retune.api import RunReason
from dgdr_retune.controllers._actions import (
    CLAIM_UID_ANNOTATION,
    Action,
    CreateJob,
    CreateRoleBinding,
    CreateServiceAccount,
    PatchClaimFinalizers,
    PatchRunFailure,
)
from dgdr_retune.controllers._configuration import Configuration
from dgdr_retune.controllers._decision import NOTHING, Decision, read
from dgdr_retune.controllers._diagnosis import has_started, waits_for, why_failed
from dgdr_retune.controllers._job import JobError, publisher_account, publisher_binding, run_job
from dgdr_retune.controllers._observation import ClaimState, Failure, Read, RunObservation, RunState
from dgdr_retune.controllers._run_case import RunCase
from dgdr_retune.lowering import Lowered, LoweringError, lower

Json = Any

_NAME_TAKEN_S: Final = 30.0
"""How often a Job name that somebody else has taken is looked at."""
_UNHEARD_S: Final = 60.0
"""How often a Run is looked at whose turn or Request a change is to tell of, should that be missed; and how often a
server is asked again that does not take a Job."""

_DURABLE: Final = frozenset(
    {
        RunReason.TRACE_SOURCE_DELETED,
        RunReason.TRACE_SOURCE_UNAVAILABLE,
        RunReason.START_DEADLINE_EXCEEDED,
        RunReason.SUPERSEDED,
    }
)
"""What is marked on the Run before anything is done about it, for what showed it may be gone afterwards."""


def decide_run(seen: RunObservation, configuration: Configuration, now: datetime) -> Decision:
    """What the Run needs next."""
    if seen.run is None:  # the claim's controller cleans up after a Run that is gone
        return NOTHING
    case = RunCase(seen, seen.run, configuration, now)
    for step in _STEPS:
        if (decision := step(case)) is not None:
            return decision
    return NOTHING


def _on_its_way_out(case: RunCase) -> Decision | None:
    """Nothing is written for a Run that is being deleted; but while it is there, only it can stop its Jobs.

    A finalizer of somebody's may keep it for long, and its claim may go meanwhile.
    """
    if not case.run.deleting:
        return None
    if not case.unfinished or not _is_trace_gone(case):
        return NOTHING
    if not case.knows(Read.CLAIM, Read.JOBS):
        return read(Read.CLAIM, Read.JOBS)
    return case.stop_jobs()


def _after_the_end(case: RunCase) -> Decision | None:
    """A Run that is done keeps its condition; what a stale pass left is stopped, then the claim is let go."""
    if not case.run.is_done:
        return None
    if not case.unfinished and not case.holds_claim:
        return NOTHING
    return case.stop_jobs() or Decision(case.release())


def _leave_alone(case: RunCase) -> Decision | None:
    """A Run that no Request of ours made is nobody's here, unless it has left something behind."""
    request = case.seen.request
    if (request is not None and request.made(case.run)) or case.had_job or case.holds_claim:
        return None
    return Decision(look_again_s=_UNHEARD_S if request is None and case.run.request_uid else None)


def _take_result(case: RunCase) -> Decision | None:
    """A Job that ended by itself decides, whatever happened to the claim or the Request since."""
    job = case.job
    if job is None or job.result is None:
        return None
    if job.result.succeeded:
        message = f"job {job.ref.name} completed"
        return Decision(case.tell(RunReason.SEARCH_SUCCEEDED, message, end="Succeeded"))
    if not case.knows(Read.PODS):
        return read(Read.PODS)
    message = why_failed(job, job.result, case.seen.pods, case.run.status.message)
    return Decision(case.tell(RunReason.SEARCH_FAILED, message, end="Failed"))


def _stop_if_marked(case: RunCase) -> Decision | None:
    failure = case.run.failure
    return None if failure is None or failure.reason not in _DURABLE else case.stop(failure)


def _mark_if_superseded(case: RunCase) -> Decision | None:
    """A generation only grows, so that an old view of the Request is proof enough.

    Its deletion counts as a generation too, and then says nothing.
    """
    request = case.seen.request
    if request is None or request.deleting or request.generation <= case.run.generation:
        return None
    message = f"generation {request.generation} of request {request.ref.name} takes its place"
    return Decision((PatchRunFailure(case.run.ref, Failure(RunReason.SUPERSEDED, message)),))


def _mark_claim_failure(case: RunCase) -> Decision | None:
    """What becomes of the Run with its claim, once the server itself has shown the claim and the Jobs."""
    failure = _claim_failure(case)
    if failure is None:
        return None
    if not case.knows(Read.CLAIM, Read.JOBS):
        return read(Read.CLAIM, Read.JOBS)
    return Decision((PatchRunFailure(case.run.ref, failure),))


def _claim_failure(case: RunCase) -> Failure | None:
    claim, name = case.seen.claim, case.run.claim_name
    if _is_trace_gone(case):
        return Failure(RunReason.TRACE_SOURCE_DELETED, f"claim {name} was deleted, and the trace with it")
    if claim is None or case.had_job:
        return None
    if claim.block:
        return Failure(
            RunReason.TRACE_SOURCE_UNAVAILABLE, f"claim {name} is a block volume: a trace needs volumeMode Filesystem"
        )
    if claim.lost:
        return Failure(RunReason.TRACE_SOURCE_UNAVAILABLE, f"claim {name} has lost its volume")
    return None


def _is_trace_gone(case: RunCase) -> bool:
    """Whether the claim is being deleted, or is no longer the one that the Job of the Run's name was created for."""
    claim = case.seen.claim
    if claim is None:
        return bool(case.run.claim_name) and case.had_job
    jobs = (job for job in case.unfinished if job.ref.name == case.run.ref.name)
    return claim.deleting or any(job.claim_uid not in ("", claim.ref.uid) for job in jobs)


def _fail_without_job(case: RunCase) -> Decision | None:
    """A Job that was there, has no result and is gone: a search is not resumed.

    The deletion of its claim may be the cause, or a newer generation, which the cache need not show yet.
    """
    if case.job is not None or not case.had_job:
        return None
    if not case.knows(Read.REQUEST, Read.CLAIM, Read.JOBS):
        return read(Read.REQUEST, Read.CLAIM, Read.JOBS)
    message = f"job {case.run.status.job_name} was deleted, or taken from this Run, before its result was seen"
    return case.stop(Failure(RunReason.SEARCH_FAILED, message))


def _wait_to_start(case: RunCase) -> Decision | None:
    """The Job's name must be free, the claim there, and it must be the Run's turn."""
    run, seen = case.run, case.seen
    if case.job is not None:
        return None
    if any(job.ref.name == run.ref.name for job in seen.jobs):
        message = f"job {run.ref.name} exists and is not this Run's: it is left alone; delete it, and the Run goes on"
        return case.wait(RunReason.JOB_NAME_CONFLICT, message, _NAME_TAKEN_S)
    if run.claim_name and seen.claim is None:
        message = f"claim {run.claim_name} does not exist; the Run starts when it is created"
        return case.wait(RunReason.TRACE_SOURCE_MISSING, message)
    if seen.jobs_ahead >= case.configuration.jobs_per_namespace:
        message = f"waits for its turn: {case.configuration.jobs_per_namespace} Jobs may run in a namespace at a time"
        return case.wait(RunReason.PENDING, message, _UNHEARD_S)
    return None


def _start(case: RunCase) -> Decision | None:
    """Create the Job, or fail the Run if nothing can be made of its specification."""
    if case.job is not None:
        return None
    try:
        lowered = _lowered(case.run)
        create = CreateJob(_job(case.run, lowered, case.seen.claim, case.configuration))
    except (LoweringError, JobError) as error:
        return case.stop(Failure(RunReason.SEARCH_FAILED, f"there is no Job for this Run: {error}"))
    refused = case.seen.refused
    if refused is not None and refused.body == create.body:
        if refused.for_now:
            message = f"the API server does not take the Job now, it is asked again: {refused.message}"
            return case.wait(RunReason.PENDING, message, _UNHEARD_S)
        message = f"the Job was refused, change the specification or the operator's settings: {refused.message}"
        return case.stop(Failure(RunReason.SEARCH_FAILED, message))
    return _create(case, lowered, create)


def _create(case: RunCase, lowered: Lowered, create: CreateJob) -> Decision:
    """Record the input, hold the claim, create the Job: in this order, on what the server itself has just shown."""
    needed = {Read.REQUEST, Read.RUN, Read.JOBS, Read.ACCESS} | ({Read.CLAIM} if case.run.claim_name else set())
    if not case.knows(*needed):
        return read(*needed)
    request, access, claim, namespace = case.seen.request, case.seen.access, case.seen.claim, case.run.ref.namespace
    if request is None or request.deleting or request.active_run != case.run.ref.name:
        return Decision(look_again_s=_UNHEARD_S)
    actions: list[Action] = []
    if case.run.status.input is None or not case.says(RunReason.PENDING):  # else it may say why there is none yet
        actions += case.tell(RunReason.PENDING, "the Job is being created", recorded=lowered.document)
    if access is None or not access.account:
        actions.append(CreateServiceAccount(publisher_account(namespace, case.configuration)))
    if access is None or not access.binding:
        actions.append(CreateRoleBinding(publisher_binding(namespace, case.configuration)))
    if claim is not None and not case.holds_claim:
        actions.append(PatchClaimFinalizers(claim.ref, (*claim.finalizers, case.finalizer)))
    return Decision((*actions, create))


def _lowered(run: RunState) -> Lowered:
    """What the sweeper gets: the input that was recorded, once one is, for that is what people compare with."""
    lowered = lower(dict(run.object))
    return lowered if run.status.input is None else evolve(lowered, document=dict(run.status.input))


def _job(run: RunState, lowered: Lowered, claim: ClaimState | None, configuration: Configuration) -> dict[str, Json]:
    job = run_job(dict(run.object), lowered, configuration)
    if claim is not None:
        job["metadata"]["annotations"] = {CLAIM_UID_ANNOTATION: claim.ref.uid}
    return job


def _follow_deletion(case: RunCase) -> Decision | None:
    """A Job that is being deleted, for no reason that was found before: a newer generation may not be in the cache."""
    job = case.job
    if job is None or job.deleted_at is None:
        return None
    if not case.knows(Read.REQUEST):
        return read(Read.REQUEST)
    return case.stop(Failure(RunReason.SEARCH_FAILED, f"job {job.ref.name} is being deleted by somebody else"))


def _watch(case: RunCase) -> Decision | None:
    """The Job is on its way: say what it waits for; nothing here ends it but the start deadline, if there is one."""
    job, pods = case.job, case.seen.pods
    if job is None:
        return None
    waiting = waits_for(job, pods)
    deadline_s = case.configuration.start_deadline_s
    left_s = None
    if deadline_s is not None and not has_started(job, pods):
        left_s = deadline_s - (case.now - job.created_at).total_seconds()
    if left_s is not None and left_s <= 0:
        if not case.knows(Read.JOBS, Read.PODS):
            return read(Read.JOBS, Read.PODS)
        message = f"the containers did not start within {deadline_s:g} s" + (f": {waiting}" if waiting else "")
        return Decision((PatchRunFailure(case.run.ref, Failure(RunReason.START_DEADLINE_EXCEEDED, message)),))
    # Clocks are set while a Run waits: what is left is asked again before it has passed.
    again_s = None if left_s is None else min(left_s, _UNHEARD_S)
    if waiting:
        return case.wait(RunReason.CONTAINER_WAITING, waiting, again_s)
    return case.wait(RunReason.EVALUATING_CANDIDATES, f"job {job.ref.name} evaluates candidates", again_s)


_STEPS: Final[tuple[Callable[[RunCase], Decision | None], ...]] = (
    _on_its_way_out,
    _after_the_end,
    _leave_alone,
    _take_result,
    _stop_if_marked,
    _mark_if_superseded,
    _mark_claim_failure,
    _fail_without_job,
    _wait_to_start,
    _start,
    _follow_deletion,
    _watch,
)
