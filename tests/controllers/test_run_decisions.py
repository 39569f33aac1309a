"""The Run controller's tables: claim, Job, Pod, condition, deletion and supersession, whole and row by row."""

from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve
from tests.controllers.decide_model import (
    BAD_SPEC,
    CLAIM,
    CONFIGURATION,
    FOREIGN_FINALIZER,
    SPEC,
    STATIC_SPEC,
    World,
)

from dgdr_retune.api import COMPLETED, RunReason, claim_finalizer
from dgdr_retune.controllers._actions import (
    CreateJob,
    CreateRoleBinding,
    CreateServiceAccount,
    DeleteJob,
    EmitEvent,
    PatchClaimFinalizers,
    PatchRunFailure,
    PatchRunStatus,
)
from dgdr_retune.controllers._condition import with_condition
from dgdr_retune.controllers._decision import NOTHING, Decision
from dgdr_retune.controllers._observation import ContainerState, Read, RunState, RunStatus
from dgdr_retune.controllers._run import decide_run

RUN = "a-run-1"
KEY = ("run", RUN)
HELD = "example.com/hold"

CLAIMS = ("bound", "missing", "deleting", "block", "lost", "another")
JOBS = ("never", "unfinished", "deleting", "succeeded", "failed", "gone", "unowned")
PODS = ("none", "starting", "waiting", "running")

Outcome = tuple[str, str, str]

WAITS: Outcome = ("False", "TraceSourceMissing", "Pending")
DELETED: Outcome = ("True", "TraceSourceDeleted", "Failed")
UNAVAILABLE: Outcome = ("True", "TraceSourceUnavailable", "Failed")
SUCCEEDED: Outcome = ("True", "SearchSucceeded", "Succeeded")
FAILED: Outcome = ("True", "SearchFailed", "Failed")
SUPERSEDED: Outcome = ("True", "Superseded", "Failed")
RUNS: Outcome = ("False", "EvaluatingCandidates", "")

AT_LAST: dict[str, dict[str, Outcome]] = {
    #            bound           missing         deleting        block           lost             another
    "never": dict(zip(CLAIMS, (RUNS, WAITS, DELETED, UNAVAILABLE, UNAVAILABLE, RUNS), strict=True)),
    "unfinished": dict(zip(CLAIMS, (RUNS, DELETED, DELETED, RUNS, RUNS, DELETED), strict=True)),
    "deleting": dict(zip(CLAIMS, (FAILED, DELETED, DELETED, FAILED, FAILED, DELETED), strict=True)),
    "succeeded": dict.fromkeys(CLAIMS, SUCCEEDED),
    "failed": dict.fromkeys(CLAIMS, FAILED),
    "gone": dict(zip(CLAIMS, (FAILED, DELETED, DELETED, FAILED, FAILED, FAILED), strict=True)),
    "unowned": dict(zip(CLAIMS, (FAILED, DELETED, DELETED, FAILED, FAILED, DELETED), strict=True)),
}
"""How a Run ends once nothing is in the way any more, by its Job's state and its claim's, if nobody supersedes it."""

NOT_DONE = ("Pending", "EvaluatingCandidates", "TraceSourceMissing", "ContainerWaiting", "JobNameConflict", "Stopping")
DONE = (
    "SearchSucceeded",
    "SearchFailed",
    "Superseded",
    "TraceSourceDeleted",
    "TraceSourceUnavailable",
    "StartDeadlineExceeded",
)


def ready(spec: Any = SPEC) -> World:
    """A Run that is accepted and has no Job, on a claim."""
    world = World()
    world.create_claim(finalizers=(FOREIGN_FINALIZER, HELD))
    world.create_request("a", spec)
    for _ in range(3):
        world.step(("request", "a"))
        world.catch_up()
    assert world.get("run", RUN) is not None
    return world


def running(spec: Any = SPEC) -> World:
    """A Run whose Job is there."""
    world = ready(spec)
    world.settle()
    assert world.get("job", RUN) is not None
    return world


