"""Where a scenario plays: the world, the operator's processes, and what people do and see."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from dgdr_retune.api import ACCEPTED, REQUEST_GENERATION_ANNOTATION
from dgdr_retune.testing._jobs import is_finished
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._observer import Observer, completed
from dgdr_retune.testing._operators import Operators
from dgdr_retune.testing._part import CLAIMS, JOBS, PODS, REQUESTS, RUNS, Access
from dgdr_retune.testing._store import Key
from dgdr_retune.testing._world import NAMESPACE, World

CLAIM: Final = "traces"
_LOOK_EVERY_S: Final = 0.5
_PATIENCE_S: Final = 2400.0
_MODEL: Final = "example/model"


@frozen
class Stage:
    """What a scenario works with.

    Attributes:
        world: the cluster.
        operators: the operator's processes.
        observer: what watches them.
        people: the API as somebody with a terminal uses it.
    """

    world: World
    operators: Operators
    observer: Observer
    people: Access

    def claim(self, name: str = CLAIM, *, phase: str = "Bound", mode: str = "Filesystem") -> None:
        """Create a claim, and say how it is."""
        spec = {"accessModes": ["ReadWriteMany"], "volumeMode": mode}
        self.people.create(CLAIMS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})
        self.people.patch(Key(CLAIMS, NAMESPACE, name), {"status": {"phase": phase}}, "status")

    def request(self, name: str = "demo", *, claim: str | None = CLAIM, model: str = _MODEL) -> None:
        """Create a Request on a claim, or with a synthetic workload."""
        self.people.create(REQUESTS, NAMESPACE, {"metadata": {"name": name}, "spec": specification(claim, model)})

    def run(self, name: str) -> None:
        """Create a Run by hand: a copy of some Request's, that nobody owns."""
        metadata = {"name": name, "annotations": {REQUEST_GENERATION_ANNOTATION: "1"}}
        self.people.create(RUNS, NAMESPACE, {"metadata": metadata, "spec": specification(None)})

    def change(self, name: str = "demo", *, rounds: int = 3, model: str = _MODEL) -> None:
        """Make a new generation of a Request."""
        patch = {"spec": {"modelRef": {"name": model}, "search": {"budget": {"maxRounds": rounds}}}}
        self.people.patch(Key(REQUESTS, NAMESPACE, name), patch)

    def delete(self, resource: str, name: str, policy: str = "") -> None:
        """Delete an object, as ``kubectl delete`` does."""
        self.people.delete(Key(resource, NAMESPACE, name), policy or "Background")

    def get(self, resource: str, name: str) -> Json:
        """An object, None if it is not there."""
        return self.people.get(Key(resource, NAMESPACE, name))

    def declare_foreign(self, resource: str, name: str) -> None:
        """From now on the operator must not touch this object."""
        self.observer.foreign[self.get(resource, name)["metadata"]["uid"]] = name

    async def until(self, what: str, holds: Callable[[], Any]) -> None:
        """Wait for something that people see.

        Raises:
            AssertionError: it does not happen, or something did that must never be.
        """
        waited_s = 0.0
        while not holds():
            if self.observer.problems:
                raise AssertionError(f"an invariant does not hold, before: {what}")
            if waited_s >= _PATIENCE_S:
                raise AssertionError(f"after {_PATIENCE_S:g} s still not: {what}")
            waited_s += _LOOK_EVERY_S
            await asyncio.sleep(_LOOK_EVERY_S)

    async def until_reason(self, run: str, reason: str) -> None:
        """Wait until a Run says why it is or is not completed."""
        await self.until(f"{run} is {reason}", lambda: self.reason_of(run) == reason)

    async def until_accepted(self, request: str, reason: str) -> None:
        """Wait until a Request says why it is or is not accepted."""
        await self.until(f"{request} is {reason}", lambda: reason in self._accepted_reasons(request))

    async def until_gone(self, resource: str, name: str) -> None:
        """Wait until an object is gone."""
        await self.until(f"{name} is gone", lambda: self.get(resource, name) is None)

    async def until_running(self, run: str) -> None:
        """Wait until the containers of a Run run."""
        await self.until(f"the containers of {run} run", lambda: self._phases(run) == ["Running"])

    async def until_finished(self, run: str) -> None:
        """Wait until a Run's Job has ended."""
        await self.until(f"job {run} has ended", lambda: (job := self.get(JOBS, run)) is not None and is_finished(job))

    def reason_of(self, run: str) -> str:
        """The reason of a Run's condition; empty without one."""
        condition = completed(self.get(RUNS, run))
        return "" if condition is None else str(condition["reason"])

    def _phases(self, run: str) -> list[str]:
        pods = self.people.all(PODS, NAMESPACE)
        return [pod["status"]["phase"] for pod in pods if pod["metadata"]["name"].startswith(f"{run}-")]

    def _accepted_reasons(self, request: str) -> list[str]:
        conditions = self.get(REQUESTS, request).get("status", {}).get("conditions", ())
        return [each["reason"] for each in conditions if each["type"] == ACCEPTED]


def specification(claim: str | None, model: str = _MODEL) -> Json:
    """A specification on a claim's trace, or with a synthetic workload."""
    source = {"persistentVolumeClaim": {"claimName": claim, "subPath": "windows/1.jsonl.gz"}}
    static = {"isl": 1024, "osl": 128, "concurrency": 10}
    return {
        "modelRef": {"name": model},
        "backends": ["vllm"],
        "hardware": {"gpu": {"sku": "h200_sxm", "budget": 2}},
        "workload": {"static": static} if claim is None else {"trace": {"format": "Dynamo", "source": source}},
        "objective": {"mode": "Optimize", "metric": "Throughput"},
        "search": {"budget": {"maxRounds": 3, "parallelEvaluations": 2}},
        "aisimulate": {"generator": "direct"},
    }
