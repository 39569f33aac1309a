"""A simulated cluster: the API server, and the parts that make it one, on one virtual loop."""

import functools
import random
from collections.abc import Sequence
from typing import Any, Final

from dgdr_retune.api import KINDS, custom_resource_definition
from dgdr_retune.testing._admission import Admission
from dgdr_retune.testing._garbage import GarbageCollector
from dgdr_retune.testing._jobs import JobController
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._node import Node, Scheduler, Script
from dgdr_retune.testing._own_kinds import JOB_NAME
from dgdr_retune.testing._part import Access, Desk, Part
from dgdr_retune.testing._protection import ClaimProtection, NamespaceController
from dgdr_retune.testing._publish import ScriptedPublisher
from dgdr_retune.testing._server import SimulatedApiServer
from dgdr_retune.testing._store import Write
from dgdr_retune.testing._virtual_loop import VirtualLoop

NAMESPACE: Final = "default"
OPERATOR_NAMESPACE: Final = "kube-system"
_RULES: Final = "x-kubernetes-validations"


class World:
    """A cluster in which all that happens is a function of a seed.

    Attributes:
        loop: whose time it lives in.
        server: its API server, with this project's definitions.
        desk: where requests are answered; it knows whose.
        scripts: what happens to the pod of the Job of a name.
        script: what happens to all others.
        node: where pods run.

    Args:
        loop: its time.
        seed: decides how long everything takes.
        pace: how slow the cluster's controllers are.
        rules: whether CEL rules of the definitions are asked, which takes most of the server's time.
        admission: what else judges writes.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        seed: int,
        *,
        pace: float = 1.0,
        rules: bool = False,
        admission: Sequence[Admission] = (),
    ) -> None:
        self.loop = loop
        self.server = SimulatedApiServer(now=loop.now, admission=admission)
        for definition in _definitions(rules=rules):
            self.server.install(definition)
        self.desk = Desk(self.server)
        self.scripts: dict[str, Script] = {}
        self.script = Script()
        self._seed = seed
        self._pace = pace
        publisher = ScriptedPublisher(self.access("publisher"), self._script_of, loop.now)
        self.node = self._part(Node, "kubelet", script_of=self._script_of, publish=publisher)
        self._parts: tuple[Part, ...] = (
            self._part(GarbageCollector, "garbage-collector"),
            self._part(JobController, "job-controller", now=loop.now),
            self._part(NamespaceController, "namespace-controller"),
            self._part(ClaimProtection, "pvc-protection-controller"),
            self._part(Scheduler, "scheduler"),
            self.node,
        )
        self.server.store.listen(self._written)

    def access(self, actor: str) -> Access:
        """The API for somebody inside the world."""
        return Access(self.desk, actor)

    def random(self, purpose: str) -> random.Random:
        """Numbers of their own for a purpose, so that what one part draws does not change what another one does."""
        return random.Random(f"{self._seed} {purpose}")  # noqa: S311 - not for secrets

    def lose_node(self) -> None:
        """Cut the node off; what runs there runs on, and nobody hears of it."""
        self.node.lose(self.access("taint-eviction-controller"))

    def _part(self, kind: Any, name: str, **options: Any) -> Any:
        return kind(self.access(name), self.loop, self.random(name), pace=self._pace, **options)

    def _script_of(self, pod: Json) -> Script:
        return self.scripts.get(pod["metadata"]["labels"].get(JOB_NAME, ""), self.script)

    def _written(self, write: Write) -> None:
        for part in self._parts:
            part.saw(write)


@functools.cache
def _definitions(*, rules: bool) -> tuple[Json, ...]:
    found = [custom_resource_definition(kind) for kind in KINDS]
    return tuple(found if rules else map(_without_rules, found))


def _without_rules(schema: Json) -> Json:
    match schema:
        case dict():
            return {name: _without_rules(item) for name, item in schema.items() if name != _RULES}
        case list():
            return [_without_rules(item) for item in schema]
    return schema