def situation(claim: str, job: str, pod: str, *, superseded: bool) -> World:
    world = ready() if job == "never" else running()
    if job != "never" and pod != "none":
        world.start_pod(world.get("job", RUN))
        reason = {"starting": "ContainerCreating", "waiting": "ImagePullBackOff", "running": ""}[pod]
        world.set_containers(f"{RUN}-pod", waiting_reason=reason, started=pod == "running")
    if superseded:
        world.edit_request("a", SPEC)
    match claim:
        case "missing" | "another":
            world.drop("claim", CLAIM)
        case "deleting":
            world.delete_claim()
        case "block" | "lost":
            world.put("claim", evolve(world.get("claim", CLAIM), **{claim: True}))
    if claim == "another":
        world.create_claim()
    match job:
        case "deleting" | "gone":
            world.delete_job(RUN, at_once=job == "gone")
        case "unowned":
            world.take_owner_away(RUN)
        case "succeeded" | "failed":
            world.end_job(RUN, succeeded=job == "succeeded")
    return world


def outcome(world: World) -> Outcome:
    status = world.get("run", RUN).status
    return status.completed.status, status.completed.reason, status.phase


def at_last(claim: str, job: str, pod: str, *, superseded: bool) -> Outcome:
    expected = AT_LAST["gone" if (job, pod) == ("deleting", "none") else job][claim]
    if superseded and job not in ("succeeded", "failed"):
        return SUPERSEDED
    if expected != RUNS:
        return expected
    is_running = pod == "running" and job == "unfinished"
    reason = "ContainerWaiting" if pod == "waiting" and job == "unfinished" else "EvaluatingCandidates"
    return "False", reason, "Running" if is_running else "Pending"


def everything_goes_on(world: World) -> None:
    for _ in range(3):
        world.settle()
        world.must_be_safe()
        kubelet(world)
    world.settle()


def holds_claim(world: World, uid: str) -> bool:
    claim = world.get("claim", CLAIM)
    return claim is not None and claim_finalizer(uid) in claim.finalizers


def stand(world: World, status: str, reason: str) -> RunStatus:
    """Have the Run say this."""
    run = world.get("run", RUN)
    conditions = with_condition((), COMPLETED, status, RunReason(reason), "as before", now=world.now)
    world.put("run", evolve(run, status=evolve(run.status, conditions=conditions)))
    return world.get("run", RUN).status


def kubelet(world: World) -> None:
    for name in tuple(world.objects["pod"]):
        if world.get("pod", name).deleting:
            world.kubelet_removes(name)


@pytest.mark.parametrize("superseded", [False, True], ids=["newest", "superseded"])
@pytest.mark.parametrize("pod", PODS)
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_every_situation_comes_to_the_end_that_the_table_says(
    claim: str, job: str, pod: str, *, superseded: bool
) -> None:
    world = situation(claim, job, pod, superseded=superseded)
    everything_goes_on(world)
    expected = at_last(claim, job, pod, superseded=superseded)
    assert outcome(world) == expected
    if world.get("claim", CLAIM) is not None and claim != "another":
        assert holds_claim(world, world.get("run", RUN).ref.uid) == (expected[0] == "False")


@pytest.mark.parametrize("superseded", [False, True], ids=["newest", "superseded"])
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_what_was_said_before_changes_no_end(claim: str, job: str, *, superseded: bool) -> None:
    for reason in NOT_DONE:
        world = situation(claim, job, "running", superseded=superseded)
        stand(world, "False", reason)
        everything_goes_on(world)
        assert outcome(world) == at_last(claim, job, "running", superseded=superseded), reason


