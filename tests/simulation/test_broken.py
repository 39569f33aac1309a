"""Operators that are broken on purpose, each in one rule: the observer must see it."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from dgdr_retune.controllers import _controllers, _request
from dgdr_retune.controllers._actions import CreateJob, DeleteJob, PatchClaimFinalizers
from dgdr_retune.controllers._claim import decide_claim
from dgdr_retune.controllers._decision import Decision
from dgdr_retune.controllers._observation import ClaimObservation, RequestState, RunObservation
from dgdr_retune.controllers._run import decide_run
from dgdr_retune.controllers._run_case import RunCase
from dgdr_retune.kube import Api
from dgdr_retune.testing import SCENARIOS, Fault, Faults, simulate

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def rules_broken(scenario: str, seed: int = 0, faults: Faults | None = None) -> set[str]:
    """The rules that the observer names."""
    outcome = simulate(BY_NAME[scenario], seed, faults=faults)
    return {problem.partition(" at ")[0] for problem in outcome.problems}


@pytest.fixture
def replace(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """Give the controllers another function to decide by."""
    return lambda name, decide: monkeypatch.setattr(_controllers, name, decide)


def test_a_job_without_a_finalizer_is_seen(replace: Callable[[str, Any], None]) -> None:
    def decide(seen: RunObservation, *arguments: Any) -> Decision:
        decision = decide_run(seen, *arguments)
        if not any(isinstance(each, CreateJob) for each in decision.actions):
            return decision
        kept = tuple(each for each in decision.actions if not isinstance(each, PatchClaimFinalizers))
        return evolve(decision, actions=kept)

    replace("decide_run", decide)
    assert "no-finalizer" in rules_broken("main-path")


def test_a_claim_that_is_let_go_while_a_job_runs_is_seen(replace: Callable[[str, Any], None]) -> None:
    def decide(seen: RunObservation, configuration: Any, now: Any) -> Decision:
        if seen.run is None or seen.claim is None or not seen.claim.deleting:
            return decide_run(seen, configuration, now)
        case = RunCase(seen, seen.run, configuration, now)
        kept = tuple(each for each in seen.claim.finalizers if each != case.finalizer)
        actions = [PatchClaimFinalizers(seen.claim.ref, kept)] if case.holds_claim else []
        return Decision((*actions, *(DeleteJob(job.ref) for job in case.unfinished)))

    replace("decide_run", decide)
    assert "early-release" in rules_broken("claim-deleted-while-running")


@pytest.mark.parametrize("waits_for_jobs", [True, False])
def test_a_claim_that_is_let_go_before_the_last_pod_is_gone_is_seen(
    replace: Callable[[str, Any], None], *, waits_for_jobs: bool
) -> None:
    def decide(seen: ClaimObservation) -> Decision:
        return decide_claim(evolve(seen, pods=(), jobs=seen.jobs if waits_for_jobs else ()))

    replace("decide_claim", decide)
    assert "early-release" in rules_broken("run-deleted")


def test_a_finished_job_that_is_stopped_is_seen(replace: Callable[[str, Any], None]) -> None:
    def decide(seen: RunObservation, *arguments: Any) -> Decision:
        if seen.claim is not None and seen.claim.deleting and seen.jobs:
            return Decision(tuple(DeleteJob(job.ref) for job in seen.jobs))
        return decide_run(seen, *arguments)

    replace("decide_run", decide)
    assert "stale-stop" in rules_broken("finished-without-operator")


def test_a_job_that_finished_unseen_and_is_stopped_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without uncached read and precondition, a cache that lags behind is enough."""
    delete = Api.delete

    async def unguarded(self: Api, *arguments: Any, **options: Any) -> None:
        await delete(self, *arguments, **{**options, "resource_version": None})

    def stop(case: RunCase) -> Decision | None:
        left = tuple(DeleteJob(job.ref) for job in case.unfinished if job.deleted_at is None)
        return Decision(left) if left else None

    monkeypatch.setattr(Api, "delete", unguarded)
    monkeypatch.setattr(RunCase, "stop_jobs", stop)
    late = (Faults(random.Random(seed), {Fault.STALE_CACHE: 0.5}) for seed in range(60))  # noqa: S311 - not for secrets
    assert any("stale-stop" in rules_broken("claim-deleted-when-finished", 0, each) for each in late)


def test_a_foreign_run_that_is_adopted_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestState, "made", lambda request, run: run.ref.name == request.next_run)
    assert "adopted" in rules_broken("foreign-run")


def test_a_foreign_job_that_is_adopted_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunCase, "job", property(lambda case: next(iter(case.seen.jobs), None)))
    assert "adopted" in rules_broken("foreign-job")


def test_a_second_run_beside_an_open_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_request, "_open_run", lambda *_: None)
    assert "second-run" in rules_broken("superseded")
