"""One publisher against a simulated server: what it writes, and how it ends."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.publisher.conftest import Play
from tests.publisher.snapshots import SERVICE, candidate, deployment, manifest, snapshot, unmaterialized
from tests.publisher.world import CONDITION, NAMESPACE, POD, RUN, Fault, World, body, stamp

from dgdr_retune.api import ADDITIONAL_RESOURCES_ANNOTATION, candidate_name
from dgdr_retune.kube import PODS, Answer, Call, NotSentError
from dgdr_retune.publisher import FILE_NAME, Exit
from dgdr_retune.publisher._act import CANDIDATES, RUNS

Json = Any
Script = list[tuple[float, Callable[[], Awaitable[None] | None]]]

STATUS = {"reason": "Forbidden", "code": 403, "kind": "Status", "message": "not granted"}


async def played(world: World, script: Script = ()) -> Exit:
    """A publisher, and what happens around it at times counted from its start."""

    async def play_script() -> None:
        for at_s, step in script:
            await asyncio.sleep(at_s - (asyncio.get_running_loop().time() - begun))
            if (waiting := step()) is not None:
                await waiting

    begun = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        publishing = group.create_task(world.publish())
        playing = group.create_task(play_script())
        await asyncio.wait((publishing,))
        playing.cancel()
    return publishing.result()


async def named(world: World, *numbers: float) -> list[str]:
    uid = (await world.run())["metadata"]["uid"]
    return [candidate_name(RUN, uid, candidate(each)["id"]) for each in numbers]


def test_a_final_success_is_published_and_acknowledged(world: World, play: Play) -> None:
    async def scenario() -> None:
        best = candidate(0.5, manifest=manifest(deployment(), SERVICE))
        world.write(
            snapshot(best, unmaterialized(2.0), candidate(0.0), phase="Succeeded", round_=3, evaluated=4)
            | {"progress": {"round": 3, "evaluated": 4, "evaluations": {"feasible": 3, "failed": 1}}}
        )
        assert await played(world) is Exit.ACKNOWLEDGED
        run, names = await world.run(), await named(world, 0.5, 0.0)
        assert run["status"] == {
            "phase": "Running",
            "conditions": [CONDITION],
            "candidateRefs": [{"name": name} for name in names],
            "progress": {
                "round": 3,
                "evaluated": 4,
                "evaluations": {"feasible": 3, "failed": 1},
                "candidates": {"published": 2},
            },
            "message": "1 candidate(s) failed materialization",
            "lastProgressTime": "2026-10-01T12:00:00Z",
        }
        found = await world.candidates()
        assert sorted(found) == sorted(names)
        one = found[names[0]]
        assert one["spec"] == {**deployment()["spec"], "parameters": best["parameters"]}
        assert one["metadata"]["labels"] == {
            "nvidia.com/dgdr-run-uid": run["metadata"]["uid"],
            "nvidia.com/dgdr-candidate-id": best["id"],
        }
        assert ADDITIONAL_RESOURCES_ANNOTATION in one["metadata"]["annotations"]
        assert one["status"]["metrics"] == best["metrics"]
        (condition,) = one["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Evaluated", "True", "Evaluated")

    play(scenario())


@pytest.mark.parametrize(
    ("document", "sweeper_exit", "expected"),
    [
        (snapshot(candidate(1.0), phase="Succeeded"), None, 0),
        (snapshot(candidate(1.0), phase="Succeeded"), 0, 0),
        (snapshot(candidate(1.0), phase="Succeeded"), 3, 0),
        (snapshot(candidate(1.0), phase="Failed"), None, 4),
        (snapshot(candidate(1.0), phase="Failed"), 1, 4),
        (snapshot(candidate(1.0)), 137, 0),
        (snapshot(candidate(1.0)), 0, 3),
    ],
)
def test_the_exit_code_follows_snapshot_and_sweeper_and_the_last_snapshot_is_published_before(
    world: World, play: Play, document: Json, sweeper_exit: int | None, expected: int
) -> None:
    async def scenario() -> None:
        world.write(document)
        if sweeper_exit is not None:
            await world.end_sweeper(sweeper_exit)
        assert await played(world) == expected
        assert list(await world.candidates()) == await named(world, 1.0)

    play(scenario())


@pytest.mark.parametrize(
    ("content", "sweeper_exit", "expected"),
    [
        (None, 1, 0),
        (None, 0, 3),
        (b"half: [", 0, 3),
        (b"half: [", 1, 3),
        (snapshot(schemaVersion=2), 0, 3),
    ],
)
def test_without_a_valid_snapshot_the_sweeper_end_is_the_end(
    world: World, play: Play, content: Json, sweeper_exit: int, expected: int
) -> None:
    async def scenario() -> None:
        if content is not None:
            world.write(content)
        await world.end_sweeper(sweeper_exit)
        assert await played(world) == expected
        assert not world.transport.writes

    play(scenario())


def test_it_waits_through_missing_half_and_regressing_files_while_the_sweeper_runs(world: World, play: Play) -> None:
    async def scenario() -> None:
        ok = snapshot(candidate(1.0), round_=2, evaluated=5)
        exit_ = await played(
            world,
            [
                (5.5, lambda: world.write(b"schemaVersion: 1\nrun: {")),
                (10.5, lambda: world.write(ok)),
                (15.5, lambda: world.write(snapshot(candidate(2.0), round_=2, evaluated=4))),
                (20.5, (world.directory / FILE_NAME).unlink),
                (25.5, lambda: world.write(snapshot(candidate(1.0), round_=2, evaluated=6, phase="Succeeded"))),
            ],
        )
        assert exit_ is Exit.ACKNOWLEDGED
        assert world.loop.time() > 25
        assert list(await world.candidates()) == await named(world, 1.0)
        assert sum(write.startswith("POST") for write in world.transport.writes) == 1

    play(scenario())


def test_a_snapshot_that_goes_back_when_the_sweeper_has_ended_is_a_violation(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), round_=2))

        async def end() -> None:
            world.write(snapshot(round_=1, phase="Succeeded"))
            await world.end_sweeper(0)

        assert await played(world, [(2.5, end)]) is Exit.PROTOCOL_VIOLATION
        assert list(await world.candidates()) == await named(world, 1.0)

    play(scenario())


def test_the_sweeper_is_looked_at_before_its_file(world: World, play: Play) -> None:
    """Else a sweeper that writes its last snapshot and ends between the two would be a violation."""

    async def scenario() -> None:
        world.write(snapshot(candidate(1.0)))

        async def write_and_end(call: Call) -> None:
            if call.path.endswith(f"/pods/{POD}") and not (world.directory / "done").exists():
                (world.directory / "done").touch()
                world.write(snapshot(candidate(1.0), phase="Succeeded"))
                await world.end_sweeper(0)

        world.transport.on_call = write_and_end
        assert await played(world) is Exit.ACKNOWLEDGED

    play(scenario())


def test_candidates_come_before_the_run_names_them_and_go_after(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(0.0), candidate(1.0)))
        later = snapshot(candidate(2.0), candidate(1.0), phase="Succeeded")
        assert await played(world, [(1.5, lambda: world.write(later))]) is Exit.ACKNOWLEDGED
        zero, one, two = (f"{CANDIDATES.plural}/{name}" for name in await named(world, 0.0, 1.0, 2.0))
        run = f"PATCH {RUNS.plural}/{RUN}/status"
        create = f"POST {CANDIDATES.plural}"
        assert world.transport.writes == [
            *(create, f"PUT {zero}/status", create, f"PUT {one}/status", run),
            *(create, f"PUT {two}/status", run, f"DELETE {zero}"),
        ]

    play(scenario())


def test_an_unchanged_snapshot_repairs_and_writes_nothing_else(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(0.0), candidate(1.0)))
        (gone, _) = await named(world, 0.0, 1.0)
        before: list[str] = []

        async def delete() -> None:
            before.extend(world.transport.writes)
            found = await world.admin.get(CANDIDATES, NAMESPACE, gone)
            await world.admin.delete(CANDIDATES, NAMESPACE, gone, uid=found["metadata"]["uid"])

        await played(world, [(60.5, delete), (120.5, lambda: world.end_sweeper(1))])
        assert len(before) == 5
        new = world.transport.writes[5:]
        assert new == [f"POST {CANDIDATES.plural}", f"PUT {CANDIDATES.plural}/{gone}/status"]

    play(scenario())


def test_an_existing_candidate_is_never_changed(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0)))
        changed = candidate(1.0, metrics={"score": -1}, manifest=manifest(deployment(spec={"env": []})))
        await played(world, [(1.5, lambda: world.write(snapshot(changed, phase="Failed")))])
        (found,) = (await world.candidates()).values()
        assert found["spec"]["backendFramework"] == "vllm"
        assert found["status"]["metrics"]["score"] == 9

    play(scenario())


def test_a_candidate_without_a_status_is_made_again(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), phase="Succeeded"))
        world.transport.faults = [Fault(at=1, before=False, killed=True)]
        assert await played(world) is Exit.ACKNOWLEDGED
        assert [write.split()[0] for write in world.transport.writes] == ["POST", "DELETE", "POST", "PUT", "PATCH"]
        deletion = next(each for each in world.transport.calls if each.method == "DELETE")
        assert body(deletion)["preconditions"]["uid"]

    play(scenario())


def test_lost_replies_do_not_use_up_the_tries(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), phase="Succeeded"))
        world.transport.faults = [Fault(at=number, before=False, killed=False) for number in (1, 4, 5)]
        begun = world.loop.time()
        assert await played(world) is Exit.ACKNOWLEDGED
        assert [write.split()[0] for write in world.transport.writes] == ["POST", "DELETE", "POST", "PUT", "PATCH"]
        assert world.loop.time() - begun < 1

    play(scenario())


def foreign(name: str, **metadata: Json) -> Json:
    spec = {"parameters": {}, "backendFramework": "sglang"}
    head = {"apiVersion": "nvidia.com/v1beta2", "kind": "DynamoGraphDeploymentCandidate"}
    return head | {"metadata": {"name": name, **metadata}, "spec": spec}


def owned(uid: str, *, controller: bool = True, kind: str = "DynamoGraphDeploymentRun") -> Json:
    return {"apiVersion": "nvidia.com/v1beta2", "kind": kind, "name": RUN, "uid": uid, "controller": controller}


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("owner", ["nobody", "another Run", "our Run, not as controller", "another kind"])
def test_a_candidate_of_another_owner_is_an_error_and_stays(
    world: World, play: Play, owner: str, *, labelled: bool
) -> None:
    async def scenario() -> None:
        uid = (await world.run())["metadata"]["uid"]
        (name,) = await named(world, 1.0)
        owners = {
            "nobody": [],
            "another Run": [owned("other")],
            "our Run, not as controller": [owned(uid, controller=False)],
            "another kind": [owned(uid, kind="Other")],
        }[owner]
        labels = {"nvidia.com/dgdr-run-uid": uid} if labelled else {}
        there = await world.admin.create(CANDIDATES, NAMESPACE, foreign(name, ownerReferences=owners, labels=labels))
        world.write(snapshot(candidate(1.0), phase="Succeeded"))
        begun = world.loop.time()
        assert await played(world) is Exit.NOT_RECONCILED
        assert world.loop.time() - begun == pytest.approx(2.0, abs=0.1)  # three tries
        assert await world.candidates() == {name: there}

    play(scenario())


def test_a_candidate_of_this_run_that_lost_its_label_is_found_by_its_name(world: World, play: Play) -> None:
    async def scenario() -> None:
        uid = (await world.run())["metadata"]["uid"]
        finished, unfinished = await named(world, 0.0, 1.0)
        for name in (finished, unfinished):
            made = await world.admin.create(CANDIDATES, NAMESPACE, foreign(name, ownerReferences=[owned(uid)]))
            if name == finished:
                done = {"metadata": stamp(made), "status": {"metrics": {"score": 1}}}
                await world.admin.patch(CANDIDATES, NAMESPACE, name, done, subresource="status")
        world.write(snapshot(candidate(0.0), candidate(1.0), phase="Succeeded"))
        assert await played(world) is Exit.ACKNOWLEDGED
        found = await world.candidates()
        assert found[finished]["spec"]["backendFramework"] == "sglang"  # ignored: it is ours and finished
        assert found[unfinished]["spec"]["backendFramework"] == "vllm"  # made again

    play(scenario())


def test_a_labelled_candidate_that_is_not_ours_and_not_wanted_is_left_alone(world: World, play: Play) -> None:
    async def scenario() -> None:
        uid = (await world.run())["metadata"]["uid"]
        await world.admin.create(CANDIDATES, NAMESPACE, foreign("stranger", labels={"nvidia.com/dgdr-run-uid": uid}))
        world.write(snapshot(phase="Succeeded"))
        assert await played(world) is Exit.ACKNOWLEDGED
        assert list(await world.candidates()) == ["stranger"]

    play(scenario())


def test_a_wanted_candidate_that_is_going_is_waited_for_and_made_again(world: World, play: Play) -> None:
    async def scenario() -> None:
        uid = (await world.run())["metadata"]["uid"]
        (name,) = await named(world, 1.0)
        held = foreign(name, ownerReferences=[owned(uid)], finalizers=["example.com/hold"])
        made = await world.admin.create(CANDIDATES, NAMESPACE, held)
        await world.admin.delete(CANDIDATES, NAMESPACE, name, uid=made["metadata"]["uid"])

        async def let_go() -> None:
            going = await world.admin.get(CANDIDATES, NAMESPACE, name)
            await world.admin.patch(CANDIDATES, NAMESPACE, name, {"metadata": {**stamp(going), "finalizers": None}})

        world.write(snapshot(candidate(1.0), phase="Succeeded"))
        assert await played(world, [(1.5, let_go)]) is Exit.ACKNOWLEDGED
        assert (await world.candidates())[name]["spec"]["backendFramework"] == "vllm"

    play(scenario())


@pytest.mark.parametrize(
    ("run", "failed", "expected"),
    [
        ({"message": "done"}, 0, "done"),
        ({"message": "done", "error": "KeyError: x"}, 0, "KeyError: x"),
        ({"error": "KeyError: x"}, 2, "KeyError: x; 2 candidate(s) failed materialization"),
        ({}, 1, "1 candidate(s) failed materialization"),
        ({}, 0, None),
    ],
)
def test_the_message_is_the_error_or_the_message_and_the_count(
    world: World, play: Play, run: Json, failed: int, expected: str | None
) -> None:
    async def scenario() -> None:
        world.write(snapshot(run={"message": "before"}))
        last = snapshot(*(unmaterialized(float(n)) for n in range(failed)), phase="Succeeded", run=run)
        await played(world, [(1.5, lambda: world.write(last))])
        assert (await world.run())["status"].get("message") == expected

    play(scenario())


def test_a_bad_time_leaves_the_time_as_it_was(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot())
        await played(world, [(1.5, lambda: world.write(snapshot(phase="Succeeded", timestamp="yesterday")))])
        assert (await world.run())["status"]["lastProgressTime"] == "2026-10-01T12:00:00Z"

    play(scenario())


def test_what_a_later_snapshot_does_not_say_is_removed(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(progress={"round": 1, "evaluated": 1, "evaluations": {"running": 1, "feasible": 1}}))
        last = snapshot(phase="Succeeded", progress={"round": 1, "evaluated": 2, "evaluations": {"feasible": 2}})
        await played(world, [(1.5, lambda: world.write(last))])
        assert (await world.run())["status"]["progress"]["evaluations"] == {"feasible": 2}

    play(scenario())


def test_the_run_is_written_by_a_fenced_patch_that_holds_no_phase_and_no_condition(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), run={"message": "a"}))
        await played(world, [(1.5, lambda: world.write(snapshot(candidate(2.0), phase="Failed")))])
        patches = [each for each in world.transport.calls if each.method == "PATCH"]
        assert len(patches) == 2
        for patch in patches:
            assert patch.content_type == "application/merge-patch+json"
            assert body(patch)["metadata"] == {"resourceVersion": body(patch)["metadata"]["resourceVersion"]}
            assert set(body(patch)["status"]) <= {"candidateRefs", "progress", "message", "lastProgressTime"}
        status = (await world.run())["status"]
        assert (status["phase"], status["conditions"]) == ("Running", [CONDITION])

    play(scenario())


def test_a_write_of_the_run_in_between_is_a_conflict_and_is_taken_into_account(world: World, play: Play) -> None:
    async def scenario() -> None:
        async def interfere(call: Call) -> None:
            if call.method == "PATCH" and len([each for each in world.transport.calls if each.method == "PATCH"]) == 1:
                status = {"phase": "Failed", "jobRef": {"name": RUN}, "message": "from elsewhere"}
                fenced = {"metadata": stamp(await world.run()), "status": status}
                await world.admin.patch(RUNS, NAMESPACE, RUN, fenced, subresource="status")

        world.transport.on_call = interfere
        world.write(snapshot(phase="Succeeded"))
        assert await played(world) is Exit.ACKNOWLEDGED
        status = (await world.run())["status"]
        assert (status["phase"], status["jobRef"], status.get("message")) == ("Failed", {"name": RUN}, None)

    play(scenario())


def test_a_run_that_changes_all_the_time_is_given_up_after_three_tries(world: World, play: Play) -> None:
    async def scenario() -> None:
        async def interfere(call: Call) -> None:
            if call.method == "PATCH":
                count = {"status": {"startTime": f"2026-10-01T12:00:{len(world.transport.calls) % 60:02}Z"}}
                fenced = {"metadata": stamp(await world.run()), **count}
                await world.admin.patch(RUNS, NAMESPACE, RUN, fenced, subresource="status")

        world.transport.on_call = interfere
        world.write(snapshot(phase="Succeeded"))
        assert await played(world) is Exit.NOT_RECONCILED
        assert len(world.transport.writes) == 15

    play(scenario())


async def recreate_run(world: World) -> None:
    run = await world.run()
    await world.admin.delete(RUNS, NAMESPACE, RUN, uid=run["metadata"]["uid"])
    await world.make_run({**run, "metadata": {"name": RUN}, "status": None})


async def delete_run(world: World) -> None:
    await world.admin.delete(RUNS, NAMESPACE, RUN, uid=(await world.run())["metadata"]["uid"])


async def mark_run_for_deletion(world: World) -> None:
    uid = (await world.run())["metadata"]["uid"]
    await world.admin.delete(RUNS, NAMESPACE, RUN, uid=uid, propagation="Foreground")


async def mark_pod_for_deletion(world: World) -> None:
    uid = (await world.admin.get(PODS, NAMESPACE, POD))["metadata"]["uid"]
    await world.admin.delete(PODS, NAMESPACE, POD, uid=uid, propagation="Foreground")


async def delete_pod(world: World) -> None:
    uid = (await world.admin.get(PODS, NAMESPACE, POD))["metadata"]["uid"]
    await world.admin.delete(PODS, NAMESPACE, POD, uid=uid)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (recreate_run, "RunReplaced"),
        (delete_run, "RunGone"),
        (mark_run_for_deletion, "RunTerminating"),
        (mark_pod_for_deletion, "PodTerminating"),
        (delete_pod, "PodGone"),
    ],
)
def test_it_stops_at_once_when_there_is_nothing_to_publish_for(
    world: World, play: Play, event: Callable[[World], Awaitable[None]], reason: str
) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0)))

        async def happen() -> None:
            await event(world)
            world.write(snapshot(candidate(2.0)))
            world.transport.calls.clear()

        begun = world.loop.time()
        assert await played(world, [(1.5, happen)]) is Exit.NOT_RECONCILED
        assert world.loop.time() - begun < 2.1
        assert not world.transport.writes

    with capture_logs() as logs:
        play(scenario())
    assert logs[-1]["event"] == "stopped"
    assert logs[-1]["reason"] == reason


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"name": POD}},
        {"spec": {"containers": [{"name": "other", "image": "i"}]}},
    ],
)
def test_a_pod_that_is_not_a_runs_is_refused(world: World, play: Play, changes: Json) -> None:
    async def scenario() -> None:
        await delete_pod(world)
        await world.make_pod(**({"metadata": {"name": POD, "labels": {"nvidia.com/dgdr-run-uid": "u"}}} | changes))
        assert await played(world) is Exit.NOT_RECONCILED

    play(scenario())


def test_a_waiting_sweeper_is_one_that_has_not_ended(world: World, play: Play) -> None:
    async def scenario() -> None:
        await world.set_sweeper({"waiting": {"reason": "CreateContainerError"}})
        exit_ = await played(world, [(600.5, lambda: world.end_sweeper(2))])
        assert exit_ is Exit.ACKNOWLEDGED
        assert world.loop.time() > 600

    play(scenario())


def test_a_server_that_cannot_be_reached_is_waited_for(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), phase="Succeeded"))

        async def down(_: Call) -> None:
            if world.loop.time() < 900:
                raise NotSentError("no route")

        world.transport.on_call = down
        assert await played(world) is Exit.ACKNOWLEDGED
        assert world.loop.time() >= 900

    play(scenario())


def test_what_is_the_matter_is_said_once_and_again_when_it_comes_back(world: World, play: Play) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0)))

        async def down(_: Call) -> None:
            if 2 < world.loop.time() < 100 or 200 < world.loop.time() < 300:
                raise NotSentError("no route")

        world.transport.on_call = down
        await played(world, [(400.5, lambda: world.end_sweeper(1))])

    with capture_logs() as logs:
        play(scenario())
    assert [each["event"] for each in logs if each["log_level"] == "warning"] == [
        "cannot read the own pod",
        "cannot read the own pod",
        "no valid final snapshot",
    ]


def refused_for(world: World, seconds: float, what: str) -> Callable[[Call], Awaitable[Answer | None]]:
    async def answer(call: Call) -> Answer | None:
        if what in call.path and world.loop.time() < seconds:
            return Answer(403, {}, json.dumps(STATUS).encode())
        return None

    return answer


@pytest.mark.parametrize(("seconds", "expected"), [(30, 0), (3000, 1)])
def test_rights_may_come_late_but_not_for_ever(world: World, play: Play, seconds: float, expected: int) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0), phase="Succeeded"))
        world.transport.on_call = refused_for(world, seconds, "/pods/")
        assert await played(world) == expected
        assert world.loop.time() < 120

    play(scenario())


def test_what_cannot_be_published_is_tried_for_as_long_as_the_sweeper_runs_and_three_times_after(
    world: World, play: Play
) -> None:
    async def scenario() -> None:
        world.write(snapshot(candidate(1.0)))
        world.transport.on_call = refused_for(world, 1e9, CANDIDATES.plural)
        assert await played(world, [(100.5, lambda: world.end_sweeper(0))]) is Exit.NOT_RECONCILED
        assert 102 < world.loop.time() < 105

    play(scenario())


def check_invariants(world: World) -> Callable[[Call], Awaitable[None]]:
    """What holds after each write, whatever was killed or lost before."""
    evaluated: dict[str, Json] = {}

    async def check(call: Call) -> None:
        candidates, run = await world.candidates(), await world.run()
        named_ = [each["name"] for each in run["status"].get("candidateRefs", [])]
        assert len(named_) == len(set(named_))
        assert all(candidates[name].get("status") for name in named_), "the Run names what is not whole"
        assert (run["status"]["phase"], run["status"]["conditions"]) == ("Running", [CONDITION])
        for each in candidates.values():
            uid, status = each["metadata"]["uid"], each.get("status")
            assert evaluated.setdefault(uid, status) in (None, status), "a status was written twice"
            evaluated[uid] = status
        assert call.method != "PUT" or call.path.endswith("/status")

    return check


def story(world: World) -> Script:
    """Candidates come, change places, fail and go; files are missing, half and regressing; then the end."""
    one, two, three = candidate(1.0), candidate(2.0, manifest=manifest(deployment(), SERVICE)), candidate(3.0)
    return [
        (0.5, lambda: world.write(snapshot(run={"message": "starting"}, round_=0))),
        (2.5, lambda: world.write(snapshot(one, two, evaluated=2))),
        (4.5, lambda: world.write(b"schemaVersion: 1\nrun: {phase")),
        (6.5, lambda: world.write(snapshot(three, one, unmaterialized(4.0), round_=2, evaluated=4))),
        (8.5, lambda: world.write(snapshot(round_=1))),
        (10.5, lambda: world.write(snapshot(two, three, phase="Succeeded", round_=2, evaluated=6))),
        (12.5, lambda: world.end_sweeper(0)),
    ]


@pytest.fixture
def undisturbed(world: World, play: Play) -> tuple[int, Json]:
    """How many writes the story takes without faults, and what is there at its end."""

    async def scenario() -> tuple[int, Json]:
        world.transport.after_write = check_invariants(world)
        assert await played(world, story(world)) is Exit.ACKNOWLEDGED
        return len(world.transport.writes), await world.end_state()

    count, state = play(scenario())
    assert (count, len(state["candidates"])) == (14, 2)
    return count, state


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "reply lost"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_every_write_may_be_the_last_of_a_process_and_every_reply_may_be_lost(
    world: World, play: Play, undisturbed: tuple[int, Json], *, before: bool, killed: bool
) -> None:
    count, state = undisturbed

    async def scenario(faults: list[Fault]) -> None:
        for each in (await world.candidates()).values():
            await world.admin.delete(CANDIDATES, NAMESPACE, each["metadata"]["name"], uid=each["metadata"]["uid"])
        cleared = {"metadata": stamp(await world.run()), "status": dict.fromkeys(state["run"])}
        cleared["status"] |= {"phase": "Running", "conditions": [CONDITION]}
        await world.admin.patch(RUNS, NAMESPACE, RUN, cleared, subresource="status")
        await world.set_sweeper({"running": {}})
        (world.directory / FILE_NAME).unlink()
        world.transport.begin(faults)
        world.transport.after_write = check_invariants(world)
        assert await played(world, story(world)) is Exit.ACKNOWLEDGED
        assert await world.end_state() == state

    for number in range(1, count + 1):
        play(scenario([Fault(number, before, killed)]))
    # and one after another, which meets the writes that only a repair makes
    for number in range(1, count):
        play(scenario([Fault(number, before, killed), Fault(number + 1, before, killed)]))
    play(scenario([Fault(number, before, killed) for number in range(1, 3 * count, 3)]))
