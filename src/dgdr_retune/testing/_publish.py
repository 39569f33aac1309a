"""A publisher that follows a script: Candidates and the Run's progress, written as the real one writes them."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from dgdr_retune.api import (
    API_VERSION,
    CANDIDATE_ID_LABEL,
    EVALUATED,
    RUN,
    RUN_UID_LABEL,
    CandidateReason,
    candidate_id,
    candidate_name,
    label_value,
    timestamp,
)
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._node import Script
from dgdr_retune.testing._own_kinds import JOB_NAME
from dgdr_retune.testing._part import CANDIDATES, RUNS, Access
from dgdr_retune.testing._store import Key

_BACKEND: Final = "vllm"


class ScriptedPublisher:
    """Publishes what a sweeper would have found.

    Args:
        access: what it uses.
        script_of: what happens to a pod.
        now: the clock.
    """

    def __init__(self, access: Access, script_of: Callable[[Json], Script], now: Callable[[], datetime]) -> None:
        self._access = access
        self._script_of = script_of
        self._now = now

    def __call__(self, pod: Json, *, ended: bool) -> bool:
        """Publish half of the Candidates, at the end all of them; without its Run it fails."""
        key = Key(RUNS, pod["metadata"]["namespace"], pod["metadata"]["labels"][JOB_NAME])
        run = self._access.get(key)
        if run is None or run["metadata"]["uid"] != pod["metadata"]["labels"].get(RUN_UID_LABEL):
            return False
        script = self._script_of(pod)
        if script.sweeper_exit:
            return True
        count = script.candidates if ended else script.candidates // 2
        names = [self._candidate(run, number) for number in range(count)]
        progress = {"round": 1, "evaluated": count, "candidates": {"published": count}}
        references = [{"name": name} for name in names]
        status = {"candidateRefs": references, "progress": progress, "lastProgressTime": timestamp(self._now())}
        self._access.patch(key, {"status": status}, "status")
        return True

    def _candidate(self, run: Json, number: int) -> str:
        """The name of a Candidate, which is created if it is missing."""
        metadata = run["metadata"]
        parameters = {"temperature": number}
        identity = candidate_id(parameters)
        name = candidate_name(metadata["name"], metadata["uid"], identity)
        key = Key(CANDIDATES, metadata["namespace"], name)
        if self._access.get(key) is not None:
            return name
        owner = {"apiVersion": API_VERSION, "kind": RUN.name, "name": metadata["name"], "uid": metadata["uid"]}
        labels = {RUN_UID_LABEL: label_value(metadata["uid"]), CANDIDATE_ID_LABEL: identity}
        candidate = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"parameters": parameters, "backendFramework": _BACKEND},
        }
        self._access.create(CANDIDATES, metadata["namespace"], candidate)
        condition = {
            "type": EVALUATED,
            "status": "True",
            "reason": CandidateReason.EVALUATED,
            "message": "evaluated by the script",
            "lastTransitionTime": timestamp(self._now()),
        }
        self._access.patch(key, {"status": {"metrics": {"score": -number}, "conditions": [condition]}}, "status")
        return name
