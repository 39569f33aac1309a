"""The claim controller's table: Runs that are gone, their Jobs and Pods, and everybody else's finalizers."""

import pytest
from attrs import evolve
from tests.controllers.decide_model import EPOCH, FOREIGN_FINALIZER

from dgdr_retune.api import claim_finalizer
from dgdr_retune.controllers._actions import DeleteJob, PatchClaimFinalizers
from dgdr_retune.controllers._claim import decide_claim
from dgdr_retune.controllers._decision import NOTHING, Decision
from dgdr_retune.controllers._observation import (
    ClaimObservation,
    ClaimState,
    JobEnd,
    JobState,
    PodState,
    Read,
    Ref,
)

READS = frozenset({Read.RUNS, Read.JOBS, Read.PODS})
WAIT = Decision(look_again_s=30.0)


def ref(name: str) -> Ref:
    return Ref("ns", name, f"uid-of-{name}", "7")


def claim(*run_uids: str, deleting: bool = False) -> ClaimState:
    finalizers = (FOREIGN_FINALIZER, *map(claim_finalizer, run_uids), "example.com/hold")
    return ClaimState(ref=ref("traces"), deleting=deleting, finalizers=finalizers)


def job(run_uid: str, **state: object) -> JobState:
    return evolve(
        JobState(ref=ref(f"job-of-{run_uid}"), created_at=EPOCH, controller_uid=run_uid, run_uid=run_uid), **state
    )


def pod(run_uid: str, **state: object) -> PodState:
    return evolve(PodState(ref=ref(f"pod-of-{run_uid}"), controller_uid="a-job", run_uid=run_uid), **state)


def released(*run_uids: str) -> PatchClaimFinalizers:
    """The patch that leaves the finalizers of these Runs."""
    return PatchClaimFinalizers(ref("traces"), claim(*run_uids).finalizers)


ENDED = JobEnd(succeeded=True)

ROWS = {
    "nothing is left": ((), (), (released(),)),
    "a pod object is left": ((), (pod("gone"),), ()),
    "a pod is on its way out, perhaps on a lost node": ((), (pod("gone", deleting=True),), ()),
    "a job is left": ((job("gone"),), (), (DeleteJob(ref("job-of-gone")),)),
    "a job and its pod are left": ((job("gone"),), (pod("gone"),), (DeleteJob(ref("job-of-gone")),)),
    "a job is on its way out": ((job("gone", deleted_at=EPOCH),), (pod("gone", deleting=True),), ()),
    "a finished job is left": ((job("gone", end=ENDED),), (), (DeleteJob(ref("job-of-gone")),)),
    "an orphaned job is left": ((job("gone", controller_uid=""),), (), (DeleteJob(ref("job-of-gone")),)),
    "a job with the label is somebody else's": ((job("gone", controller_uid="cron"),), (), ()),
}


@pytest.mark.parametrize("deleting", [False, True], ids=["live", "deleting"])
@pytest.mark.parametrize(("jobs", "pods", "actions"), ROWS.values(), ids=ROWS)
def test_a_run_that_is_gone_lets_go_when_no_job_and_no_pod_object_is_left(
    jobs: tuple[JobState, ...], pods: tuple[PodState, ...], actions: tuple[object, ...], *, deleting: bool
) -> None:
    seen = ClaimObservation(claim=claim("gone", deleting=deleting), jobs=jobs, pods=pods, fresh=READS)
    assert decide_claim(seen) == (Decision(actions) if actions else WAIT)


def test_what_a_run_that_exists_holds_is_its_own_business() -> None:
    seen = ClaimObservation(claim=claim("alive"), run_uids=frozenset({"alive"}), fresh=READS)
    assert decide_claim(seen) == NOTHING


@pytest.mark.parametrize("finalizers", [(), (FOREIGN_FINALIZER,), ("nvidia.com/dgdr-run-", "nvidia.com/dgdr-other-x")])
def test_finalizers_of_others_are_left_alone(finalizers: tuple[str, ...]) -> None:
    seen = ClaimObservation(claim=evolve(claim(), finalizers=finalizers), fresh=READS)
    assert decide_claim(seen) == NOTHING
    assert decide_claim(ClaimObservation(claim=None)) == NOTHING


def test_one_patch_releases_every_run_that_has_nothing_left() -> None:
    seen = ClaimObservation(
        claim=claim("a", "b", "c", "d", "alive"),
        run_uids=frozenset({"alive"}),
        jobs=(job("c"),),
        pods=(pod("d"),),
        fresh=READS,
    )
    assert decide_claim(seen) == Decision((DeleteJob(ref("job-of-c")), released("c", "d", "alive")))


@pytest.mark.parametrize("missing", sorted(READS, key=str))
def test_nothing_is_done_on_what_the_caches_show(missing: Read) -> None:
    seen = ClaimObservation(claim=claim("gone"), jobs=(job("gone"),), fresh=READS - {missing})
    assert decide_claim(seen) == Decision(reads=READS)


def test_runs_are_read_before_their_jobs_and_jobs_before_their_pods() -> None:
    order = list(Read)
    assert order.index(Read.RUNS) < order.index(Read.JOBS) < order.index(Read.PODS)


def test_the_release_done_there_is_nothing_left_to_do() -> None:
    seen = ClaimObservation(claim=claim("gone"), fresh=READS)
    (patch,) = decide_claim(seen).actions
    assert isinstance(patch, PatchClaimFinalizers)
    assert decide_claim(evolve(seen, claim=evolve(claim(), finalizers=patch.finalizers))) == NOTHING
