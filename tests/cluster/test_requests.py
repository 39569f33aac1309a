"""Requests and their Runs, one open at a time, each its own."""

import pytest
from tests.cluster.namespace import Namespace
from tests.cluster.operator import HELD, Operator
from tests.cluster.requests import record
from tests.cluster.runs import (
    CANDIDATES,
    REQUESTS,
    RUNS,
    ask,
    ask_and_hold,
    condition,
    foreign_job,
    wait_for_reason,
    wait_for_release,
)

pytestmark = pytest.mark.root


def test_a_newer_generation_supersedes_the_run_that_is_open(operator: Operator, namespace: Namespace) -> None:
    record(namespace.make_claim("traces"))
    operator.start()
    first = ask_and_hold(namespace, "changes", "traces")
    namespace.patch(REQUESTS, "changes", {"spec": {"modelRef": {"name": "Qwen/Qwen3-0.6B"}}})
    second = "changes-run-2"
    wait_for_reason(namespace, first, "Superseded")
    assert namespace.get("jobs", first) is None
    wait_for_reason(namespace, second, "SearchSucceeded")
    wait_for_release(namespace, "traces")
    ended, began = namespace.get(RUNS, first), namespace.get(RUNS, second)
    assert ended is not None
    assert began is not None
    assert ended["status"]["completionTime"] <= began["metadata"]["creationTimestamp"]


def test_runs_that_are_done_are_kept_up_to_the_limit(operator: Operator, namespace: Namespace) -> None:
    record(namespace.make_claim("traces"))
    operator.start(history_limit="1")
    first = ask(namespace, "changes", "traces")
    wait_for_reason(namespace, first, "SearchSucceeded")
    namespace.patch(REQUESTS, "changes", {"spec": {"recommendation": {"maxCandidates": 2}}})
    wait_for_reason(namespace, "changes-run-2", "SearchSucceeded")
    namespace.wait_gone(RUNS, first)
    namespace.wait("end of the old Candidates", lambda: len(namespace.every(CANDIDATES)) == 2)


def test_a_request_that_was_recreated_under_its_name_gets_a_run_of_its_own(
    operator: Operator, namespace: Namespace
) -> None:
    record(namespace.make_claim("traces"))
    operator.start()
    run = ask_and_hold(namespace, "again", "traces")
    before = namespace.get(RUNS, run)
    namespace.delete(REQUESTS, "again")
    namespace.wait_gone(REQUESTS, "again")
    ask(namespace, "again", "traces")
    wait_for_reason(namespace, run, "SearchSucceeded")
    after = namespace.get(RUNS, run)
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] != after["metadata"]["uid"]
    wait_for_release(namespace, "traces")


def test_a_run_and_a_job_that_are_not_ours_are_left_alone_and_said_until_they_are_gone(
    operator: Operator, namespace: Namespace
) -> None:
    record(namespace.make_claim("traces"))
    theirs = namespace.create("jobs", foreign_job("blocked-run-1"))
    operator.start()
    orphan = ask_and_hold(namespace, "again", "traces")
    namespace.delete(REQUESTS, "again", propagation="Orphan")
    namespace.wait_gone(REQUESTS, "again")
    ask(namespace, "again", "traces")
    blocked = ask(namespace, "blocked", "traces")
    wait_for_reason(namespace, blocked, "JobNameConflict", status="False")
    namespace.wait("conflict that is said", lambda: _accepted(namespace, "again") == ("False", "RunNameConflict"))
    run, job = namespace.get(RUNS, orphan), namespace.get("jobs", blocked)
    assert run is not None
    assert run["spec"]["modelRef"]["name"] == HELD
    assert job is not None
    assert job["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert job["spec"] == theirs["spec"]
    namespace.delete(RUNS, orphan)
    namespace.delete("jobs", blocked)
    wait_for_reason(namespace, "again-run-1", "SearchSucceeded")
    wait_for_reason(namespace, blocked, "SearchSucceeded")


def _accepted(namespace: Namespace, request: str) -> tuple[str, str]:
    return condition(namespace, REQUESTS, request, "Accepted")[:2]
