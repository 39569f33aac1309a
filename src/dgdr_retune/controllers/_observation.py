"""What a controller knows when it decides: one frozen value for a Request, a Run or a claim, and nothing else.

Caches may be behind. Where that would matter, a decision asks for an uncached read (`Decision.reads`), and the
observation that it is then given names it in `fresh`.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from attrs import field, frozen

from dgdr_retune.api import COMPLETED, Condition, RunReason, run_name

Json = Any


class Read(Enum):
    """A part of an observation that was read from the server in this pass, after everything that this pass did before.

    Several are read in the order in which they stand here: what one of them may create is read after it.
    """

    REQUEST = "the Request"
    RUN = "the Run"
    RUNS = (
        "a Request: the Runs under the name it has reserved and under its generation's; a claim: all of the namespace"
    )
    CLAIM = "the claim"
    JOBS = "the Jobs: by the Run-UID label and, of a Run, the one under its name"
    PODS = "the Pods by the Run-UID label"
    ACCESS = "the publisher's ServiceAccount and RoleBinding"


def is_run_name(name: str, request: str, generation: int) -> bool:
    """Whether the Run of a Request's generation has this name; of generation 0, which is none, no Run has."""
    return generation > 0 and name == run_name(request, generation)


@frozen
class Ref:
    """One version of one object.

    Attributes:
        namespace: where it is.
        name: which may later be another object's.
        uid: which never is.
        resource_version: changes with every write; what fences ours.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str


@frozen
class Failure:
    """Why a Run cannot go on, as its durable marker `RUN_FAILURE_ANNOTATION` says."""

    reason: RunReason
    message: str


@frozen(kw_only=True)
class RunStatus:
    """The part of a Run's status that the Run controller writes, and the publisher's message.

    Attributes:
        phase: for people.
        job_name: the Run's Job, empty before there is one.
        job_uid: its UID.
        input: the lowered document, None before it is recorded; never changed afterwards.
        start_time: when the Job was created, RFC 3339.
        completion_time: when the Run was done, RFC 3339.
        conditions: all of them, ours and others'.
        message: what the publisher says; the controller does not write it.
    """

    phase: str = ""
    job_name: str = ""
    job_uid: str = ""
    input: Mapping[str, Json] | None = None
    start_time: str = ""
    completion_time: str = ""
    conditions: tuple[Condition, ...] = ()
    message: str = ""

    @property
    def completed(self) -> Condition | None:
        """The condition `Completed`, whatever its status."""
        return next((each for each in self.conditions if each.type == COMPLETED), None)


@frozen(kw_only=True)
class RunState:
    """A Run.

    Attributes:
        ref: which.
        object: as the server holds it.
        deleting: its deletion was asked for.
        request_uid: UID of the Request that is its controller (`controller: true`), empty if none is.
        generation: the Request's generation that it copies, by its annotation; 0 if that is missing or no number.
        claim_name: the claim of a trace, empty for a static workload.
        failure: its durable marker.
        status: what is written about it.
    """

    ref: Ref
    object: Mapping[str, Json] = field(repr=False)
    deleting: bool = False
    request_uid: str = ""
    generation: int = 0
    claim_name: str = ""
    failure: Failure | None = None
    status: RunStatus = RunStatus()

    @property
    def is_done(self) -> bool:
        """Whether it has its terminal condition, which never changes."""
        completed = self.status.completed
        return completed is not None and completed.status == "True"


@frozen(kw_only=True)
class RequestState:
    """A Request.

    Attributes:
        ref: which.
        object: as the server holds it.
        deleting: its deletion was asked for.
        generation: of its specification.
        observed_generation: `status.observedGeneration`, 0 if none.
        active_run: name of the open Run, or the name reserved for it; empty if none.
        recent_runs: names of the Runs that are done and kept, the newest first.
        conditions: all of them, ours and others'.
    """

    ref: Ref
    object: Mapping[str, Json] = field(repr=False)
    deleting: bool = False
    generation: int = 1
    observed_generation: int = 0
    active_run: str = ""
    recent_runs: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def next_run(self) -> str:
        """The name of the Run of its generation."""
        return run_name(self.ref.name, self.generation)

    def made(self, run: RunState) -> bool:
        """Whether the Run is one of ours, made for a generation of this Request: nobody else's is touched."""
        return run.request_uid == self.ref.uid and is_run_name(run.ref.name, self.ref.name, run.generation)


@frozen(kw_only=True)
class ClaimState:
    """A PersistentVolumeClaim.

    Attributes:
        ref: which.
        deleting: its deletion was asked for.
        block: `volumeMode` is Block.
        lost: `phase` is Lost.
        finalizers: everybody's, in the server's order.
    """

    ref: Ref
    deleting: bool = False
    block: bool = False
    lost: bool = False
    finalizers: tuple[str, ...] = ()


@frozen(kw_only=True)
class JobEnd:
    """How a Job ended, by its condition Complete or Failed of status True.

    Attributes:
        succeeded: Complete.
        message: the condition's reason and message.
    """

    succeeded: bool
    message: str = ""


