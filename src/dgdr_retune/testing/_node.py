"""The scheduler, and a node whose kubelet runs pods by a script."""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Protocol

from attrs import define, field, frozen

from dgdr_retune.testing._json import Json
from dgdr_retune.testing._part import CLAIMS, PODS, Access, Part, claims_of, key_of
from dgdr_retune.testing._store import Key, Write

NODE: Final = "node"
SWEEPER: Final = "sweeper"
PUBLISHER: Final = "publisher"
_LOOK_AGAIN_S: Final = 5.0
_TOLERATION_S: Final = 300.0
_KILLED: Final = 143


class Scheduler(Part):
    """Gives a pod to the node once its claims are there, bound and not being deleted."""

    def saw(self, write: Write) -> None:
        """Look at a pod that changed, and at the pods of a claim that did."""
        if write.key.resource == PODS:
            self.look(write.key)
        elif write.key.resource == CLAIMS:
            for pod in self.access.all(PODS, write.key.namespace):
                if write.key.name in claims_of(pod["spec"]):
                    self.look(key_of(pod, PODS))

    def sync(self, key: Key) -> None:
        """Bind a pod, or say why not."""
        pod = self.access.get(key)
        if pod is None or pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return
        problems = [problem for name in claims_of(pod["spec"]) if (problem := self._problem(key.namespace, name))]
        if not problems:
            self.access.patch(key, {"spec": {"nodeName": NODE}})
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": problems[0]}
        self.access.patch(key, {"status": {"conditions": [condition]}}, "status")

    def _problem(self, namespace: str, name: str) -> str:
        claim = self.access.get(Key(CLAIMS, namespace, name))
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if "deletionTimestamp" in claim["metadata"]:
            return f'persistentvolumeclaim "{name}" is being deleted'
        if claim["status"]["phase"] == "Lost":
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
        return "" if claim["status"]["phase"] == "Bound" else "pod has unbound immediate PersistentVolumeClaims"


@frozen
class Waiting:
    """What keeps a container from starting."""

    container: str
    reason: str
    message: str


@frozen(kw_only=True)
class Script:
    """What happens to a Run's pod, times in seconds.

    Attributes:
        start_s: until its containers run.
        sweeper_s: how long the sweeper then takes.
        sweeper_exit: its exit code.
        publisher_exit: the publisher's, where all that it publishes is taken.
        candidates: how many it publishes.
        stop_s: how long containers take to end when asked to.
        unmount_s: how long the volumes stay mounted after that; the pod's phase says nothing about it.
        waiting: what keeps a container from starting.
    """

    start_s: float = 2.0
    sweeper_s: float = 60.0
    sweeper_exit: int = 0
    publisher_exit: int = 0
    candidates: int = 2
    stop_s: float = 1.0
    unmount_s: float = 2.0
    waiting: Waiting | None = None


class Publisher(Protocol):
    """The publisher of a pod, asked while the sweeper runs and once it has ended."""

    def __call__(self, pod: Json, *, ended: bool) -> bool:
        """Publish; whether the API server took all of it."""


@define
class _Life:
    """How far a pod is. ``due_s`` is when it goes on."""

    script: Script
    stage: str = "new"
    due_s: float = 0.0
    exits: dict[str, int] = field(factory=dict)


