"""The three controllers with their watches and queues: what a leader runs."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dgdr_retune.api import RUN_UID_LABEL, is_claim_finalizer
from dgdr_retune.controllers._act import Events, Performer
from dgdr_retune.controllers._caches import (
    REQUESTS,
    RUNS,
    Caches,
    Key,
    Object,
    job_indexes,
    key_of,
    pod_indexes,
    run_indexes,
)
from dgdr_retune.controllers._claim import decide_claim
from dgdr_retune.controllers._configuration import Configuration
from dgdr_retune.controllers._controller import Controller, Parts, Reconciled, Seen
from dgdr_retune.controllers._observation import ClaimObservation, Read, RequestObservation, RunObservation
from dgdr_retune.controllers._observe import ClaimObserver, RequestObserver, RunObserver
from dgdr_retune.controllers._projections import kept_claim, kept_job, kept_pod, kept_request, kept_run
from dgdr_retune.controllers._request import decide_request
from dgdr_retune.controllers._run import decide_run
from dgdr_retune.controllers._states import trace_claim
from dgdr_retune.controllers._turns import Turns
from dgdr_retune.controllers._wake import Wakes
from dgdr_retune.kube import CLAIMS, JOBS, PODS, Api, Reflector, Resource, WorkQueue

Project = Callable[[Object], dict[str, Any]]
Hear = Callable[[Wakes, Object | None, Object | None], None]

_REQUEST_READS = frozenset({Read.REQUEST, Read.RUNS})
_RUN_READS = frozenset({Read.REQUEST, Read.RUN, Read.CLAIM, Read.JOBS, Read.PODS, Read.ACCESS})
_CLAIM_READS = frozenset({Read.RUNS, Read.CLAIM, Read.JOBS, Read.PODS})


class Controllers:
    """Requests become Runs, Runs become Jobs, and claims are held as long as a Job may read from them.

    Args:
        api: the API server.
        configuration: what an operator is told.
        now: the wall clock.
        rng: spreads retries.
        namespace: whose objects are looked after; empty for all.
        events: where Events go; whoever owns it runs it.
        reconciled: told about each look at an object: controller, outcome and seconds.
    """

    def __init__(
        self,
        api: Api,
        configuration: Configuration,
        *,
        now: Callable[[], datetime],
        rng: random.Random,
        namespace: str = "",
        events: Events,
        reconciled: Reconciled = lambda *_: None,
    ) -> None:
        def reflector(resource: Resource, project: Project, hear: Hear, **more: Any) -> Reflector:
            return Reflector(
                api,
                resource,
                namespace,
                project=project,
                on_change=lambda old, new: hear(self._wakes, old, new),
                rng=rng,
                **more,
            )

        def controller(parts: Parts[Seen]) -> Controller[Seen]:
            return Controller(parts, performer, now=now, rng=rng, reconciled=reconciled)

        labelled = {"label_selector": RUN_UID_LABEL}
        self._reflectors = (
            reflector(REQUESTS, kept_request, Wakes.on_request),
            reflector(RUNS, kept_run, Wakes.on_run, indexes=run_indexes()),
            reflector(CLAIMS, kept_claim, Wakes.on_claim),
            reflector(JOBS, kept_job, Wakes.on_job, indexes=job_indexes(), **labelled),
            reflector(PODS, kept_pod, Wakes.on_pod, indexes=pod_indexes(), **labelled),
        )
        self._caches = caches = Caches(*(each.cache for each in self._reflectors))
        self._workers = configuration.workers
        self._queues: dict[str, WorkQueue[Key]] = {name: WorkQueue(rng=rng) for name in ("request", "run", "claim")}
        self._wakes = Wakes(
            caches,
            request=self._queues["request"].add,
            run=self._queues["run"].add,
            claim=self._queues["claim"].add,
            soon=lambda call: asyncio.get_running_loop().call_soon(call),
            jobs_per_namespace=configuration.jobs_per_namespace,
        )
        performer = Performer(api, caches, events)
        self._turns = Turns()
        self._request = controller(
            Parts[RequestObservation](
                "request",
                RequestObserver(api, caches),
                lambda seen, at: decide_request(seen, configuration, at),
                _REQUEST_READS,
            )
        )
        self._run = controller(
            Parts[RunObservation](
                "run",
                RunObserver(api, caches, configuration),
                lambda seen, at: decide_run(seen, configuration, at),
                _RUN_READS,
            )
        )
        self._claim = controller(
            Parts[ClaimObservation](
                "claim", ClaimObserver(api, caches), lambda seen, _: decide_claim(seen), _CLAIM_READS
            )
        )

    @property
    def synced(self) -> bool:
        """Whether every watch has shown what there is."""
        return all(each.synced.is_set() for each in self._reflectors)

    async def run(self) -> None:
        """Watch and reconcile until cancelled. Nothing is decided before every watch has shown what there is."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            for reflector in self._reflectors:
                await reflector.synced.wait()
            for name, reconcile in (
                ("request", self._request.reconcile),
                ("run", self._look_at_run),
                ("claim", self._look_at_claim),
            ):
                group.create_task(self._queues[name].run(reconcile, self._workers))

    async def _look_at_run(self, key: Key) -> float | None:
        run = self._caches.runs.get(*key)
        async with self._turns.of_run((key[0], "" if run is None else trace_claim(run))):
            return await self._run.reconcile(key)

    async def _look_at_claim(self, key: Key) -> float | None:
        async with self._turns.of_claim(key):
            return await self._claim.reconcile(key)

    def queue_depths(self) -> Mapping[str, int]:
        """Keys that wait, by controller."""
        return {name: queue.depth for name, queue in self._queues.items()}

    def runs_by_phase(self) -> Mapping[tuple[str, str], int]:
        """Runs by namespace and phase; one that nothing was written about yet is Pending."""
        return Counter(
            (key_of(run)[0], (run.get("status") or {}).get("phase") or "Pending") for run in self._caches.runs.all()
        )

    def claim_holders(self) -> Mapping[tuple[str, str], int]:
        """Runs that hold a claim, by its namespace and name; claims that none holds are left out."""
        held = (
            (key_of(claim), sum(map(is_claim_finalizer, claim["metadata"].get("finalizers") or ())))
            for claim in self._caches.claims.all()
        )
        return {key: holders for key, holders in held if holders}