@pytest.mark.parametrize("superseded", [False, True], ids=["newest", "superseded"])
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_what_a_run_that_is_done_says_stays_and_it_lets_go_of_everything_but_a_finished_job(
    claim: str, job: str, *, superseded: bool
) -> None:
    for reason in DONE:
        world = situation(claim, job, "running", superseded=superseded)
        said = stand(world, "True", reason)
        everything_goes_on(world)
        run = world.get("run", RUN)
        assert run.status == said
        assert (world.get("job", RUN) is not None) == (job in ("succeeded", "failed"))
        assert not holds_claim(world, run.ref.uid)


@pytest.mark.parametrize("superseded", [False, True], ids=["newest", "superseded"])
@pytest.mark.parametrize("pod", PODS)
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_run_that_is_being_deleted_says_no_more_and_stops_its_job_only_if_its_trace_goes(
    claim: str, job: str, pod: str, *, superseded: bool
) -> None:
    world = situation(claim, job, pod, superseded=superseded)
    before = world.get("run", RUN)
    world.hold("run", RUN)
    world.delete("run", RUN)
    everything_goes_on(world)
    run = world.get("run", RUN)
    assert (run.status, run.failure) == (before.status, before.failure)
    assert holds_claim(world, run.ref.uid) == (job != "never" and claim not in ("missing", "another"))
    if job in ("unfinished", "unowned"):
        assert (world.get("job", RUN) is None) == (claim in ("missing", "deleting", "another"))

    world.let_go("run", RUN)
    everything_goes_on(world)
    assert not holds_claim(world, run.ref.uid)


@pytest.mark.parametrize("edited", [False, True], ids=["newest", "edited"])
@pytest.mark.parametrize("pod", PODS)
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_request_that_is_being_deleted_takes_no_runs_place_and_starts_none(
    claim: str, job: str, pod: str, *, edited: bool
) -> None:
    world = situation(claim, job, pod, superseded=edited)
    world.hold("request", "a")
    world.delete("request", "a")
    everything_goes_on(world)
    if job == "never" and claim in ("bound", "another"):
        assert world.get("run", RUN).status.completed is None
        assert world.get("job", RUN) is None
    else:
        assert outcome(world) == at_last(claim, job, pod, superseded=False)


def test_a_run_that_was_superseded_says_so_though_its_request_is_deleted_meanwhile() -> None:
    world = situation("bound", "unfinished", "running", superseded=True)
    world.settle()
    assert outcome(world)[1] == "Stopping"
    world.hold("request", "a")
    world.delete("request", "a")
    everything_goes_on(world)
    assert outcome(world) == SUPERSEDED


def test_a_job_that_lost_its_owner_is_stopped_before_the_claim_is_let_go() -> None:
    world = situation("bound", "unowned", "running", superseded=False)
    world.settle()
    assert outcome(world)[1] == "Stopping"
    assert holds_claim(world, world.get("run", RUN).ref.uid)
    assert world.get("job", RUN).deleted_at is not None


def test_another_job_with_the_label_and_no_owner_is_stopped_too() -> None:
    world = running()
    job = evolve(world.get("job", RUN), ref=world.fresh_ref("a-copy"), controller_uid="")
    world.put("job", job)
    world.end_job(RUN, succeeded=True)
    world.catch_up()
    world.step(KEY)
    assert outcome(world) == SUCCEEDED
    assert [type(action) for action in world.step(KEY).actions] == [DeleteJob]
    world.settle()
    assert world.get("job", "a-copy") is None
    assert not holds_claim(world, world.get("run", RUN).ref.uid)


def test_another_job_with_the_label_says_nothing_of_the_claim() -> None:
    world = running()
    copy = evolve(world.get("job", RUN), ref=world.fresh_ref("a-copy"), controller_uid="", claim_uid="of-another-claim")
    world.put("job", copy)
    world.settle()
    assert world.get("run", RUN).failure is None
    assert world.get("job", RUN).deleted_at is None


