"""The calls behind a decision. Nothing is judged here but what a reply means."""

from typing import Any, Final

import structlog
from attrs import frozen

from dgdr_retune.api import CANDIDATE, GROUP, RUN, RUN_UID_LABEL, VERSION, Kind, label_value
from dgdr_retune.kube import (
    PODS,
    AlreadyExistsError,
    Api,
    ConflictError,
    MaybeAppliedError,
    NotFoundError,
    Resource,
)
from dgdr_retune.publisher._decide import Decision, Publish
from dgdr_retune.publisher._errors import HopelessError
from dgdr_retune.publisher._observation import Observation, OwnPod, read_existing, read_own_pod, read_run

Json = Any

_log: Final = structlog.get_logger(__name__)


def _resource(kind: Kind) -> Resource:
    return Resource(GROUP, VERSION, kind.plural, kind.name)


RUNS: Final = _resource(RUN)
CANDIDATES: Final = _resource(CANDIDATE)


@frozen
class Outcome:
    """What came of a decision.

    Attributes:
        settled: whether every action is known to be done; else it must be observed and decided again.
        taken: names that something has which a list by the Run's label does not show.
    """

    settled: bool
    taken: frozenset[str] = frozenset()


@frozen
class Cluster:
    """The API as one publisher sees it: its namespace, its pod and its Run."""

    api: Api
    namespace: str
    pod_name: str
    run_name: str

    async def own_pod(self, sweeper: str) -> OwnPod:
        """Read the own pod.

        Errors: `KubeError`, `HopelessError`.
        """
        try:
            return read_own_pod(await self.api.get(PODS, self.namespace, self.pod_name), sweeper)
        except NotFoundError as error:
            raise HopelessError("PodGone", f"there is no pod {self.pod_name}; POD_NAME must be its own") from error

    async def observe(self, run_label: str, taken: frozenset[str]) -> Observation:
        """Read the Run, then its Candidates and those of the names that are taken beside them.

        Errors: `KubeError`, `HopelessError`.
        """
        try:
            run = read_run(await self.api.get(RUNS, self.namespace, self.run_name), run_label)
        except NotFoundError as error:
            raise HopelessError("RunGone", f"there is no Run {self.run_name}") from error
        selector = f"{RUN_UID_LABEL}={label_value(run.uid)}"
        listed = (await self.api.list(CANDIDATES, self.namespace, label_selector=selector)).items
        names = {each["metadata"]["name"] for each in listed}
        beside = [found for name in sorted(taken - names) if (found := await self._candidate(name)) is not None]
        return Observation(run, tuple(read_existing(each, run.uid) for each in (*listed, *beside)))

    async def act(self, decision: Decision) -> Outcome:
        """Do what was decided, up to the stage that did not go through.

        Errors: `KubeError` where nothing was done and the reason is not a race.
        """
        outcomes = [await self._publish(each) for each in decision.publish]
        if not all(each.settled for each in outcomes):
            return Outcome(settled=False, taken=frozenset().union(*(each.taken for each in outcomes)))
        if decision.run_patch is not None:
            try:
                await self.api.patch(RUNS, self.namespace, self.run_name, decision.run_patch, subresource="status")
            except (ConflictError, NotFoundError, MaybeAppliedError):
                return Outcome(settled=False)
        gone = [await self._delete(each.name, each.uid) for each in decision.delete]
        return Outcome(settled=all(gone))

    async def _candidate(self, name: str) -> dict[str, Json] | None:
        try:
            return await self.api.get(CANDIDATES, self.namespace, name)
        except NotFoundError:
            return None

    async def _publish(self, publish: Publish) -> Outcome:
        if publish.replaces is not None and not await self._delete(publish.name, publish.replaces.uid):
            return Outcome(settled=False)
        try:
            made = await self.api.create(CANDIDATES, self.namespace, publish.body)
        except AlreadyExistsError:
            return Outcome(settled=False, taken=frozenset({publish.name}))
        except MaybeAppliedError:
            return Outcome(settled=False)
        whole = {**made, "status": publish.status}
        try:
            await self.api.replace(CANDIDATES, self.namespace, publish.name, whole, subresource="status")
        except (ConflictError, NotFoundError, MaybeAppliedError):
            return Outcome(settled=False)
        _log.info("candidate published", candidate=publish.name)
        return Outcome(settled=True)

    async def _delete(self, name: str, uid: str) -> bool:
        """Delete that one object; whether it is known to be going."""
        try:
            await self.api.delete(CANDIDATES, self.namespace, name, uid=uid)
        except NotFoundError:
            return True
        except (ConflictError, MaybeAppliedError):
            return False
        _log.info("candidate deleted", candidate=name)
        return True
