"""What a decision asks for: one frozen value for each call to the API server.

Whoever performs them does so in order and stops at the first that is not done. A delete of what is gone is done, and so
is a create of a ServiceAccount or RoleBinding that is already there.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from attrs import field, frozen

from dgdr_retune.api import GROUP, Condition
from dgdr_retune.controllers._observation import Failure, Ref, RunStatus

Json = Any

CLAIM_UID_ANNOTATION: Final = f"{GROUP}/dgdr-claim-uid"
"""On a Run's Job: UID of the claim that it was created for, which tells it from a later claim of that name."""


@frozen(kw_only=True)
class PatchRequestStatus:
    """Merge-patch the Request's status, fenced by its resourceVersion.

    Attributes:
        request: the version that was decided on.
        observed_generation: `status.observedGeneration`, 0 for none.
        active_run: `status.activeRunRef.name`, empty for none (null).
        recent_runs: names of `status.recentRunRefs`, the newest first.
        conditions: the whole list.
    """

    request: Ref
    observed_generation: int
    active_run: str
    recent_runs: tuple[str, ...]
    conditions: tuple[Condition, ...]


@frozen
class CreateRun:
    """Create the Run, with strict field validation."""

    body: Mapping[str, Json] = field(repr=False)


@frozen
class DeleteRun:
    """Delete a Run that is done, in the background, with its UID as precondition."""

    run: Ref


@frozen
class PatchRunStatus:
    """Merge-patch the Run's status, fenced by its resourceVersion.

    Attributes:
        run: the version that was decided on.
        status: what it becomes; `message` is not written, nor what is empty or None, for nothing here is ever cleared.
    """

    run: Ref
    status: RunStatus


@frozen
class PatchRunFailure:
    """Merge-patch the annotation `RUN_FAILURE_ANNOTATION` (JSON: reason, message), fenced by the resourceVersion."""

    run: Ref
    failure: Failure


@frozen
class PatchClaimFinalizers:
    """Merge-patch the claim's whole list of finalizers, fenced by its resourceVersion (an optimistic lock).

    Attributes:
        claim: the version that was decided on.
        finalizers: what the list becomes; everybody else's are as they were read.
    """

    claim: Ref
    finalizers: tuple[str, ...]


@frozen
class CreateServiceAccount:
    """Create the account of a namespace's publishers."""

    body: Mapping[str, Json] = field(repr=False)


@frozen
class CreateRoleBinding:
    """Create the rights of a namespace's publishers."""

    body: Mapping[str, Json] = field(repr=False)


@frozen
class CreateJob:
    """Create the Run's Job, with strict field validation."""

    body: Mapping[str, Json] = field(repr=False)


@frozen
class DeleteJob:
    """Delete a Job in the foreground, with UID and resourceVersion as preconditions."""

    job: Ref


@frozen(kw_only=True)
class EmitEvent:
    """Record an Event: a condition has another status or reason.

    Attributes:
        kind: of the object that it is about.
        about: the object.
        reason: the condition's.
        message: the condition's.
        type: Kubernetes' two types.
    """

    kind: Literal["DynamoGraphDeploymentRequest", "DynamoGraphDeploymentRun"]
    about: Ref
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


Action = (
    PatchRequestStatus
    | CreateRun
    | DeleteRun
    | PatchRunStatus
    | PatchRunFailure
    | PatchClaimFinalizers
    | CreateServiceAccount
    | CreateRoleBinding
    | CreateJob
    | DeleteJob
    | EmitEvent
)
