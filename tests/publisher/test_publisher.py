"""What one publisher writes, and how it ends, on a simulated server."""

from typing import Any

import pytest
from tests.publisher.conftest import Play
from tests.publisher.playing import named, played
from tests.publisher.snapshots import SERVICE, candidate, deployment, manifest, snapshot, unmaterialized
from tests.publisher.world import CONDITION, NAMESPACE, POD, RUN, World, body

from dgdr_retune.api import ADDITIONAL_RESOURCES_ANNOTATION, SNAPSHOT_FILE
from dgdr_retune.kube import Call
from dgdr_retune.publisher._act import CANDIDATES, RUNS
from dgdr_retune.publisher._errors import Exit

Json = Any


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
                (20.5, (world.directory / SNAPSHOT_FILE).unlink),
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