@pytest.mark.parametrize("kinds", [("job",), ("claim",), ("run",), ("request",), ("job", "claim"), ("job", "run")])
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("superseded", [False, True], ids=["newest", "superseded"])
def test_caches_that_are_behind_break_no_rule_and_change_no_end(
    claim: str, job: str, kinds: tuple[str, ...], *, superseded: bool
) -> None:
    for events in (1, 2, 3):
        world = situation(claim, job, "running", superseded=superseded)
        world.catch_up()
        for _ in range(3):
            for kind in kinds:
                world.forget(kind, events)
            world.step(KEY)
            world.step(("claim", CLAIM))
        for _ in range(3):
            world.settle()
            kubelet(world)
        world.settle()
        ends = {AT_LAST[job][claim][:2]}
        if superseded and job not in ("succeeded", "failed"):  # what is seen first decides
            ends = {SUPERSEDED[:2]} | (ends if "request" in kinds else set())
        assert outcome(world)[:2] in ends


@pytest.mark.parametrize(("claim", "superseded"), [("deleting", False), ("missing", False), ("bound", True)])
def test_a_stop_waits_for_the_last_pod_and_names_what_is_left(claim: str, *, superseded: bool) -> None:
    world = situation(claim, "unfinished", "running", superseded=superseded)
    world.settle()
    completed = world.get("run", RUN).status.completed
    assert (completed.status, completed.reason) == ("False", "Stopping")
    assert f"job {RUN}, pod {RUN}-pod on node node-1" in completed.message
    assert world.decide(KEY) == Decision(look_again_s=30.0)


# The way to a Job


def test_the_input_is_recorded_and_the_claim_held_before_the_job_is_created() -> None:
    world = ready()
    world.catch_up()
    actions = world.decide(KEY).actions
    assert [type(action) for action in actions] == [
        PatchRunStatus,
        EmitEvent,
        CreateServiceAccount,
        CreateRoleBinding,
        PatchClaimFinalizers,
        CreateJob,
    ]
    assert actions[0].status.input["traffic"]["source"]["type"] == "trace"
    assert actions[4].finalizers == (FOREIGN_FINALIZER, HELD, claim_finalizer(world.get("run", RUN).ref.uid))


def test_a_job_is_created_on_what_the_server_shows_and_on_nothing_else() -> None:
    world = ready()
    world.catch_up()
    decision = decide_run(world.observe(KEY), CONFIGURATION, world.now)
    assert decision == Decision(reads=frozenset({Read.REQUEST, Read.RUN, Read.CLAIM, Read.JOBS, Read.ACCESS}))


def test_a_static_run_needs_no_claim() -> None:
    world = World()
    world.create_request("a", STATIC_SPEC)
    world.settle()
    assert world.get("job", RUN) is not None
    assert world.get("run", RUN).status.input["traffic"]["source"]["type"] == "synthetic"


def test_at_most_eight_writes_lead_from_a_request_to_a_job_that_runs() -> None:
    world = World()
    world.create_claim()
    world.create_request("a")
    writes = []
    perform = World.perform

    def counted(self: World, key: Any, action: Any) -> bool:
        writes.append(action)
        return perform(self, key, action)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "perform", counted)
        world.settle()
        world.start_pod(world.get("job", RUN))
        world.set_containers(f"{RUN}-pod", started=True)
        world.settle()
    assert world.get("run", RUN).status.phase == "Running"
    apart = (EmitEvent, CreateServiceAccount, CreateRoleBinding)
    assert len([action for action in writes if not isinstance(action, apart)]) == 8


def test_what_the_status_says_is_what_the_job_gets() -> None:
    world = ready()
    run: RunState = world.get("run", RUN)
    recorded = {"engine": {"model": "as recorded by the operator before"}}
    world.put("run", evolve(run, status=evolve(run.status, input=recorded)))
    world.catch_up()
    create = world.decide(KEY).actions[-1]
    assert isinstance(create, CreateJob)
    environment = create.body["spec"]["template"]["spec"]["containers"][0]["env"]
    assert "as recorded by the operator before" in str(environment)