class Node(Part):
    """A kubelet. It alone says that a pod runs or has ended, and it removes a pod that is being deleted.

    Args:
        access: what it uses.
        loop: whose time it lives in.
        rng: how long it takes to notice.
        script_of: what happens to a pod; asked again as long as a container waits.
        publish: what the publisher does.
        pace: how slow it is.
    """

    def __init__(
        self,
        access: Access,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        *,
        script_of: Callable[[Json], Script],
        publish: Publisher,
        pace: float = 1.0,
    ) -> None:
        super().__init__(access, loop, rng, pace=pace)
        self.is_lost = False
        self._eviction: asyncio.TimerHandle | None = None
        self._script_of = script_of
        self._publish = publish
        self._lives: dict[str, _Life] = {}  # by the pod's UID

    def lose(self, evictor: Access) -> None:
        """Hear no more of the node; some minutes later its pods are deleted, which nobody carries out.

        Args:
            evictor: who deletes them.
        """
        self.is_lost = True
        self._eviction = self.loop.call_later(_TOLERATION_S, self._evict, evictor)

    def come_back(self) -> None:
        """Hear of the node again: its containers ran on."""
        self.is_lost = False
        if self._eviction is not None:
            self._eviction.cancel()
        for pod in self.access.all(PODS):
            self.look(key_of(pod, PODS))

    def saw(self, write: Write) -> None:
        """Look at a pod that changed."""
        if write.key.resource != PODS:
            return
        if write.new is None:
            self._lives.pop(write.old["metadata"]["uid"], None)
        elif write.new["spec"].get("nodeName"):
            self.look(write.key)

    def sync(self, key: Key) -> None:
        """Do the next thing that is due for a pod of this node."""
        pod = self.access.get(key)
        if self.is_lost or pod is None or not pod["spec"].get("nodeName"):
            return
        life = self._lives.setdefault(pod["metadata"]["uid"], _Life(self._script_of(pod)))
        if "deletionTimestamp" in pod["metadata"] and life.stage not in ("stopping", "unmounting", "unmounted"):
            self._stop(key, life)
        elif life.due_s > self.loop.time():
            self.look(key, life.due_s - self.loop.time())
        else:
            self._go_on(key, pod, life)

    def _go_on(self, key: Key, pod: Json, life: _Life) -> None:
        """The next stage of a pod's life."""
        script = life.script
        match life.stage:
            case "new":
                self._next(key, life, "creating", script.start_s)
                self._write(key, pod, life, waiting=dict.fromkeys(_names(pod), ("ContainerCreating", "")))
            case "creating" | "waiting":
                life.script = script = self._script_of(pod)
                self._start(key, pod, life, script)
            case "running":
                self._next(key, life, "sweeping", script.sweeper_s / 2)
                self._publish(pod, ended=False)
            case "sweeping":
                life.exits[SWEEPER] = script.sweeper_exit
                self._next(key, life, "publishing", 1.0)
                self._write(key, pod, life)
            case "publishing":
                taken = self._publish(pod, ended=True)
                life.exits |= {name: 0 for name in _names(pod) if name not in life.exits}
                life.exits[PUBLISHER] = script.publisher_exit if taken else 1
                self._next(key, life, "unmounting", script.unmount_s)
                self._write(key, pod, life)
            case "stopping":
                life.exits |= {name: _KILLED for name in _names(pod) if name not in life.exits}
                self._next(key, life, "unmounting", script.unmount_s)
                self._write(key, pod, life)
            case "unmounting":
                self._next(key, life, "unmounted", 0.0)
            case "unmounted" if "deletionTimestamp" in pod["metadata"]:
                self.access.delete(key, grace_s=0)

    def _start(self, key: Key, pod: Json, life: _Life, script: Script) -> None:
        """Run the containers, unless a volume or one of them keeps the pod waiting."""
        missing = [name for name in claims_of(pod["spec"]) if self.access.get(Key(CLAIMS, key.namespace, name)) is None]
        if missing:
            life.due_s = self.loop.time() + _LOOK_AGAIN_S
            self.look(key, _LOOK_AGAIN_S)
            return
        if script.waiting is not None:
            held = script.waiting
            self._next(key, life, "waiting", _LOOK_AGAIN_S)
            self._write(key, pod, life, waiting={held.container: (held.reason, held.message)})
            return
        self._next(key, life, "running", script.sweeper_s / 2)
        self._write(key, pod, life)

    def _stop(self, key: Key, life: _Life) -> None:
        """Ask the containers to end, where there are any."""
        self._next(key, life, "stopping", 0.0 if life.stage in ("new", "creating") else life.script.stop_s)

    def _next(self, key: Key, life: _Life, stage: str, after_s: float) -> None:
        life.stage = stage
        life.due_s = self.loop.time() + after_s
        self.look(key, after_s)

    def _write(self, key: Key, pod: Json, life: _Life, waiting: dict[str, tuple[str, str]] | None = None) -> None:
        """Write the pod's status, as it follows from its containers'."""
        held = waiting or {}
        states = {name: _state(life.exits.get(name), *held.get(name, ())) for name in _names(pod)}
        exits = [life.exits.get(name) for name in states]
        phase = "Pending" if held else "Running" if None in exits else "Failed" if any(exits) else "Succeeded"
        containers = [
            {"name": name, "state": state, "ready": "running" in state, "restartCount": 0}
            for name, state in states.items()
        ]
        self.access.patch(key, {"status": {"phase": phase, "containerStatuses": containers}}, "status")

    def _evict(self, evictor: Access) -> None:
        for pod in list(self.access.all(PODS)):
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                evictor.delete(key_of(pod, PODS))


def _names(pod: Json) -> list[str]:
    return [container["name"] for container in pod["spec"]["containers"]]


def _state(exit_code: int | None, reason: str = "", message: str = "") -> Json:
    if reason:
        return {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    if exit_code is None:
        return {"running": {}}
    return {"terminated": {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}}
