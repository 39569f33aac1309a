"""One Run to decide on: what follows from its observation, and the three things that many rules end with."""

from datetime import datetime
from typing import Any, Final, Literal

from attrs import evolve, frozen

from dgdr_retune.api import COMPLETED, RunReason, claim_finalizer, timestamp
from dgdr_retune.controllers._actions import Action, DeleteJob, PatchClaimFinalizers, PatchRunStatus
from dgdr_retune.controllers._condition import event_of_change, with_condition
from dgdr_retune.controllers._configuration import Configuration
from dgdr_retune.controllers._decision import Decision, read
from dgdr_retune.controllers._diagnosis import has_any_started, left
from dgdr_retune.controllers._observation import Failure, JobState, Read, RunObservation, RunState

Json = Any
End = Literal["Succeeded", "Failed"]

_STOPPING_S: Final = 30.0
"""How often a stop is looked at that nothing is heard of."""


@frozen
class RunCase:
    """A Run that is there, with all that is known about it."""

    seen: RunObservation
    run: RunState
    configuration: Configuration
    now: datetime

    @property
    def job(self) -> JobState | None:
        """The Run's own Job: it has the Run's name and is controlled by it."""
        run = self.run.ref
        return next((job for job in self.seen.jobs if (job.ref.name, job.controller_uid) == (run.name, run.uid)), None)

    @property
    def unfinished(self) -> tuple[JobState, ...]:
        """The Jobs that may still read the trace: its own, and those that lost their owner and have its label."""
        return tuple(job for job in self.seen.jobs if job.owner_uid == self.run.ref.uid and job.result is None)

    @property
    def had_job(self) -> bool:
        """Whether its Job was ever created."""
        return self.job is not None or bool(self.run.status.job_name)

    @property
    def finalizer(self) -> str:
        """What it holds its claim by."""
        return claim_finalizer(self.run.ref.uid)

    @property
    def holds_claim(self) -> bool:
        """Whether it holds the claim."""
        return self.seen.claim is not None and self.finalizer in self.seen.claim.finalizers

    def knows(self, *reads: Read) -> bool:
        """Whether these are as the server had them in this pass."""
        return self.seen.fresh.issuperset(reads)

    def says(self, reason: RunReason) -> bool:
        """Whether its condition has this reason."""
        completed = self.run.status.completed
        return completed is not None and completed.reason == reason

    def tell(
        self, reason: RunReason, message: str, *, end: End | None = None, recorded: dict[str, Json] | None = None
    ) -> tuple[Action, ...]:
        """Write the condition, and what else the status says; nothing if it says all of it already.

        Args:
            reason: of `Completed`.
            message: of `Completed`.
            end: the phase of a Run that is done; without it the phase says whether a container has started.
            recorded: the lowered input.
        """
        standing, is_end = self.run.status, end is not None
        is_running = standing.phase == "Running" or has_any_started(self.job, self.seen.pods)
        status = evolve(
            standing,
            phase=end or ("Running" if is_running else "Pending"),
            input=recorded if standing.input is None else standing.input,
            conditions=with_condition(
                standing.conditions, COMPLETED, "True" if is_end else "False", reason, message, now=self.now
            ),
            completion_time=timestamp(self.now) if is_end else standing.completion_time,
        )
        if self.job is not None:
            status = evolve(
                status,
                job_name=self.job.ref.name,
                job_uid=self.job.ref.uid,
                start_time=timestamp(self.job.created_at),
            )
        if status == standing:
            return ()
        events = event_of_change(self.run, COMPLETED, standing.conditions, status.conditions)
        return (PatchRunStatus(self.run.ref, status), *events)

    def wait(self, reason: RunReason, message: str, look_again_s: float | None = None) -> Decision:
        """Say why the Run is not done, and wait."""
        actions = self.tell(reason, message)
        return Decision(actions) if actions else Decision(look_again_s=look_again_s)

    def release(self) -> tuple[Action, ...]:
        """Let the claim go, after `stop_jobs` has said that no Job is left that may still read from it."""
        claim = self.seen.claim
        if claim is None or not self.holds_claim:
            return ()
        return (PatchClaimFinalizers(claim.ref, tuple(each for each in claim.finalizers if each != self.finalizer)),)

    def stop_jobs(self) -> Decision | None:
        """Have the unfinished Jobs end, None once the server itself has shown that none is left.

        A Job is deleted in the version that the server has just shown: one that has ended since is left alone.
        """
        if self.unfinished and all(job.deleted_at is not None for job in self.unfinished):
            return Decision(look_again_s=_STOPPING_S)
        if not self.knows(Read.JOBS):
            return read(Read.JOBS)
        if self.unfinished:
            return Decision(tuple(DeleteJob(job.ref) for job in self.unfinished if job.deleted_at is None))
        return None

    def stop(self, failure: Failure) -> Decision:
        """End the Run for another reason than its Job's own result: first its Jobs, then the Run, then its hold."""
        stopping = self.stop_jobs()
        if stopping is None:
            return Decision((*self.tell(failure.reason, failure.message, end="Failed"), *self.release()))
        if stopping.actions or stopping.reads:
            return stopping
        return self.wait(
            RunReason.STOPPING,
            f"{failure.message}; this still has to end: {left(self.unfinished, self.seen.pods)}",
            stopping.look_again_s,
        )