def test_a_run_waits_without_a_job_until_its_request_names_it() -> None:
    world = ready()
    world.put("request", evolve(world.get("request", "a"), active_run="a-run-0"))
    world.catch_up()
    assert world.decide(KEY) == Decision(look_again_s=60.0)


def test_a_run_that_no_request_of_ours_made_is_left_alone() -> None:
    world = World()
    world.create_claim()
    world.create_request("b")
    world.create_foreign_run(RUN)
    world.catch_up()
    assert world.decide(KEY).actions == ()
    run = world.get("run", RUN)
    world.put("run", evolve(run, request_uid=world.get("request", "b").ref.uid, generation=1))
    world.catch_up()
    assert world.decide(KEY).actions == ()


def test_no_job_is_created_for_a_request_or_a_run_on_its_way_out() -> None:
    for kind, name in (("request", "a"), ("run", RUN)):
        world = ready()
        world.catch_up()
        world.put(kind, evolve(world.get(kind, name), deleting=True))  # which the caches have not seen yet
        assert world.decide(KEY).actions == ()


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_job_that_goes_for_a_newer_generation_is_superseded_though_the_cache_shows_the_old_one(
    *, is_gone: bool
) -> None:
    world = running()
    world.catch_up()
    if is_gone:
        world.drop("job", RUN)
    else:
        world.put("job", evolve(world.get("job", RUN), deleted_at=world.now))
    world.catch_up()
    world.edit_request("a", SPEC)  # which the caches have not seen yet
    assert [type(action) for action in world.step(KEY).actions] == [PatchRunFailure]
    world.step(KEY)
    completed = world.get("run", RUN).status.completed
    assert completed.reason == ("Superseded" if is_gone else "Stopping")
    assert "takes its place" in completed.message


def test_a_job_name_that_is_taken_is_told_and_looked_at_again() -> None:
    world = ready()
    world.create_foreign_job(RUN)
    world.settle()
    assert outcome(world) == ("False", "JobNameConflict", "Pending")
    assert world.decide(KEY) == Decision(look_again_s=30.0)
    assert claim_finalizer(world.get("run", RUN).ref.uid) not in world.get("claim", CLAIM).finalizers
    world.drop("job", RUN)
    world.settle()
    assert outcome(world)[1] == "EvaluatingCandidates"


def test_a_job_with_our_uid_that_does_not_control_it_is_somebody_elses() -> None:
    world = ready()
    world.create_foreign_job(RUN)
    labelled = evolve(world.get("job", RUN), controller_uid="", run_uid=world.get("run", RUN).ref.uid)
    world.put("job", labelled)
    world.settle()
    assert outcome(world)[1] == "JobNameConflict"


def test_a_run_waits_for_its_turn_and_its_message_stays_the_same() -> None:
    world = ready()
    for name in ("x", "y", "z"):
        world.create_foreign_job(name)
    world.settle()
    assert outcome(world) == ("False", "Pending", "Pending")
    world.drop("job", "z")
    world.catch_up()
    assert world.decide(KEY) == Decision(look_again_s=60.0)
    world.drop("job", "y")
    world.settle()
    assert world.get("job", RUN) is not None


def test_what_cannot_be_lowered_fails_with_the_cause() -> None:
    world = ready(BAD_SPEC)
    world.settle()
    assert outcome(world) == FAILED
    assert "spec.objective" in world.get("run", RUN).status.completed.message
    assert world.get("job", RUN) is None


def test_a_job_that_the_server_refuses_fails_the_run_and_lets_the_claim_go() -> None:
    world = ready()
    world.refuses_jobs = True
    world.settle()
    assert outcome(world) == FAILED
    assert "refused by a rule" in world.get("run", RUN).status.completed.message
    assert world.get("claim", CLAIM).finalizers == (FOREIGN_FINALIZER, HELD)


# While the Job runs


def waiting(*containers: ContainerState) -> World:
    world = running()
    world.start_pod(world.get("job", RUN))
    world.put("pod", evolve(world.get("pod", f"{RUN}-pod"), containers=containers))
    world.settle()
    return world


