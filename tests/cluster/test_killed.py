"""kill -9 of the operator, at moments that nobody chose."""

import random
import secrets
import time

import pytest
from tests.cluster.namespace import Namespace
from tests.cluster.operator import HELD, Operator
from tests.cluster.requests import record
from tests.cluster.runs import CLAIMS, REQUESTS, RUNS, ask, condition

from dgdr_retune.api import is_claim_finalizer

pytestmark = pytest.mark.root

LEADS_FOR_S = 2.5  # as long as a Request takes to become a running Job
DISTURBANCES = ("nothing", "claim deleted", "Run deleted", "Request deleted", "Request changed")


@pytest.mark.timeout(3600)
def test_an_operator_that_is_killed_again_and_again_releases_every_claim_in_the_end(
    operator: Operator, namespace: Namespace, pytestconfig: pytest.Config
) -> None:
    rounds: int = pytestconfig.getoption("--kill-rounds")
    seed: int = pytestconfig.getoption("--kill-seed") or secrets.randbits(32)
    print(f"--kill-seed {seed}")  # noqa: T201 - shown when it fails
    rng = random.Random(seed)  # noqa: S311 - nothing is kept secret
    for number in range(rounds):
        record(namespace.make_claim(f"claim-{number}"))
        ask(namespace, f"real-{number}", f"claim-{number}")
        ask(namespace, f"held-{number}", f"claim-{number}", modelRef={"name": HELD})
        _disturb(namespace, rng, number - 1)
        operator.start(lease_duration_seconds="2", renew_deadline_seconds="1.2")
        time.sleep(rng.uniform(0, LEADS_FOR_S))
        operator.kill()
    operator.start()
    for number in range(rounds):
        if namespace.get(CLAIMS, f"claim-{number}") is not None:
            namespace.delete(CLAIMS, f"claim-{number}")
    for number in range(rounds):
        claim = f"claim-{number}"
        namespace.wait(f"release of {claim}", lambda claim=claim: not _is_held_by_us(namespace, claim), within_s=120)
    namespace.wait(
        "end of every Run that has a claim", lambda: all(_is_settled(namespace, run) for run in _runs(namespace))
    )
    assert [job["metadata"]["name"] for job in namespace.every("jobs") if not _has_ended(job)] == []
    for request in namespace.every(REQUESTS):
        namespace.delete(REQUESTS, request["metadata"]["name"])
    for number in range(rounds):  # the Pods of Runs that are done held theirs
        namespace.wait_gone(CLAIMS, f"claim-{number}")


def _is_held_by_us(namespace: Namespace, claim: str) -> bool:
    found = namespace.get(CLAIMS, claim)
    return found is not None and any(is_claim_finalizer(each) for each in found["metadata"].get("finalizers", []))


def _disturb(namespace: Namespace, rng: random.Random, number: int) -> None:
    """Something happens to the Requests of the round before, when its operator is dead."""
    what, whose = rng.choice(DISTURBANCES), rng.choice(("real", "held"))
    print(f"{whose}-{number}: {what}")  # noqa: T201 - shown when it fails
    request = f"{whose}-{number}"
    if number < 0:
        return
    match what:
        case "claim deleted":
            namespace.delete(CLAIMS, f"claim-{number}")
        case "Run deleted" if namespace.get(RUNS, f"{request}-run-1") is not None:
            namespace.delete(RUNS, f"{request}-run-1")
        case "Request deleted":
            namespace.delete(REQUESTS, request)
        case "Request changed":
            namespace.patch(REQUESTS, request, {"spec": {"recommendation": {"maxCandidates": 2}}})


def _runs(namespace: Namespace) -> list[str]:
    return [each["metadata"]["name"] for each in namespace.every(RUNS)]


def _is_settled(namespace: Namespace, run: str) -> bool:
    """Done; or it came too late for its claim and waits for another."""
    status, reason, _ = condition(namespace, RUNS, run, "Completed")
    return status == "True" or reason == "TraceSourceMissing"


def _has_ended(job: dict[str, object]) -> bool:
    status = job["status"]
    assert isinstance(status, dict)
    return any(each["type"] in ("Complete", "Failed") for each in status.get("conditions", []))
