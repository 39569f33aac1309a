"""From caches, and from the server where a decision asks for it, to what a controller decides on."""

import re
from collections.abc import Iterable
from typing import Final

from attrs import evolve, frozen

from dgdr_retune.api import RUN_UID_LABEL, claim_finalizer, is_claim_finalizer, label_value
from dgdr_retune.controllers._caches import (
    HELD_BY,
    IN_NAMESPACE,
    OF_REQUEST,
    REQUESTS,
    RUNS,
    Caches,
    Key,
    Object,
    holder_key,
    jobs_ahead,
)
from dgdr_retune.controllers._configuration import Configuration
from dgdr_retune.controllers._observation import (
    Access,
    ClaimObservation,
    ClaimState,
    JobState,
    PodState,
    Read,
    Refusal,
    RequestObservation,
    RequestState,
    RunObservation,
    RunState,
)
from dgdr_retune.controllers._states import claim_state, controller, job_state, pod_state, request_state, run_state
from dgdr_retune.kube import CLAIMS, JOBS, PODS, ROLE_BINDINGS, SERVICE_ACCOUNTS, Api, Cache, NotFoundError, Resource

SELECTED_RUNS: Final = 50
"""Runs whose Jobs and Pods are asked for by their UIDs: more are no longer a short address, and all are listed."""
_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class BehindError(Exception):
    """A cache has not seen yet what we wrote, or the server has another object under the name: look again later."""


@frozen
class RequestObserver:
    """What the Request controller sees."""

    api: Api
    caches: Caches

    def cached(self, key: Key, refused: Refusal | None) -> RequestObservation:
        """As the caches have it.

        Errors: `BehindError`.
        """
        found = _cached(self.caches.requests, key)
        if found is None:
            return RequestObservation(request=None)
        request = request_state(found)
        owned = self.caches.runs.select(OF_REQUEST, request.ref.uid)
        named = [_cached(self.caches.runs, (key[0], name)) for name in _run_names(request)]
        runs = _each_once([*owned, *(run for run in named if run is not None)])
        for run in owned:
            _cached(self.caches.runs, (key[0], run["metadata"]["name"]))
        return RequestObservation(request=request, runs=tuple(map(run_state, runs)), refused=refused)

    async def read(self, key: Key, seen: RequestObservation, reads: frozenset[Read]) -> RequestObservation:
        """The same with parts as the server has them.

        Errors: `BehindError`, `KubeError`.
        """
        if Read.REQUEST in reads:
            found = await _read(self.api, REQUESTS, key)
            request = None if found is None else request_state(found)
            _same(seen.request, request)
            seen = evolve(seen, request=request, fresh=seen.fresh | {Read.REQUEST})
        if Read.RUNS in reads and seen.request is not None:
            names = _run_names(seen.request)
            named = [await _read(self.api, RUNS, (key[0], name)) for name in names]
            kept = [run for run in seen.runs if run.ref.name not in names]
            runs = (*kept, *(run_state(run) for run in named if run is not None))
            seen = evolve(seen, runs=runs, fresh=seen.fresh | {Read.RUNS})
        return evolve(seen, fresh=seen.fresh | reads)


@frozen
class RunObserver:
    """What the Run controller sees."""

    api: Api
    caches: Caches
    configuration: Configuration

    def cached(self, key: Key, refused: Refusal | None) -> RunObservation:
        """As the caches have it.

        Errors: `BehindError`.
        """
        found = _cached(self.caches.runs, key)
        if found is None:
            return RunObservation(run=None)
        run = run_state(found)
        holder = holder_key(key[0], claim_finalizer(run.ref.uid))
        named = _cached(self.caches.jobs, key)
        jobs = _each_once([*self.caches.jobs.select(HELD_BY, holder), *([] if named is None else [named])])
        request = self.caches.requests.by_uid(run.request_uid) if run.request_uid else None
        # other Runs write it all the time: it may be behind, for it shows what we wrote, and its writes are fenced
        claim = self.caches.claims.get(key[0], run.claim_name) if run.claim_name else None
        waits = not (run.is_done or jobs)
        return RunObservation(
            run=run,
            request=None if request is None else request_state(request),
            claim=None if claim is None else claim_state(claim),
            jobs=tuple(map(job_state, jobs)),
            pods=tuple(map(pod_state, self.caches.pods.select(HELD_BY, holder))),
            jobs_ahead=jobs_ahead(self.caches, found, self.configuration.jobs_per_namespace) if waits else 0,
            refused=refused,
        )

    async def read(self, key: Key, seen: RunObservation, reads: frozenset[Read]) -> RunObservation:
        """The same with parts as the server has them.

        Errors: `BehindError`, `KubeError`.
        """
        if seen.run is None:
            return evolve(seen, fresh=seen.fresh | reads)
        run = seen.run
        namespace, _ = key
        if Read.REQUEST in reads:
            seen = evolve(seen, request=await self._request(run))
        if Read.RUN in reads:
            found = await _read(self.api, RUNS, key)
            seen = evolve(seen, run=None if found is None else run_state(found))
            _same(run, seen.run)
        if Read.CLAIM in reads and run.claim_name:
            found = await _read(self.api, CLAIMS, (namespace, run.claim_name))
            seen = evolve(seen, claim=None if found is None else claim_state(found))
        selector = f"{RUN_UID_LABEL}={label_value(run.ref.uid)}"
        if Read.JOBS in reads:
            labelled = (await self.api.list(JOBS, namespace, label_selector=selector)).items
            named = await _read(self.api, JOBS, key)
            jobs = _each_once([*labelled, *([] if named is None else [named])])
            seen = evolve(seen, jobs=tuple(map(job_state, jobs)))
        if Read.PODS in reads:
            pods = (await self.api.list(PODS, namespace, label_selector=selector)).items
            seen = evolve(seen, pods=tuple(map(pod_state, pods)))
        if Read.ACCESS in reads:
            where = (namespace, self.configuration.publisher_account)
            account = await _read(self.api, SERVICE_ACCOUNTS, where)
            binding = await _read(self.api, ROLE_BINDINGS, where)
            seen = evolve(seen, access=Access(account=account is not None, binding=binding is not None))
        return evolve(seen, fresh=seen.fresh | reads)

    async def _request(self, run: RunState) -> RequestState | None:
        if not run.request_uid:
            return None
        found = await _read(self.api, REQUESTS, (run.ref.namespace, controller(run.object)["name"]))
        return request_state(found) if found is not None and found["metadata"]["uid"] == run.request_uid else None