def test_the_first_container_that_waits_is_told_in_the_kubelets_words() -> None:
    words = 'failed to prepare subPath for volumeMount "trace" of container "sweeper"'
    world = waiting(
        ContainerState(name="publisher", waiting_reason="ImagePullBackOff"),
        ContainerState(name="sweeper", waiting_reason="CreateContainerConfigError", waiting_message=words),
    )
    completed = world.get("run", RUN).status.completed
    assert (completed.status, completed.reason) == ("False", "ContainerWaiting")
    assert completed.message == f"sweeper: CreateContainerConfigError: {words}"


def test_a_publisher_that_waits_is_told_and_clears() -> None:
    world = waiting(
        ContainerState(name="sweeper", started=True), ContainerState(name="publisher", waiting_reason="ErrImagePull")
    )
    assert outcome(world) == ("False", "ContainerWaiting", "Running")
    world.set_containers(f"{RUN}-pod", waiting_reason="", started=True)
    world.settle()
    assert outcome(world) == ("False", "EvaluatingCandidates", "Running")


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", ""])
def test_a_container_that_only_starts_is_not_worth_telling(reason: str) -> None:
    assert outcome(waiting(ContainerState(name="sweeper", waiting_reason=reason)))[1] == "EvaluatingCandidates"


def test_other_containers_and_other_jobs_pods_tell_nothing() -> None:
    world = waiting(ContainerState(name="injected", waiting_reason="ErrImagePull"))
    assert outcome(world)[1] == "EvaluatingCandidates"
    pod = world.get("pod", f"{RUN}-pod")
    stranger = (ContainerState(name="sweeper", waiting_reason="ErrImagePull"),)
    world.put("pod", evolve(pod, controller_uid="another-job", containers=stranger))
    world.catch_up()
    assert world.decide(KEY).actions == ()


def test_a_wait_never_ends_a_run_without_a_deadline() -> None:
    world = waiting(ContainerState(name="sweeper", waiting_reason="ErrImagePull"))
    patient = evolve(CONFIGURATION, start_deadline_s=None)
    world.now += timedelta(days=30)
    assert decide_run(world.observe(KEY), patient, world.now) == NOTHING


@pytest.mark.parametrize("started", ["none", "sweeper", "publisher"])
def test_containers_that_do_not_start_in_time_fail_the_run(started: str) -> None:
    world = waiting(
        *(
            ContainerState(name=name, started=name == started, waiting_reason="" if name == started else "ErrImagePull")
            for name in ("sweeper", "publisher")
        )
    )
    assert world.decide(KEY) == Decision(look_again_s=60.0)  # clocks are set while it waits
    world.now += timedelta(seconds=599)
    assert world.decide(KEY) == Decision(look_again_s=1.0)
    world.now += timedelta(seconds=1)
    assert [type(action) for action in world.decide(KEY).actions] == [PatchRunFailure]
    world.settle()
    kubelet(world)
    world.settle()
    assert outcome(world) == ("True", "StartDeadlineExceeded", "Failed")
    assert "ErrImagePull" in world.get("run", RUN).status.completed.message


def test_the_deadline_is_judged_by_what_the_server_shows() -> None:
    world = waiting(ContainerState(name="sweeper"), ContainerState(name="publisher"))
    world.set_containers(f"{RUN}-pod", started=True)  # which the caches have not seen yet
    world.now += timedelta(seconds=600)
    assert not any(isinstance(action, PatchRunFailure) for action in world.decide(KEY).actions)


def test_a_run_whose_pod_has_run_and_is_gone_is_not_failed_by_the_deadline() -> None:
    world = waiting(ContainerState(name="sweeper", started=True), ContainerState(name="publisher", started=True))
    world.drop("pod", f"{RUN}-pod")
    world.put("job", evolve(world.get("job", RUN), has_ended_pods=True))
    world.catch_up()
    world.now += timedelta(seconds=601)
    assert world.decide(KEY).actions == ()


