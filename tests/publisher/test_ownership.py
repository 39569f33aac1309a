"""Candidates that are there already: finished, unfinished, going, or somebody else's."""

from typing import Any

import pytest
from tests.publisher.conftest import Play
from tests.publisher.playing import named, played
from tests.publisher.snapshots import candidate, deployment, manifest, snapshot
from tests.publisher.world import NAMESPACE, RUN, Fault, World, body, stamp

from dgdr_retune.publisher._act import CANDIDATES
from dgdr_retune.publisher._errors import Exit

Json = Any


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
