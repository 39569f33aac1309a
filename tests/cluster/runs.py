"""Looking at Requests, Runs and their Jobs, as a test waits for them."""

from typing import Any

from tests.cluster.namespace import Namespace
from tests.cluster.operator import HELD
from tests.cluster.requests import TRACE, request

from dgdr_retune.api import RUN_UID_LABEL, claim_finalizer, is_claim_finalizer

Json = Any

REQUESTS = "dynamographdeploymentrequests"
RUNS = "dynamographdeploymentruns"
CANDIDATES = "dynamographdeploymentcandidates"
CLAIMS = "persistentvolumeclaims"


def ask(namespace: Namespace, name: str, claim: str, path: str = TRACE, **spec: Json) -> str:
    """Create a Request; the name of its first Run."""
    namespace.create(REQUESTS, request(name, claim, path, **spec))
    return f"{name}-run-1"


def ask_and_hold(namespace: Namespace, name: str, claim: str, **spec: Json) -> str:
    """Create a Request whose sweeper waits, and wait until its containers run; the name of its Run."""
    run = ask(namespace, name, claim, modelRef={"name": HELD}, **spec)
    wait_for_pod(namespace, run)
    return run


def wait_for_pod(namespace: Namespace, run: str) -> dict[str, Json]:
    """Wait until a Run's containers run; its Pod."""

    def running() -> dict[str, Json] | None:
        pods = pods_of(namespace, run)
        return pods[0] if pods and pods[0]["status"]["phase"] == "Running" and _all_run(pods[0]) else None

    return namespace.wait(f"running Pod of {run}", running)


def _all_run(pod: dict[str, Json]) -> bool:
    return all("running" in each["state"] for each in pod["status"].get("containerStatuses", []))


def pods_of(namespace: Namespace, run: str) -> list[dict[str, Json]]:
    """The Pods of a Run that is there."""
    found = namespace.get(RUNS, run)
    return namespace.every("pods", f"{RUN_UID_LABEL}={found['metadata']['uid']}") if found else []


def condition(namespace: Namespace, plural: str, name: str, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition; empty while there is none."""
    found = namespace.get(plural, name)
    for each in (found or {}).get("status", {}).get("conditions", []):
        if each["type"] == kind:
            return each["status"], each["reason"], each["message"]
    return "", "", ""


def wait_for_reason(namespace: Namespace, run: str, reason: str, status: str = "True") -> str:
    """Wait until a Run's condition Completed has a reason; its message."""

    def message() -> str | None:
        now = condition(namespace, RUNS, run, "Completed")
        return now[2] if now[:2] == (status, reason) else None

    return namespace.wait(f"{run} Completed={status}/{reason}", message)


def holders(namespace: Namespace, claim: str) -> list[str]:
    """Our finalizers on a claim."""
    return [each for each in namespace.claim(claim)["metadata"].get("finalizers", []) if is_claim_finalizer(each)]


def finalizer_of(namespace: Namespace, run: str) -> str:
    """The finalizer of a Run that is there."""
    found = namespace.get(RUNS, run)
    assert found is not None
    return claim_finalizer(found["metadata"]["uid"])


def wait_for_release(namespace: Namespace, claim: str) -> None:
    """Wait until none of our finalizers is on a claim, which stays."""
    namespace.wait(f"released claim {claim}", lambda: not holders(namespace, claim))


def foreign_job(name: str) -> dict[str, Json]:
    """A Job of somebody else's that does nothing."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "theirs", "image": "theirs"}]}}
    spec = {"suspend": True, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
