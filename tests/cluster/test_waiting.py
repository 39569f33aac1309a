"""Containers that do not start: the Run says why, and what is asked for is still done."""

from pathlib import Path

import pytest
from tests.cluster.namespace import Namespace
from tests.cluster.operator import Operator
from tests.cluster.requests import TRACE, record
from tests.cluster.runs import (
    CLAIMS,
    RUNS,
    ask,
    condition,
    wait_for_reason,
)

pytestmark = pytest.mark.root

NO_IMAGE = "127.0.0.1:1/nothing:1.0.0"  # where nobody listens


def _escaping_link(claim: Path) -> None:
    link = claim / TRACE
    link.parent.mkdir()
    link.symlink_to("/etc/passwd")


def test_a_link_that_leaves_the_claim_is_never_followed_and_the_claim_can_still_be_deleted(
    operator: Operator, namespace: Namespace
) -> None:
    _escaping_link(namespace.make_claim("traces"))
    operator.start()
    run = ask(namespace, "escapes", "traces")
    message = wait_for_reason(namespace, run, "ContainerWaiting", status="False")
    assert "CreateContainerConfigError" in message
    assert "failed to prepare subPath" in message
    namespace.delete(CLAIMS, "traces")
    wait_for_reason(namespace, run, "TraceSourceDeleted")
    namespace.wait_gone(CLAIMS, "traces")
    assert namespace.get("jobs", run) is None


def test_a_missing_file_on_a_volume_that_cannot_be_written_keeps_the_container_waiting_until_it_is_there(
    operator: Operator, namespace: Namespace
) -> None:
    claim = namespace.make_claim("traces")
    (claim / "windows").mkdir()
    node = namespace.cluster
    node.inside("mount", "--bind", str(claim), str(claim))
    node.inside("mount", "-o", "remount,ro,bind", str(claim))
    operator.start()
    run = ask(namespace, "asks", "traces")
    message = wait_for_reason(namespace, run, "ContainerWaiting", status="False")
    assert "CreateContainerConfigError" in message
    assert "failed to create subPath directory" in message
    record(claim)  # this machine's own view of it can be written
    wait_for_reason(namespace, run, "SearchSucceeded")


def test_a_missing_file_on_a_volume_that_can_be_written_fails_the_run_and_says_so(
    operator: Operator, namespace: Namespace
) -> None:
    claim = namespace.make_claim("traces")
    operator.start()
    run = ask(namespace, "asks", "traces")
    wait_for_reason(namespace, run, "SearchFailed")
    found = namespace.get(RUNS, run)
    assert found is not None
    assert found["status"]["phase"] == "Failed"
    assert "it is a directory, which is what a missing file is mounted as" in found["status"]["message"]
    assert (claim / TRACE).is_dir()  # which is what kubelet made of the missing file


def test_an_image_that_cannot_be_pulled_keeps_the_sweeper_waiting(operator: Operator, namespace: Namespace) -> None:
    record(namespace.make_claim("traces"))
    operator.start()
    run = ask(namespace, "asks", "traces", image=NO_IMAGE)
    message = wait_for_reason(namespace, run, "ContainerWaiting", status="False")
    assert "sweeper" in message
    assert "ErrImagePull" in message or "ImagePullBackOff" in message
    assert NO_IMAGE in message


def test_an_image_that_cannot_be_pulled_keeps_the_publisher_waiting(operator: Operator, namespace: Namespace) -> None:
    record(namespace.make_claim("traces"))
    operator.start(publisher_image=NO_IMAGE)
    run = ask(namespace, "asks", "traces")
    message = wait_for_reason(namespace, run, "ContainerWaiting", status="False")
    assert "publisher" in message
    assert NO_IMAGE in message


def test_a_run_that_cannot_start_fails_at_its_deadline_where_there_is_one(
    operator: Operator, namespace: Namespace
) -> None:
    _escaping_link(namespace.make_claim("traces"))
    operator.start(start_deadline_seconds="5")
    run = ask(namespace, "asks", "traces")
    wait_for_reason(namespace, run, "StartDeadlineExceeded")
    assert namespace.get("jobs", run) is None
    assert condition(namespace, RUNS, run, "Completed")[0] == "True"
