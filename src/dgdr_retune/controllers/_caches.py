"""What is watched, and how it is found again."""

import heapq
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from dgdr_retune.api import COMPLETED, GROUP, REQUEST, RUN, VERSION, Kind, RunReason, claim_finalizer
from dgdr_retune.controllers._observation import is_run_name
from dgdr_retune.controllers._projections import is_completed, mounted_claims
from dgdr_retune.controllers._states import (
    controller_uid,
    copied_generation,
    is_deleting,
    job_end,
    run_uid_label,
    trace_claim,
)
from dgdr_retune.kube import Cache, Resource

Json = Any
Object = Mapping[str, Json]
Key = tuple[str, str]
"""Namespace and name of what a controller looks after."""


def _resource(kind: Kind) -> Resource:
    return Resource(GROUP, VERSION, kind.plural, kind.name)


REQUESTS: Final = _resource(REQUEST)
RUNS: Final = _resource(RUN)

HELD_BY: Final = "holder"
"""Index of Runs, and of their Jobs and Pods: `holder_key`."""
OF_REQUEST: Final = "request"
"""Index of Runs: UID of the Request that controls them."""
ON_CLAIM: Final = "claim"
"""Index of Runs: namespace/name of the claim of their trace."""
IN_NAMESPACE: Final = "namespace"
"""Index of Runs: their namespace."""
OPEN: Final = "open"
"""Index of Runs that are not done, are not being deleted and record no Job: their namespace."""
UNFINISHED: Final = "unfinished"
"""Index of Jobs that have not ended: their namespace."""


@frozen
class Caches:
    """What the watches have seen."""

    requests: Cache
    runs: Cache
    claims: Cache
    jobs: Cache
    pods: Cache


def key_of(of: Object) -> Key:
    """Where the object is."""
    return of["metadata"].get("namespace", ""), of["metadata"]["name"]


def text_of(key: Key) -> str:
    """A key as the indexes have it."""
    return "/".join(key)


def holder_key(namespace: str, finalizer: str) -> str:
    """Where the Run that holds a claim by this finalizer is found, and its Jobs and Pods."""
    return f"{namespace}/{finalizer}"


def run_indexes() -> dict[str, Any]:
    """The indexes of Runs."""
    return {
        HELD_BY: lambda run: [holder_key(key_of(run)[0], claim_finalizer(run["metadata"]["uid"]))],
        OF_REQUEST: lambda run: [uid] if (uid := controller_uid(run)) else [],
        ON_CLAIM: lambda run: [text_of((key_of(run)[0], claim))] if (claim := trace_claim(run)) else [],
        IN_NAMESPACE: lambda run: [key_of(run)[0]],
        OPEN: lambda run: [key_of(run)[0]] if _is_open(run) else [],
    }


def job_indexes() -> dict[str, Any]:
    """The indexes of Jobs."""
    return {
        HELD_BY: _holders,
        UNFINISHED: lambda job: [key_of(job)[0]] if job_end(job) is None else [],
    }


def pod_indexes() -> dict[str, Any]:
    """The indexes of Pods."""
    return {HELD_BY: _holders}


def jobs_ahead(caches: Caches, run: Object, most: int) -> int:
    """What stands before a Run without a Job in its namespace; counting ends at `most`.

    These are unfinished Jobs of other Runs, and open Runs that were created earlier and can have a Job now: others may
    never get one, and whoever may create Runs or Jobs could hold all places with them.
    """
    namespace, name = key_of(run)
    age = age_of(run)
    ahead = sum(key_of(job)[1] != name for job in caches.jobs.select(UNFINISHED, namespace))
    if ahead >= most:
        return most  # before thousands that wait are counted
    for other in caches.runs.select(OPEN, namespace):
        if ahead >= most:
            break
        ahead += age_of(other) < age and _can_have_a_job(caches, other)
    return min(ahead, most)


def next_in_line(caches: Caches, namespace: str, most: int) -> list[Object]:
    """The Runs of a namespace that are the first to get a Job."""
    waiting = (run for run in caches.runs.select(OPEN, namespace) if _can_have_a_job(caches, run))
    return heapq.nsmallest(most, waiting, key=age_of)


def age_of(run: Object) -> tuple[str, str]:
    """Earlier Runs come first; of those of one second, by name."""
    return run["metadata"]["creationTimestamp"], run["metadata"]["name"]


def claims_of_job(job: Object) -> tuple[str, ...]:
    """Names of the claims that a Job's Pods mount."""
    return mounted_claims(job["spec"]["template"]["spec"])


def _is_open(run: Object) -> bool:
    return not (is_deleting(run) or is_completed(run) or (run.get("status") or {}).get("jobRef"))


def _can_have_a_job(caches: Caches, run: Object) -> bool:
    """Whether an open Run has none yet, misses no claim, its Job's name is free and its Request asks for it."""
    namespace, name = key_of(run)
    claim = trace_claim(run)
    if caches.jobs.get(namespace, name) is not None or (claim and caches.claims.get(namespace, claim) is None):
        return False
    request = caches.requests.by_uid(controller_uid(run))
    if request is None or is_deleting(request) or not is_run_name(name, key_of(request)[1], copied_generation(run)):
        return False
    return not _says(run, RunReason.JOB_NAME_CONFLICT)


def _says(run: Object, reason: RunReason) -> bool:
    conditions = (run.get("status") or {}).get("conditions") or ()
    return any((each.get("type"), each.get("reason")) == (COMPLETED, reason) for each in conditions)


def _holders(of: Object) -> list[str]:
    return [holder_key(key_of(of)[0], claim_finalizer(run_uid_label(of)))]
