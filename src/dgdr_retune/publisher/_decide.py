"""What a snapshot asks for, and when the process ends. Pure."""

from datetime import datetime
from typing import Any

from attrs import frozen

from dgdr_retune.api import EVALUATED, CandidateReason, timestamp
from dgdr_retune.publisher._candidate import Candidate, candidate_object
from dgdr_retune.publisher._errors import Exit, SnapshotError, UnsettledError
from dgdr_retune.publisher._observation import Existing, Observation, ObservedRun
from dgdr_retune.publisher._snapshot import Snapshot

Json = Any

EVALUATED_MESSAGE = "the sweeper replayed this candidate; metrics says what it measured"


@frozen
class Step:
    """What to do in one poll.

    Attributes:
        reconcile: the snapshot that Run and Candidates are to be brought to; None for nothing.
        then: how to end once that is done; None to poll again.
        cause: why it waits for another snapshot, or why it ends without a valid final one.
    """

    reconcile: Snapshot | None
    then: Exit | None
    cause: str = ""


@frozen
class Publish:
    """Create a Candidate and write its status, once.

    Attributes:
        body: the object, without its status.
        status: metrics and the condition `Evaluated`.
        replaces: an object under its name that was never finished, to be deleted before.
    """

    body: dict[str, Json]
    status: dict[str, Json]
    replaces: Existing | None = None

    @property
    def name(self) -> str:
        """The Candidate's name."""
        name: str = self.body["metadata"]["name"]
        return name


@frozen
class Decision:
    """Actions in their order: a Run never names what is not there, and nothing that it names is deleted.

    Attributes:
        publish: Candidates that are missing, the best first.
        run_patch: merge patch of the Run's status, fenced; None if the status stands as it should.
        delete: Candidates that the snapshot does not have.
    """

    publish: tuple[Publish, ...] = ()
    run_patch: dict[str, Json] | None = None
    delete: tuple[Existing, ...] = ()


def next_step(sweeper_exit: int | None, seen: Snapshot | SnapshotError | None, accepted: Snapshot | None) -> Step:
    """What a poll leads to.

    Args:
        sweeper_exit: the sweeper's exit code, read before the file; None while it has not ended.
        seen: the snapshot's file: what it says, why it cannot be used, or None if there is none.
        accepted: the last valid snapshot before this poll.
    """
    ended = sweeper_exit is not None
    if isinstance(seen, SnapshotError):
        return Step(None, Exit.PROTOCOL_VIOLATION if ended else None, f"{seen.reason}: {seen}")
    last = accepted if seen is None else seen
    if last is not None and last.terminal:
        return Step(last, Exit.ACKNOWLEDGED if last.phase == "Succeeded" else Exit.RUN_FAILED)
    if not ended:
        return Step(last, None)
    if sweeper_exit != 0:
        return Step(last, Exit.ACKNOWLEDGED, f"the sweeper ended with exit code {sweeper_exit}")
    return Step(last, Exit.PROTOCOL_VIOLATION, "the sweeper ended with exit code 0 and wrote no final snapshot")


def decide(snapshot: Snapshot, observation: Observation, now: datetime) -> Decision:
    """What is left to do until Run and Candidates are as a snapshot says.

    Errors: `UnsettledError` while an object that is not the Run's, or one that is being deleted, has a name it needs.
    """
    run = observation.run
    wanted = {
        body["metadata"]["name"]: (candidate, body)
        for candidate in snapshot.candidates
        for body in [candidate_object(candidate, run_name=run.name, run_uid=run.uid)]
    }
    there = {each.name: each for each in observation.candidates}
    for name in wanted:
        _check_usable(there.get(name))
    return Decision(
        publish=tuple(
            Publish(body, _candidate_status(candidate, now), there.get(name))
            for name, (candidate, body) in wanted.items()
            if not (name in there and there[name].evaluated)
        ),
        run_patch=_run_patch(snapshot, run, tuple(wanted)),
        delete=tuple(
            each for each in observation.candidates if each.ours and not each.terminating and each.name not in wanted
        ),
    )


def _check_usable(existing: Existing | None) -> None:
    if existing is None:
        return
    if not existing.ours:
        cause = f"the Candidate {existing.name} is not controlled by this Run; delete or rename it"
        raise UnsettledError("ForeignCandidate", cause)
    if existing.terminating:
        cause = f"the Candidate {existing.name} is being deleted; its finalizers say who holds it"
        raise UnsettledError("CandidateTerminating", cause)


def _candidate_status(candidate: Candidate, now: datetime) -> dict[str, Json]:
    condition = {
        "type": EVALUATED,
        "status": "True",
        "reason": CandidateReason.EVALUATED.value,
        "message": EVALUATED_MESSAGE,
        "lastTransitionTime": timestamp(now),
    }
    return {"metrics": candidate.metrics, "conditions": [condition]}


def _run_patch(snapshot: Snapshot, run: ObservedRun, names: tuple[str, ...]) -> dict[str, Json] | None:
    wanted: dict[str, Json] = {
        "candidateRefs": [{"name": name} for name in names],
        "progress": {
            "round": snapshot.round,
            "evaluated": snapshot.evaluated,
            **({"evaluations": snapshot.evaluations} if snapshot.evaluations else {}),
            "candidates": {"published": len(names)},
        },
        "message": _message(snapshot),
    }
    if snapshot.reported_at is not None:
        wanted["lastProgressTime"] = snapshot.reported_at
    changes = _difference({name: run.status.get(name) for name in wanted}, wanted)
    if not changes:
        return None
    return {"metadata": {"resourceVersion": run.resource_version}, "status": changes}


def _message(snapshot: Snapshot) -> str | None:
    said = snapshot.error or snapshot.message
    failed = len(snapshot.unmaterialized)
    count = f"{failed} candidate(s) failed materialization" if failed else ""
    return "; ".join(part for part in (said, count) if part) or None


def _difference(stored: dict[str, Json], wanted: dict[str, Json]) -> dict[str, Json]:
    """The merge patch that makes one object of the other."""
    patch: dict[str, Json] = {name: None for name, value in stored.items() if value is not None and name not in wanted}
    for name, value in wanted.items():
        standing = stored.get(name)
        if isinstance(value, dict) and isinstance(standing, dict):
            if inner := _difference(standing, value):
                patch[name] = inner
        elif value != standing:
            patch[name] = value
    return patch
