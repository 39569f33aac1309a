"""The rules, without a server: when it ends, and what is left to do."""

from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.publisher.snapshots import candidate, snapshot, text, unmaterialized

from dgdr_retune.api import candidate_name
from dgdr_retune.lowering import merge_patch
from dgdr_retune.publisher._decide import Decision, Step, decide, next_step
from dgdr_retune.publisher._errors import Exit, SnapshotError, UnsettledError
from dgdr_retune.publisher._observation import Existing, Observation, ObservedRun
from dgdr_retune.publisher._snapshot import Snapshot, read_snapshot

Json = Any

NOW = datetime(2026, 10, 1, tzinfo=UTC)
RUN = "qwen-run-1"
UID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"

RUNNING, SUCCEEDED, FAILED = (
    read_snapshot(text(snapshot(phase=phase))) for phase in ("Running", "Succeeded", "Failed")
)
OLDER = read_snapshot(text(snapshot(round_=0)))
BAD = SnapshotError("InvalidSnapshot", "half")


@pytest.mark.parametrize(
    ("sweeper_exit", "seen", "accepted", "reconcile", "then"),
    [
        (None, None, None, None, None),
        (None, None, OLDER, OLDER, None),
        (None, BAD, None, None, None),
        (None, BAD, OLDER, None, None),
        (None, RUNNING, OLDER, RUNNING, None),
        (None, SUCCEEDED, OLDER, SUCCEEDED, Exit.ACKNOWLEDGED),
        (None, FAILED, OLDER, FAILED, Exit.RUN_FAILED),
        (None, None, SUCCEEDED, SUCCEEDED, Exit.ACKNOWLEDGED),
        (0, None, None, None, Exit.PROTOCOL_VIOLATION),
        (0, None, OLDER, OLDER, Exit.PROTOCOL_VIOLATION),
        (0, BAD, None, None, Exit.PROTOCOL_VIOLATION),
        (0, BAD, OLDER, None, Exit.PROTOCOL_VIOLATION),
        (0, RUNNING, OLDER, RUNNING, Exit.PROTOCOL_VIOLATION),
        (0, SUCCEEDED, OLDER, SUCCEEDED, Exit.ACKNOWLEDGED),
        (0, FAILED, None, FAILED, Exit.RUN_FAILED),
        (1, None, None, None, Exit.ACKNOWLEDGED),
        (1, None, OLDER, OLDER, Exit.ACKNOWLEDGED),
        (1, BAD, OLDER, None, Exit.PROTOCOL_VIOLATION),
        (1, RUNNING, OLDER, RUNNING, Exit.ACKNOWLEDGED),
        (1, SUCCEEDED, OLDER, SUCCEEDED, Exit.ACKNOWLEDGED),
        (1, FAILED, OLDER, FAILED, Exit.RUN_FAILED),
    ],
)
def test_the_table_of_ends(
    sweeper_exit: int | None,
    seen: Snapshot | SnapshotError | None,
    accepted: Snapshot | None,
    reconcile: Snapshot | None,
    then: Exit | None,
) -> None:
    step = next_step(sweeper_exit, seen, accepted)
    assert step == Step(reconcile, then, step.cause)


NUMBERS = st.lists(st.integers(0, 5), unique=True, max_size=6)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    entries = [
        candidate(float(number)) if draw(st.booleans()) else unmaterialized(float(number)) for number in draw(NUMBERS)
    ]
    progress = {"round": draw(st.integers(0, 3)), "evaluated": draw(st.integers(0, 9))}
    if draw(st.booleans()):
        states = st.sampled_from(["running", "feasible", "failed", "cacheHits"])
        progress["evaluations"] = draw(st.dictionaries(states, st.integers(0, 9)))
    run = draw(st.fixed_dictionaries({}, optional={"message": st.just("m"), "error": st.just("e")}))
    stamp = draw(st.sampled_from(["2026-10-01T12:00:00Z", "2026-10-01T12:00:05Z", None]))
    return read_snapshot(text(snapshot(*entries, run=run, progress=progress, timestamp=stamp)))


def name_of(number: int) -> str:
    return candidate_name(RUN, UID, candidate(float(number))["id"])


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    candidates = tuple(
        Existing(name_of(number), f"uid-{number}", ours=True, evaluated=draw(st.booleans())) for number in draw(NUMBERS)
    )
    status = draw(st.just({}) | st.just({"phase": "Running", "message": "old", "progress": {"branches": []}}))
    return Observation(ObservedRun(RUN, UID, "7", status), candidates)


def done(observation: Observation, decision: Decision) -> Observation:
    """What is there once everything that was decided is done."""
    there = {each.name: each for each in observation.candidates}
    for each in decision.publish:
        there[each.name] = Existing(each.name, "new", ours=True, evaluated=True)
    for each in decision.delete:
        del there[each.name]
    patched = merge_patch(dict(observation.run.status), (decision.run_patch or {}).get("status", {}))
    return Observation(evolve(observation.run, status=patched, resource_version="8"), tuple(there.values()))


@given(snapshots(), observations())
@settings(deadline=None, max_examples=100)
def test_what_is_decided_is_all_there_is_to_do(wanted: Snapshot, observation: Observation) -> None:
    decision = decide(wanted, observation, NOW)
    after = done(observation, decision)
    assert decide(wanted, after, NOW) == Decision()
    assert {each.name for each in after.candidates} == {each["name"] for each in after.run.status["candidateRefs"]}
    assert after.run.status.get("phase") == observation.run.status.get("phase")
    if decision.run_patch is not None:
        assert decision.run_patch["metadata"] == {"resourceVersion": "7"}
        assert set(decision.run_patch["status"]) <= {"candidateRefs", "progress", "message", "lastProgressTime"}


@given(snapshots(), observations())
@settings(deadline=None, max_examples=100)
def test_only_what_is_unfinished_is_made_and_only_what_is_not_wanted_goes(
    wanted: Snapshot, observation: Observation
) -> None:
    decision = decide(wanted, observation, NOW)
    finished = {each.name for each in observation.candidates if each.evaluated}
    names = [candidate_name(RUN, UID, each.id) for each in wanted.candidates]
    assert [each.name for each in decision.publish] == [name for name in names if name not in finished]
    assert {each.name for each in decision.delete} == {each.name for each in observation.candidates} - set(names)
    there = {each.name: each for each in observation.candidates}
    assert all(each.replaces == there.get(each.name) for each in decision.publish)


@pytest.mark.parametrize(
    ("existing", "reason"),
    [
        (Existing(name_of(1), "u", ours=False, evaluated=True), "ForeignCandidate"),
        (Existing(name_of(1), "u", ours=False, evaluated=False), "ForeignCandidate"),
        (Existing(name_of(1), "u", ours=True, evaluated=True, terminating=True), "CandidateTerminating"),
    ],
)
def test_a_name_that_cannot_be_used_is_an_error(existing: Existing, reason: str) -> None:
    wanted = read_snapshot(text(snapshot(candidate(1.0))))
    with pytest.raises(UnsettledError) as caught:
        decide(wanted, Observation(ObservedRun(RUN, UID, "7", {}), (existing,)), NOW)
    assert caught.value.reason == reason


def test_what_is_not_ours_or_going_already_is_not_deleted() -> None:
    others = (
        Existing("a", "u", ours=False, evaluated=True),
        Existing("b", "u", ours=True, evaluated=True, terminating=True),
    )
    assert not decide(RUNNING, Observation(ObservedRun(RUN, UID, "7", {}), others), NOW).delete