# The end


def test_a_failure_tells_exit_codes_and_the_sweepers_last_word() -> None:
    world = running()
    world.start_pod(world.get("job", RUN))
    world.end_job(RUN, succeeded=False)
    said = "trace /var/run/aisimulate/trace/trace.jsonl.gz is a directory"
    world.put("run", evolve(world.get("run", RUN), status=evolve(world.get("run", RUN).status, message=said)))
    world.settle()
    message = world.get("run", RUN).status.completed.message
    assert "sweeper exited with 2 (its input or its trace was refused)" in message
    assert said in message
    assert world.get("run", RUN).status.message == said


def test_a_stop_deletes_the_job_in_the_version_that_the_server_shows() -> None:
    world = running()
    world.edit_request("a", SPEC)
    world.catch_up()
    world.step(KEY)  # marks why
    world.put("job", world.get("job", RUN))  # a new version, which the caches have not seen yet
    assert world.decide(KEY).actions == (DeleteJob(world.get("job", RUN).ref),)


def test_a_job_that_ended_before_the_stop_keeps_its_result() -> None:
    world = running()
    world.edit_request("a", SPEC)
    world.catch_up()
    world.end_job(RUN, succeeded=True)  # which the caches have not seen yet
    assert not any(isinstance(action, DeleteJob) for action in world.decide(KEY).actions)
    world.settle()
    assert outcome(world) == SUCCEEDED


def test_a_job_that_its_own_stop_made_fail_has_no_result() -> None:
    world = situation("deleting", "unfinished", "running", superseded=False)
    world.settle()
    world.end_job(RUN, succeeded=False)
    world.settle()
    assert outcome(world)[1] == "Stopping"
    kubelet(world)
    world.settle()
    assert outcome(world) == DELETED


def test_a_claim_that_comes_back_does_not_undo_its_deletion() -> None:
    world = situation("missing", "unfinished", "running", superseded=False)
    world.settle()
    assert outcome(world)[1] == "Stopping"
    world.create_claim()
    world.settle()
    kubelet(world)
    world.settle()
    assert outcome(world) == DELETED


def test_a_lost_status_write_does_not_lose_the_failure() -> None:
    world = situation("block", "never", "none", superseded=False)
    world.catch_up()
    world.step(KEY)
    assert world.get("run", RUN).failure is not None
    world.drop("claim", CLAIM)
    world.create_claim()
    world.settle()
    assert outcome(world) == UNAVAILABLE


def test_a_job_that_a_stale_pass_left_is_stopped_before_the_claim_is_let_go() -> None:
    world = running()
    run = world.get("run", RUN)
    completed = run.status.completed.model_copy(update={"status": "True", "reason": "Superseded"})
    world.put("run", evolve(run, status=evolve(run.status, phase="Failed", conditions=(completed,))))
    world.start_pod(world.get("job", RUN))
    world.catch_up()
    assert [type(action) for action in world.step(KEY).actions] == [DeleteJob]
    assert world.step(KEY) == Decision(look_again_s=30.0)
    kubelet(world)
    world.settle()
    assert world.get("claim", CLAIM).finalizers == (FOREIGN_FINALIZER, HELD)
    assert outcome(world) == SUPERSEDED


def test_a_run_that_lost_its_request_still_answers_for_its_job() -> None:
    world = running()
    world.orphan("request", "a")
    world.let_go("request", "a")
    world.delete_claim()
    for _ in range(2):
        world.settle()
        kubelet(world)
    assert outcome(world) == DELETED
    assert world.get("claim", CLAIM).finalizers == (HELD,)


def test_a_condition_stays_bounded_whatever_the_kubelet_says() -> None:
    world = waiting(ContainerState(name="sweeper", waiting_reason="Error", waiting_message="x" * 100_000))
    assert len(world.get("run", RUN).status.completed.message) == 32768