@frozen
class ClaimObserver:
    """What the claim controller sees."""

    api: Api
    caches: Caches

    def cached(self, key: Key, _refused: Refusal | None) -> ClaimObservation:
        """As the caches have it.

        Errors: `BehindError`.
        """
        found = _cached(self.caches.claims, key)
        if found is None:
            return ClaimObservation(claim=None)
        claim = claim_state(found)
        if not any(map(is_claim_finalizer, claim.finalizers)):
            return ClaimObservation(claim=claim)
        run_uids = _uids(self.caches.runs.select(IN_NAMESPACE, key[0]))
        holders = [holder_key(key[0], each) for each in _without_a_run(claim.finalizers, run_uids)]
        jobs = [job for holder in holders for job in self.caches.jobs.select(HELD_BY, holder)]
        for job in jobs:
            _cached(self.caches.jobs, (key[0], job["metadata"]["name"]))
        pods = [pod for holder in holders for pod in self.caches.pods.select(HELD_BY, holder)]
        return ClaimObservation(
            claim=claim, run_uids=run_uids, jobs=tuple(map(job_state, jobs)), pods=tuple(map(pod_state, pods))
        )

    async def read(self, key: Key, seen: ClaimObservation, reads: frozenset[Read]) -> ClaimObservation:
        """The same with parts as the server has them: at most one list of a kind, however many finalizers are stale.

        Errors: `BehindError`, `KubeError`.
        """
        namespace, _ = key
        if Read.RUNS in reads:
            seen = evolve(seen, run_uids=_uids((await self.api.list(RUNS, namespace)).items))
        if Read.CLAIM in reads:
            found = await _read(self.api, CLAIMS, key)
            claim = None if found is None else claim_state(found)
            _same(seen.claim, claim)
            seen = evolve(seen, claim=claim)
        stale = frozenset(_without_a_run(() if seen.claim is None else seen.claim.finalizers, seen.run_uids))
        if Read.JOBS in reads:
            jobs = map(job_state, await self._labelled(JOBS, namespace, stale))
            seen = evolve(seen, jobs=tuple(job for job in jobs if _is_of(job, stale)))
        if Read.PODS in reads:
            pods = map(pod_state, await self._labelled(PODS, namespace, stale))
            seen = evolve(seen, pods=tuple(pod for pod in pods if _is_of(pod, stale)))
        return evolve(seen, fresh=seen.fresh | reads)

    async def _labelled(self, resource: Resource, namespace: str, finalizers: frozenset[str]) -> Iterable[Object]:
        """What is labelled as of the Runs of these finalizers, and maybe of others."""
        if not finalizers:
            return ()
        uids = sorted(filter(None, map(_run_uid, finalizers)))
        few = len(uids) == len(finalizers) <= SELECTED_RUNS
        selector = f"{RUN_UID_LABEL} in ({','.join(uids)})" if few else RUN_UID_LABEL
        return (await self.api.list(resource, namespace, label_selector=selector)).items


def _cached(cache: Cache, key: Key) -> Object | None:
    if cache.is_behind(*key):
        raise BehindError
    return cache.get(*key)


async def _read(api: Api, resource: Resource, key: Key) -> Object | None:
    try:
        found: Object = await api.get(resource, *key)
    except NotFoundError:
        return None
    return found


def _same(
    cached: RequestState | RunState | ClaimState | None, stored: RequestState | RunState | ClaimState | None
) -> None:
    """Nothing if the server still has the object that the rest of the observation is about, or none."""
    if cached is not None and stored is not None and cached.ref.uid != stored.ref.uid:
        raise BehindError


def _run_names(request: RequestState) -> tuple[str, ...]:
    """The name that is reserved and the one of its generation, each once."""
    named = (request.next_run, request.active_run)
    return named[:1] if request.active_run in ("", request.next_run) else named


def _uids(objects: tuple[Object, ...]) -> frozenset[str]:
    return frozenset(each["metadata"]["uid"] for each in objects)


def _without_a_run(finalizers: tuple[str, ...], run_uids: frozenset[str]) -> list[str]:
    live = {claim_finalizer(uid) for uid in run_uids}
    return [each for each in finalizers if is_claim_finalizer(each) and each not in live]


def _run_uid(finalizer: str) -> str:
    """The UID that stands in it, as it does on the Run's Jobs and Pods; empty for one that may be a hash there."""
    found = _UID.search(finalizer)
    return found[0] if found is not None and claim_finalizer(found[0]) == finalizer else ""


def _is_of(of: JobState | PodState, finalizers: frozenset[str]) -> bool:
    return claim_finalizer(of.run_uid) in finalizers


def _each_once(objects: list[Object]) -> list[Object]:
    return list({each["metadata"]["uid"]: each for each in objects}.values())
