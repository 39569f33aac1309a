"""What happens to Requests, Runs and claims: each scenario is people's part of it, and what it must come to."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen

from dgdr_retune.api import GROUP, RUN
from dgdr_retune.testing._admission import Admission, Review
from dgdr_retune.testing._errors import ApiError
from dgdr_retune.testing._node import PUBLISHER, SWEEPER, Script, Waiting
from dgdr_retune.testing._part import CLAIMS, JOBS, NAMESPACES, PODS, REQUESTS, RUNS
from dgdr_retune.testing._stage import CLAIM, Stage
from dgdr_retune.testing._store import Key
from dgdr_retune.testing._world import NAMESPACE

_LONG: Final = Script(sweeper_s=50_000.0)
"""It runs until it is stopped."""
_DEADLINE_S: Final = 300.0
REFUSED_MODEL: Final = "refused/model"


@frozen(eq=False)
class Scenario:
    """One course of events.

    Attributes:
        name: for the command line.
        play: what people and the cluster do.
        comes_to: the reason that each Run has in the end; Runs that are not named are gone.
        settings: of the operator.
        claims_left: names of claims that are there in the end; none of them is held by a Run.
        admission: what else judges writes.
    """

    name: str
    play: Callable[[Stage], Awaitable[None]]
    comes_to: Mapping[str, str]
    settings: Mapping[str, Any] = field(factory=dict)
    claims_left: tuple[str, ...] = (CLAIM,)
    admission: tuple[Admission, ...] = ()


async def _main_path(stage: Stage) -> None:
    stage.claim()
    stage.request()
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _static(stage: Stage) -> None:
    stage.request(claim=None)
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _sweeper_fails(stage: Stage) -> None:
    stage.world.script = Script(sweeper_exit=2)
    await _main_path_until(stage, "SearchFailed")


async def _main_path_until(stage: Stage, reason: str) -> None:
    stage.claim()
    stage.request()
    await stage.until_reason("demo-run-1", reason)


async def _superseded(stage: Stage) -> None:
    stage.world.scripts["demo-run-1"] = _LONG
    stage.claim()
    stage.request()
    await stage.until_running("demo-run-1")
    stage.change(rounds=4)
    await stage.until_reason("demo-run-2", "SearchSucceeded")


async def _superseded_before_it_starts(stage: Stage) -> None:
    stage.request()
    await stage.until_reason("demo-run-1", "TraceSourceMissing")
    stage.change(rounds=4)
    await stage.until_reason("demo-run-2", "TraceSourceMissing")
    stage.claim()
    await stage.until_reason("demo-run-2", "SearchSucceeded")


async def _claim_deleted_while_waiting(stage: Stage) -> None:
    stage.world.script = Script(waiting=Waiting(SWEEPER, "ImagePullBackOff", "Back-off pulling image"))
    await _main_path_until(stage, "ContainerWaiting")
    stage.delete(CLAIMS, CLAIM)
    await stage.until_gone(CLAIMS, CLAIM)


async def _claim_deleted_while_running(stage: Stage) -> None:
    stage.world.script = _LONG
    stage.claim()
    stage.request()
    await stage.until_running("demo-run-1")
    stage.delete(CLAIMS, CLAIM)
    await stage.until_gone(CLAIMS, CLAIM)


async def _claim_deleted_when_finished(stage: Stage) -> None:
    stage.claim()
    stage.request()
    await stage.until_finished("demo-run-1")
    stage.delete(CLAIMS, CLAIM)
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _claim_recreated(stage: Stage) -> None:
    await _claim_deleted_while_running(stage)
    stage.world.script = Script()
    stage.claim()
    stage.request("later")
    await stage.until_reason("later-run-1", "SearchSucceeded")


async def _claim_appears(stage: Stage) -> None:
    stage.request()
    await stage.until_reason("demo-run-1", "TraceSourceMissing")
    stage.claim()
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _block_claim(stage: Stage) -> None:
    stage.claim(mode="Block")
    stage.request()
    await stage.until_reason("demo-run-1", "TraceSourceUnavailable")


async def _lost_claim(stage: Stage) -> None:
    stage.claim(phase="Lost")
    stage.request()
    await stage.until_reason("demo-run-1", "TraceSourceUnavailable")


async def _unbound_claim(stage: Stage) -> None:
    stage.claim(phase="Pending")
    stage.request()
    await stage.until("there is a pod", lambda: any(stage.people.all(PODS, NAMESPACE)))
    stage.people.patch(Key(CLAIMS, NAMESPACE, CLAIM), {"status": {"phase": "Bound"}}, "status")
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _running(stage: Stage) -> None:
    """A Run whose containers run, and a Request that knows of it: a Run that it had not seen would be made again."""
    stage.world.script = _LONG
    stage.claim()
    stage.request()
    await stage.until_running("demo-run-1")
    await stage.until_accepted("demo", "RunCreated")


async def _run_deleted(stage: Stage) -> None:
    await _running(stage)
    stage.delete(RUNS, "demo-run-1")
    await stage.until_gone(JOBS, "demo-run-1")


async def _run_deleted_leaving_its_job(stage: Stage) -> None:
    await _running(stage)
    stage.delete(RUNS, "demo-run-1", "Orphan")
    await stage.until_gone(JOBS, "demo-run-1")


async def _run_deleted_when_done(stage: Stage) -> None:
    await _main_path(stage)
    await stage.until_accepted("demo", "RunCreated")
    stage.delete(RUNS, "demo-run-1")
    await stage.until_gone(JOBS, "demo-run-1")


async def _request_deleted(stage: Stage) -> None:
    stage.world.script = _LONG
    stage.claim()
    stage.request()
    await stage.until_running("demo-run-1")
    stage.delete(REQUESTS, "demo", "Foreground")
    await stage.until_gone(RUNS, "demo-run-1")


async def _operator_removed(stage: Stage) -> None:
    stage.world.script = _LONG
    stage.claim()
    stage.request()
    await stage.until_running("demo-run-1")
    await stage.operators.stop()
    stage.delete(CLAIMS, CLAIM)
    await asyncio.sleep(600)
    stage.operators.start()
    await stage.until_gone(CLAIMS, CLAIM)


async def _run_deleted_without_operator(stage: Stage) -> None:
    await _running(stage)
    await stage.operators.stop()
    stage.delete(RUNS, "demo-run-1")
    await asyncio.sleep(60)
    stage.operators.start()
    await stage.until_gone(JOBS, "demo-run-1")


async def _finished_without_operator(stage: Stage) -> None:
    stage.claim()
    stage.request()
    await stage.until_running("demo-run-1")
    await stage.operators.stop()
    await stage.until_finished("demo-run-1")
    stage.delete(CLAIMS, CLAIM)
    await asyncio.sleep(60)
    stage.operators.start()
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _request_recreated(stage: Stage) -> None:
    stage.world.scripts["demo-run-1"] = _LONG
    stage.claim()
    stage.request()
    await stage.until_running("demo-run-1")
    stage.delete(REQUESTS, "demo")
    stage.world.scripts["demo-run-1"] = Script()
    stage.request()
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _two_runs(stage: Stage) -> None:
    stage.world.scripts["slow-run-1"] = _LONG
    stage.claim()
    stage.request("quick")
    stage.request("slow")
    await stage.until_running("slow-run-1")
    await stage.until_finished("quick-run-1")
    stage.delete(CLAIMS, CLAIM)
    await stage.until_reason("slow-run-1", "TraceSourceDeleted")


async def _container_waits(stage: Stage) -> None:
    held = Waiting(PUBLISHER, "CreateContainerConfigError", "failed to prepare subPath")
    stage.world.script = Script(waiting=held)
    await _main_path_until(stage, "ContainerWaiting")
    stage.world.script = Script()
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _start_deadline(stage: Stage) -> None:
    stage.world.script = Script(waiting=Waiting(SWEEPER, "ErrImagePull", "not found"))
    await _main_path_until(stage, "StartDeadlineExceeded")


async def _foreign_run(stage: Stage) -> None:
    stage.run("demo-run-1")
    stage.declare_foreign(RUNS, "demo-run-1")
    stage.claim()
    stage.request()
    await stage.until_accepted("demo", "RunNameConflict")
    await asyncio.sleep(60)
    stage.delete(RUNS, "demo-run-1")
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _foreign_job(stage: Stage) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "other", "image": "other"}]}}
    stage.people.create(JOBS, NAMESPACE, {"metadata": {"name": "demo-run-1"}, "spec": {"template": template}})
    stage.declare_foreign(JOBS, "demo-run-1")
    stage.claim()
    stage.request()
    await stage.until_reason("demo-run-1", "JobNameConflict")
    await asyncio.sleep(60)
    stage.delete(JOBS, "demo-run-1")
    await stage.until_reason("demo-run-1", "SearchSucceeded")


async def _invalid_spec(stage: Stage) -> None:
    stage.claim()
    stage.request(model=REFUSED_MODEL)
    await stage.until_accepted("demo", "InvalidSpec")
    await asyncio.sleep(60)
    stage.change(model="example/model")
    await stage.until_reason("demo-run-2", "SearchSucceeded")


async def _lost_node(stage: Stage) -> None:
    stage.world.script = _LONG
    stage.claim()
    stage.request()
    await stage.until_running("demo-run-1")
    stage.world.lose_node()
    await asyncio.sleep(400)
    stage.delete(CLAIMS, CLAIM)
    await stage.until_reason("demo-run-1", "Stopping")
    await asyncio.sleep(900)
    stage.world.node.come_back()
    await stage.until_gone(CLAIMS, CLAIM)


async def _history(stage: Stage) -> None:
    stage.claim()
    stage.request()
    for generation in (1, 2, 3):
        await stage.until_reason(f"demo-run-{generation}", "SearchSucceeded")
        stage.change(rounds=3 + generation)
    await stage.until_reason("demo-run-4", "SearchSucceeded")
    await stage.until_gone(RUNS, "demo-run-2")


async def _in_turn(stage: Stage) -> None:
    stage.claim()
    names = ("first", "second", "third")
    for name in names:
        stage.request(name)
    for name in names:
        await stage.until_reason(f"{name}-run-1", "SearchSucceeded")


async def _namespace_deleted(stage: Stage) -> None:
    stage.world.script = _LONG
    stage.claim()
    stage.request()
    await stage.until_running("demo-run-1")
    stage.people.delete(Key(NAMESPACES, "", NAMESPACE))
    await stage.until("the namespace is gone", lambda: stage.people.get(Key(NAMESPACES, "", NAMESPACE)) is None)


def _refuse(review: Review) -> Sequence[str]:
    """What a stricter version of the definitions, or somebody's policy, may do to a Run."""
    is_new_run = review.operation == "CREATE" and review.resource.key == RUNS
    if is_new_run and review.new["spec"]["modelRef"]["name"] == REFUSED_MODEL:
        raise ApiError(422, "Invalid", f"{RUN.name}.{GROUP} is invalid: spec.modelRef.name: Invalid value")
    return ()


