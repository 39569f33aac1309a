"""A claim is held while a Job may read from it, and let go when none does."""

import pytest
from tests.cluster.namespace import Namespace
from tests.cluster.observer import Observer
from tests.cluster.operator import Operator
from tests.cluster.requests import record
from tests.cluster.runs import (
    CLAIMS,
    REQUESTS,
    RUNS,
    ask,
    ask_and_hold,
    condition,
    finalizer_of,
    holders,
    pods_of,
    wait_for_pod,
    wait_for_reason,
    wait_for_release,
)

pytestmark = pytest.mark.root


def test_deleting_a_claim_stops_the_run_and_ends_with_neither_job_nor_pod_nor_claim(
    operator: Operator, namespace: Namespace
) -> None:
    record(namespace.make_claim("traces"))
    operator.start()
    run = ask_and_hold(namespace, "held", "traces")
    assert holders(namespace, "traces") == [finalizer_of(namespace, run)]
    namespace.delete(CLAIMS, "traces")
    wait_for_reason(namespace, run, "TraceSourceDeleted")
    assert namespace.get("jobs", run) is None
    assert pods_of(namespace, run) == []
    namespace.wait_gone(CLAIMS, "traces")
    found = namespace.get(RUNS, run)
    assert found is not None
    assert found["status"]["phase"] == "Failed"


def test_two_runs_on_one_claim_hold_it_each_for_itself(operator: Operator, namespace: Namespace) -> None:
    record(namespace.make_claim("traces"))
    operator.start()
    first, second = (ask_and_hold(namespace, name, "traces") for name in ("first", "second"))
    theirs = [finalizer_of(namespace, run) for run in (first, second)]
    assert sorted(holders(namespace, "traces")) == sorted(theirs)
    namespace.delete(REQUESTS, "first")
    namespace.wait("release by the first", lambda: holders(namespace, "traces") == [theirs[1]])
    assert namespace.get("jobs", first) is None
    wait_for_pod(namespace, second)
    namespace.delete(CLAIMS, "traces")
    wait_for_reason(namespace, second, "TraceSourceDeleted")
    namespace.wait_gone(CLAIMS, "traces")


def test_a_run_waits_for_a_claim_that_is_missing_and_starts_when_it_appears(
    operator: Operator, namespace: Namespace
) -> None:
    operator.start()
    run = ask(namespace, "early", "traces")
    message = wait_for_reason(namespace, run, "TraceSourceMissing", status="False")
    assert "traces" in message
    assert namespace.get("jobs", run) is None
    record(namespace.make_claim("traces"))
    wait_for_reason(namespace, run, "SearchSucceeded")
    wait_for_release(namespace, "traces")


def test_a_run_fails_on_a_claim_of_blocks(operator: Operator, namespace: Namespace) -> None:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeMode": "Block",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    namespace.create(
        CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "blocks"}, "spec": spec}
    )
    operator.start()
    run = ask(namespace, "asks", "blocks")
    assert "blocks" in wait_for_reason(namespace, run, "TraceSourceUnavailable")
    assert namespace.get("jobs", run) is None
    assert holders(namespace, "blocks") == []


def test_a_run_fails_on_a_claim_that_lost_its_volume(operator: Operator, namespace: Namespace) -> None:
    namespace.make_claim("lost")
    volume = f"/api/v1/persistentvolumes/{namespace.name}-lost"
    patch = {"content-type": "application/merge-patch+json"}
    namespace.client.delete(volume).raise_for_status()
    namespace.client.patch(volume, content='{"metadata":{"finalizers":null}}', headers=patch).raise_for_status()
    namespace.wait("lost claim", lambda: namespace.claim("lost")["status"]["phase"] == "Lost")
    operator.start()
    run = ask(namespace, "asks", "lost")
    assert "lost" in wait_for_reason(namespace, run, "TraceSourceUnavailable")
    assert namespace.get("jobs", run) is None


def test_a_run_that_is_deleted_directly_lets_its_claim_go(operator: Operator, namespace: Namespace) -> None:
    record(namespace.make_claim("traces"))
    operator.start()
    run = ask_and_hold(namespace, "held", "traces")
    namespace.delete(RUNS, run)
    wait_for_release(namespace, "traces")
    assert namespace.get("jobs", run) is None
    assert namespace.every("pods") == []


def test_a_finished_run_keeps_its_result_and_only_its_pods_hold_a_claim_that_is_deleted(
    operator: Operator, namespace: Namespace
) -> None:
    record(namespace.make_claim("traces"))
    operator.start()
    run = ask(namespace, "done", "traces")
    wait_for_reason(namespace, run, "SearchSucceeded")
    wait_for_release(namespace, "traces")
    namespace.delete(CLAIMS, "traces")
    assert namespace.claim("traces")["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert condition(namespace, RUNS, run, "Completed")[1] == "SearchSucceeded"
    assert pods_of(namespace, run) != []
    namespace.delete(RUNS, run)
    namespace.wait_gone(CLAIMS, "traces")


def test_an_operator_that_is_gone_leaves_claims_held_until_it_is_back_or_somebody_lets_them_go(
    operator: Operator, namespace: Namespace
) -> None:
    for claim in ("first", "second"):
        record(namespace.make_claim(claim))
    operator.start()
    runs = [ask_and_hold(namespace, f"on-{claim}", claim) for claim in ("first", "second")]
    operator.kill()
    for claim, run in zip(("first", "second"), runs, strict=True):
        namespace.delete(RUNS, run)
        namespace.delete(CLAIMS, claim)
    namespace.wait("end of the Jobs and Pods", lambda: not namespace.every("jobs") and not namespace.every("pods"))
    for claim in ("first", "second"):
        namespace.wait("claim that only we hold", lambda claim=claim: _only_we_hold(namespace, claim))
    namespace.patch(CLAIMS, "first", {"metadata": {"finalizers": None}})
    namespace.wait_gone(CLAIMS, "first")
    operator.start()
    namespace.wait_gone(CLAIMS, "second")


def _only_we_hold(namespace: Namespace, claim: str) -> bool:
    return namespace.claim(claim)["metadata"].get("finalizers") == holders(namespace, claim) != []


def test_a_claim_that_was_recreated_under_its_name_is_another_one(
    operator: Operator, namespace: Namespace, observer: Observer
) -> None:
    record(namespace.make_claim("traces"))
    operator.start()
    run = ask_and_hold(namespace, "held", "traces")
    operator.kill()
    namespace.delete(CLAIMS, "traces")
    observer.by_hand.add(finalizer_of(namespace, run))
    namespace.patch(CLAIMS, "traces", {"metadata": {"finalizers": None}})
    namespace.wait_gone(CLAIMS, "traces")
    namespace.client.delete(f"/api/v1/persistentvolumes/{namespace.name}-traces").raise_for_status()
    namespace.make_claim("traces", directory="again")
    operator.start()
    wait_for_reason(namespace, run, "TraceSourceDeleted")
    assert namespace.get("jobs", run) is None
    assert holders(namespace, "traces") == []
