"""What a claim needs on behalf of Runs that are gone."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, TypeVar

from dgdr_retune.api import claim_finalizer, is_claim_finalizer
from dgdr_retune.controllers._actions import Action, DeleteJob, PatchClaimFinalizers
from dgdr_retune.controllers._decision import NOTHING, Decision
from dgdr_retune.controllers._observation import ClaimObservation, JobState, PodState, Read

_TO_RELEASE: Final = frozenset({Read.RUNS, Read.JOBS, Read.PODS})
"""A Run that is gone never comes back, its Jobs have no successors, its Pods none without a Job: read in this order."""

_OfRun = TypeVar("_OfRun", JobState, PodState)

_STOPPING_S: Final = 30.0
"""How often Jobs and Pods are looked at that nothing is heard of."""


def decide_claim(seen: ClaimObservation) -> Decision:
    """Stop the Jobs of Runs that are gone, and let the claim go where no Job and no Pod object is left.

    Everybody else's finalizers stay, those of Runs that exist too: each Run lets go by itself.
    """
    claim = seen.claim
    if claim is None:
        return NOTHING
    of_runs = {claim_finalizer(uid) for uid in seen.run_uids}
    abandoned = [each for each in claim.finalizers if is_claim_finalizer(each) and each not in of_runs]
    if not abandoned:
        return NOTHING
    if not seen.fresh >= _TO_RELEASE:
        return Decision(reads=_TO_RELEASE)
    jobs, pods = _by_finalizer(seen.jobs), _by_finalizer(seen.pods)
    actions: list[Action] = [
        DeleteJob(job.ref)
        for finalizer in abandoned
        for job in jobs[finalizer]
        if job.deleted_at is None and job.owner_uid == job.run_uid
    ]
    released = {each for each in abandoned if not jobs[each] and not pods[each]}
    if released:
        kept = tuple(each for each in claim.finalizers if each not in released)
        actions.append(PatchClaimFinalizers(claim.ref, kept))
    return Decision(tuple(actions)) if actions else Decision(look_again_s=_STOPPING_S)


def _by_finalizer(objects: Iterable[_OfRun]) -> defaultdict[str, list[_OfRun]]:
    """Jobs or Pods by the finalizer of the Run that their label names.

    A Job that another object controls is left alone, and yet holds the claim, for its label says that it may read from
    it.
    """
    grouped: defaultdict[str, list[_OfRun]] = defaultdict(list)
    for each in objects:
        grouped[claim_finalizer(each.run_uid)].append(each)
    return grouped