@frozen(kw_only=True)
class JobState:
    """A Job.

    Attributes:
        ref: which.
        created_at: when.
        controller_uid: UID of the owner with `controller: true`, empty if there is none.
        run_uid: its Run-UID label, empty if it has none.
        claim_uid: UID of the claim that it was created for, by `CLAIM_UID_ANNOTATION`; empty if none.
        deleted_at: when its deletion was asked for (the server's `deletionTimestamp`, which includes no grace here).
        has_ended_pods: a Pod of it has ended, perhaps is gone, and is counted: nothing is waited for but its own end.
        end: how it ended, None while it has not.
    """

    ref: Ref
    created_at: datetime
    controller_uid: str = ""
    run_uid: str = ""
    claim_uid: str = ""
    deleted_at: datetime | None = None
    has_ended_pods: bool = False
    end: JobEnd | None = None

    @property
    def owner_uid(self) -> str:
        """UID of whom it answers to: its controller, or of a Job that lost its owner the Run that its label names."""
        return self.controller_uid or self.run_uid

    @property
    def result(self) -> JobEnd | None:
        """How it ended by itself: a Job whose Pods are ended by its own deletion fails, and that is no result."""
        is_own = self.deleted_at is None or (self.end is not None and self.end.succeeded)
        return self.end if is_own else None


@frozen(kw_only=True)
class ContainerState:
    """A container of a Pod, by its `containerStatuses` entry.

    Attributes:
        name: which.
        waiting_reason: of `state.waiting`, empty if it does not wait or gives none.
        waiting_message: of `state.waiting`.
        started: it runs or has run (`state.running`, `state.terminated` or `lastState.terminated`).
        exit_code: of `state.terminated`, None while it has not ended.
        exit_reason: of `state.terminated`, such as OOMKilled.
        exit_message: of `state.terminated`.
    """

    name: str
    waiting_reason: str = ""
    waiting_message: str = ""
    started: bool = False
    exit_code: int | None = None
    exit_reason: str = ""
    exit_message: str = ""


@frozen(kw_only=True)
class PodState:
    """A Pod with a Run-UID label.

    Attributes:
        ref: which.
        controller_uid: UID of the owner with `controller: true`, empty if there is none.
        run_uid: its Run-UID label.
        deleting: its deletion was asked for.
        node: where it is bound to, empty if it is not.
        containers: in the server's order.
    """

    ref: Ref
    controller_uid: str = ""
    run_uid: str = ""
    deleting: bool = False
    node: str = ""
    containers: tuple[ContainerState, ...] = ()


@frozen(kw_only=True)
class Access:
    """Whether the objects that let a namespace's publishers write are there."""

    account: bool = False
    binding: bool = False


@frozen
class Refusal:
    """The server refused to create something.

    Attributes:
        body: what was sent.
        message: what the server said.
        for_now: Forbidden, by a quota, a webhook or a right that is missing, which may change; otherwise the same again
            would have the same answer.
    """

    body: Mapping[str, Json] = field(repr=False)
    message: str
    for_now: bool = False


@frozen(kw_only=True)
class RequestObservation:
    """What the Request controller decides on.

    Attributes:
        request: None if it is gone.
        runs: every Run that this Request controls, by UID, and those under the two names of `Read.RUNS`, whoever owns
            them; each once.
        refused: the create that the step before tried in vain.
        fresh: what was read from the server in this pass: `REQUEST`, `RUNS`.
    """

    request: RequestState | None
    runs: tuple[RunState, ...] = ()
    refused: Refusal | None = None
    fresh: frozenset[Read] = frozenset()


@frozen(kw_only=True)
class RunObservation:
    """What the Run controller decides on.

    Attributes:
        run: None if it is gone.
        request: the Request that controls it, by UID; None if there is none.
        claim: the claim of that name, None if there is none.
        jobs: every Job with the Run-UID label of this Run, and the one under its name, whoever owns them; each once.
        pods: every Pod with the Run-UID label of this Run, by name.
        jobs_ahead: what stands before this Run in its namespace: unfinished Jobs of other Runs, and open Runs that were
            created earlier (by creation time, then name) and can have a Job now.
        access: None if it was not read.
        refused: the create that the step before tried in vain.
        fresh: what was read from the server in this pass: `REQUEST`, `RUN`, `CLAIM`, `JOBS`, `PODS`, `ACCESS`.
    """

    run: RunState | None
    request: RequestState | None = None
    claim: ClaimState | None = None
    jobs: tuple[JobState, ...] = ()
    pods: tuple[PodState, ...] = ()
    jobs_ahead: int = 0
    access: Access | None = None
    refused: Refusal | None = None
    fresh: frozenset[Read] = frozenset()


@frozen(kw_only=True)
class ClaimObservation:
    """What the claim controller decides on.

    Attributes:
        claim: None if it is gone.
        run_uids: UIDs of all Runs of the namespace.
        jobs: every Job of the namespace with a Run-UID label that belongs to a finalizer of the claim without a Run.
        pods: every such Pod.
        fresh: what was read from the server in this pass: `RUNS`, `CLAIM`, `JOBS`, `PODS`.
    """

    claim: ClaimState | None
    run_uids: frozenset[str] = frozenset()
    jobs: tuple[JobState, ...] = ()
    pods: tuple[PodState, ...] = ()
    fresh: frozenset[Read] = frozenset()