_SUCCEEDED: Final = {"demo-run-1": "SearchSucceeded"}
_DELETED: Final = {"demo-run-1": "TraceSourceDeleted"}

SCENARIOS: Final = (
    Scenario("main-path", _main_path, _SUCCEEDED),
    Scenario("static", _static, _SUCCEEDED, claims_left=()),
    Scenario("sweeper-fails", _sweeper_fails, {"demo-run-1": "SearchFailed"}),
    Scenario("superseded", _superseded, {"demo-run-1": "Superseded", "demo-run-2": "SearchSucceeded"}),
    Scenario(
        "superseded-before-it-starts",
        _superseded_before_it_starts,
        {"demo-run-1": "Superseded", "demo-run-2": "SearchSucceeded"},
    ),
    Scenario("claim-deleted-while-waiting", _claim_deleted_while_waiting, _DELETED, claims_left=()),
    Scenario("claim-deleted-while-running", _claim_deleted_while_running, _DELETED, claims_left=()),
    Scenario("claim-deleted-when-finished", _claim_deleted_when_finished, _SUCCEEDED),
    Scenario("claim-recreated", _claim_recreated, {**_DELETED, "later-run-1": "SearchSucceeded"}),
    Scenario("claim-appears", _claim_appears, _SUCCEEDED),
    Scenario("block-claim", _block_claim, {"demo-run-1": "TraceSourceUnavailable"}),
    Scenario("lost-claim", _lost_claim, {"demo-run-1": "TraceSourceUnavailable"}),
    Scenario("unbound-claim", _unbound_claim, _SUCCEEDED),
    Scenario("run-deleted", _run_deleted, {}),
    Scenario("run-deleted-leaving-its-job", _run_deleted_leaving_its_job, {}),
    Scenario("run-deleted-when-done", _run_deleted_when_done, {}),
    Scenario("request-deleted", _request_deleted, {}),
    Scenario("request-recreated", _request_recreated, _SUCCEEDED),
    Scenario("operator-removed", _operator_removed, _DELETED, claims_left=()),
    Scenario("run-deleted-without-operator", _run_deleted_without_operator, {}),
    Scenario("finished-without-operator", _finished_without_operator, _SUCCEEDED),
    Scenario("two-runs", _two_runs, {"quick-run-1": "SearchSucceeded", "slow-run-1": "TraceSourceDeleted"}),
    Scenario("container-waits", _container_waits, _SUCCEEDED),
    Scenario(
        "start-deadline",
        _start_deadline,
        {"demo-run-1": "StartDeadlineExceeded"},
        settings={"start_deadline_seconds": _DEADLINE_S},
    ),
    Scenario("foreign-run", _foreign_run, _SUCCEEDED),
    Scenario("foreign-job", _foreign_job, _SUCCEEDED),
    Scenario(
        "invalid-spec", _invalid_spec, {"demo-run-2": "SearchSucceeded"}, admission=(Admission(validate=_refuse),)
    ),
    Scenario("lost-node", _lost_node, _DELETED, claims_left=()),
    Scenario(
        "history",
        _history,
        {"demo-run-3": "SearchSucceeded", "demo-run-4": "SearchSucceeded"},
        settings={"history_limit": 2},
    ),
    Scenario(
        "in-turn",
        _in_turn,
        {f"{name}-run-1": "SearchSucceeded" for name in ("first", "second", "third")},
        settings={"jobs_per_namespace": 1},
    ),
    Scenario("namespace-deleted", _namespace_deleted, {}, claims_left=()),
)
