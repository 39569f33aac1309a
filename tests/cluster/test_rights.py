"""Exactly the rights that are granted are used, by the operator and by publishers, as the audit log has it."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.cluster.audit import FORBIDDEN, Right, asked, granted
from tests.cluster.installation import OPERATOR, PUBLISHER, Installation
from tests.cluster.namespace import Namespace
from tests.cluster.operator import HELD, LATE, Operator
from tests.cluster.requests import record
from tests.cluster.runs import (
    CANDIDATES,
    CLAIMS,
    REQUESTS,
    RUNS,
    ask,
    ask_and_hold,
    wait_for_pod,
    wait_for_reason,
    wait_for_release,
)

from dgdr_retune.api import CANDIDATE_ID_LABEL, RUN_UID_LABEL, candidate_name

Json = Any

pytestmark = pytest.mark.root

BIND = Right("rbac.authorization.k8s.io", "clusterroles", "bind")  # asked by the API server when a binding is created


def _compare(namespace: Namespace, user: str, rules: Iterable[dict[str, Json]]) -> None:
    rights = granted(rules)
    requests = list(asked(namespace.cluster, user))
    assert [each for each in requests if each.status == FORBIDDEN] == []
    used = {each.right for each in requests}
    assert sorted(rights - used - {BIND}) == [], "granted, and never used"
    assert sorted(used - rights) == [], "used, and granted by somebody else"


def test_the_operator_uses_every_right_that_it_has_and_needs_no_other(
    operator: Operator, namespace: Namespace, installation: Installation
) -> None:
    record(namespace.make_claim("traces"))
    operator.start(history_limit="1")
    first = ask(namespace, "changes", "traces")
    wait_for_reason(namespace, first, "SearchSucceeded")
    namespace.patch(REQUESTS, "changes", {"spec": {"modelRef": {"name": HELD}}})
    wait_for_pod(namespace, "changes-run-2")
    namespace.patch(REQUESTS, "changes", {"spec": {"modelRef": {"name": "Qwen/Qwen3-0.6B"}}})
    wait_for_reason(namespace, "changes-run-2", "Superseded")  # its Job is stopped
    namespace.wait_gone(RUNS, first)  # it is beyond the limit
    wait_for_reason(namespace, "changes-run-3", "SearchSucceeded")
    held = ask_and_hold(namespace, "held", "traces")
    namespace.delete(RUNS, held)  # its claim is let go by somebody else
    wait_for_release(namespace, "traces")
    _fail_for_good(namespace)
    _say_the_same_twice(namespace)
    _compare(namespace, installation.user, installation.rules(OPERATOR))
    assert any(each.right.resource == "rolebindings" for each in asked(namespace.cluster, installation.user))


def _fail_for_good(namespace: Namespace) -> None:
    """A failure that is marked on the Run before its status says it."""
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeMode": "Block",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "blocks"}, "spec": spec}
    namespace.create(CLAIMS, document)
    wait_for_reason(namespace, ask(namespace, "fails", "blocks"), "TraceSourceUnavailable")


def _say_the_same_twice(namespace: Namespace) -> None:
    """One Event that is counted: somebody else overwrites what the operator said, and it says it again."""
    run = ask(namespace, "waits", "absent")
    wait_for_reason(namespace, run, "TraceSourceMissing", status="False")
    found = namespace.get(RUNS, run)
    assert found is not None
    (said,) = found["status"]["conditions"]
    namespace.patch(RUNS, run, {"status": {"conditions": [said | {"reason": "Overwritten"}]}}, subresource="status")
    namespace.wait("Event that is counted", lambda: _count(namespace, run, "TraceSourceMissing") == 2)


def _count(namespace: Namespace, name: str, reason: str) -> int:
    told = (each for each in namespace.every("events") if each["involvedObject"]["name"] == name)
    return sum(each["count"] for each in told if each["reason"] == reason)


def test_publishers_use_every_right_that_they_have_and_need_no_other(
    operator: Operator, namespace: Namespace, installation: Installation
) -> None:
    record(namespace.make_claim("traces"))
    operator.start()
    model = {"name": LATE}
    before = ask(namespace, "before", "traces", modelRef=model)
    wait_for_reason(namespace, before, "SearchSucceeded")
    known = {each["metadata"]["labels"][CANDIDATE_ID_LABEL]: each for each in namespace.every(CANDIDATES)}
    after = ask(namespace, "after", "traces", modelRef=model)
    wait_for_pod(namespace, after)
    run = namespace.get(RUNS, after)
    assert run is not None
    uid = run["metadata"]["uid"]
    taken = min(known)
    _leave_candidate(namespace, run, candidate_name(after, uid, taken), known[taken], labels={})
    _leave_candidate(namespace, run, "obsolete", known[taken], labels={RUN_UID_LABEL: uid})
    wait_for_reason(namespace, after, "SearchSucceeded")
    of_run = namespace.every(CANDIDATES, f"{RUN_UID_LABEL}={uid}")
    assert {each["metadata"]["labels"][CANDIDATE_ID_LABEL] for each in of_run} == set(known)
    user = f"system:serviceaccount:{namespace.name}:{PUBLISHER}"
    _compare(namespace, user, installation.role(PUBLISHER)["rules"])


def _leave_candidate(
    namespace: Namespace, run: dict[str, Json], name: str, like: dict[str, Json], labels: dict[str, str]
) -> None:
    """What an earlier publisher of the Run could have left."""
    owner = {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentRun",
        "name": run["metadata"]["name"],
        "uid": run["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
    namespace.create(
        CANDIDATES, {"apiVersion": like["apiVersion"], "kind": like["kind"], "metadata": metadata, "spec": like["spec"]}
    )
