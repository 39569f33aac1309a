"""The Request controller's table: reservation, creation, acceptance, refusal, conflict, supersession, history."""

import pytest
from attrs import evolve
from tests.controllers.decide_model import CONFIGURATION, SPEC, STATIC_SPEC, World

from dgdr_retune.api import MAX_DEPTH, REPLICATIONS_ANNOTATION, Condition, merge_condition, spec_digest
from dgdr_retune.controllers._actions import CreateRun, DeleteRun, EmitEvent, PatchRequestStatus
from dgdr_retune.controllers._decision import NOTHING, Decision
from dgdr_retune.controllers._observation import Read, RequestObservation
from dgdr_retune.controllers._request import decide_request

KEY = ("request", "a")


def asked(spec: dict[str, object] = SPEC) -> World:
    world = World()
    world.create_request("a", spec)
    world.catch_up()
    return world


def step(world: World) -> Decision:
    decision = world.step(KEY)
    world.catch_up()
    return decision


def kinds(decision: Decision) -> list[type]:
    return [type(action) for action in decision.actions]


def accepted(world: World) -> tuple[str, str]:
    condition = world.get("request", "a").conditions[0]
    return condition.status, condition.reason


def end(world: World, name: str) -> None:
    """The Run is done."""
    run = world.get("run", name)
    condition = succeeded(world)
    world.put("run", evolve(run, status=evolve(run.status, conditions=merge_condition((), condition))))
    world.catch_up()


def succeeded(world: World) -> Condition:
    condition = world.get("request", "a").conditions[0]
    return condition.model_copy(update={"type": "Completed", "status": "True", "reason": "SearchSucceeded"})


def test_a_name_is_reserved_before_the_run_is_created_and_accepted_after() -> None:
    world = asked()
    assert kinds(step(world)) == [PatchRequestStatus]
    request = world.get("request", "a")
    assert (request.active_run, request.observed_generation, request.conditions) == ("a-run-1", 0, ())
    assert kinds(step(world)) == [CreateRun]
    assert kinds(step(world)) == [PatchRequestStatus, EmitEvent]
    request = world.get("request", "a")
    assert (request.active_run, request.observed_generation) == ("a-run-1", 1)
    assert accepted(world) == ("True", "RunCreated")
    assert step(world) == NOTHING


def test_a_run_copies_its_request() -> None:
    world = asked()
    request = world.get("request", "a")
    noted = {REPLICATIONS_ANNOTATION: "3", "example.com/note": "not ours to copy"}
    stored = {**request.object, "metadata": {**request.object["metadata"], "annotations": noted}}
    world.put("request", evolve(request, object=stored))
    world.catch_up()
    step(world)
    (create,) = world.decide(KEY).actions
    metadata = create.body["metadata"]
    assert metadata["annotations"] == {
        "nvidia.com/dgdr-request-name": "a",
        "nvidia.com/dgdr-request-uid": request.ref.uid,
        "nvidia.com/dgdr-request-generation": "1",
        "nvidia.com/dgdr-input-hash": spec_digest(create.body["spec"]),
        REPLICATIONS_ANNOTATION: "3",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (request.ref.uid, True)
    assert create.body["spec"]["workload"]["trace"] == SPEC["workload"]["trace"]


def test_a_request_without_a_workload_gets_a_run_that_has_one() -> None:
    world = asked({name: value for name, value in STATIC_SPEC.items() if name != "workload"})
    step(world)
    (create,) = world.decide(KEY).actions
    assert create.body["spec"]["workload"] == {"static": {"isl": 1024, "osl": 128, "concurrency": 10}}


def test_a_run_is_created_on_what_the_server_shows_and_on_nothing_else() -> None:
    world = asked()
    step(world)
    decision = decide_request(world.observe(KEY), CONFIGURATION, world.now)
    assert decision == Decision(reads=frozenset({Read.REQUEST, Read.RUNS}))


def test_a_run_that_the_cache_does_not_show_is_not_created_twice() -> None:
    world = asked()
    step(world)
    step(world)
    world.forget("run", 1)
    assert CreateRun not in kinds(world.decide(KEY))


def test_nothing_is_created_for_a_request_on_its_way_out() -> None:
    world = asked()
    step(world)
    world.put("request", evolve(world.get("request", "a"), deleting=True))  # which the caches have not seen yet
    assert world.decide(KEY) == NOTHING
    assert decide_request(RequestObservation(request=None), CONFIGURATION, world.now) == NOTHING


def test_metadata_alone_creates_nothing() -> None:
    world = asked()
    world.settle()
    world.put("request", world.get("request", "a"))
    world.catch_up()
    assert world.decide(KEY) == NOTHING


def test_an_invalid_run_is_reported_once_and_not_reserved_again() -> None:
    world = asked()
    world.refuses_runs = True
    world.settle()
    request = world.get("request", "a")
    assert (request.active_run, request.observed_generation) == ("", 1)
    assert accepted(world) == ("False", "InvalidSpec")
    assert "refused by a rule" in request.conditions[0].message
    assert world.decide(KEY) == NOTHING
    world.edit_request("a", STATIC_SPEC)
    world.refuses_runs = False
    world.settle()
    assert accepted(world) == ("True", "RunCreated")


def test_what_nests_too_deeply_for_a_run_is_reported_and_not_reserved() -> None:
    deep: dict[str, object] = {}
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}
    world = asked({**SPEC, "aisimulate": {"inputOverrides": deep}})
    world.settle()
    request = world.get("request", "a")
    assert (request.active_run, request.observed_generation) == ("", 1)
    assert accepted(world) == ("False", "InvalidSpec")
    assert "nested" in request.conditions[0].message
    assert world.decide(KEY) == NOTHING


def test_a_refusal_of_an_older_generation_says_nothing_about_a_newer_one() -> None:
    world = asked()
    world.refuses_runs = True
    step(world)
    step(world)
    world.refuses_runs = False
    world.edit_request("a", STATIC_SPEC)
    world.settle()
    assert accepted(world) == ("True", "RunCreated")


def test_a_run_that_is_not_ours_is_a_conflict_and_looked_at_again() -> None:
    world = asked()
    world.create_foreign_run("a-run-1")
    world.settle()
    request = world.get("request", "a")
    assert accepted(world) == ("False", "RunNameConflict")
    assert (request.active_run, request.observed_generation) == ("", 0)
    assert world.decide(KEY) == Decision(look_again_s=30.0)
    world.drop("run", "a-run-1")
    world.settle()
    assert accepted(world) == ("True", "RunCreated")


@pytest.mark.parametrize("changes", [{"generation": 7}, {"generation": 0}, {"request_uid": "another"}])
def test_ours_is_what_this_request_controls_for_this_generation(changes: dict[str, object]) -> None:
    world = asked()
    step(world)
    step(world)
    world.put("run", evolve(world.get("run", "a-run-1"), **changes))
    world.settle()
    assert accepted(world) == ("False", "RunNameConflict")


def test_a_run_that_a_crash_left_unaccepted_is_adopted() -> None:
    world = asked()
    step(world)
    step(world)
    world.refused.clear()
    assert kinds(step(world)) == [PatchRequestStatus, EmitEvent]
    assert len(world.objects["run"]) == 1


def test_a_newer_generation_waits_for_the_open_run() -> None:
    world = asked()
    for _ in range(3):
        step(world)
    world.edit_request("a", STATIC_SPEC)
    world.catch_up()
    assert step(world) == NOTHING
    end(world, "a-run-1")
    assert kinds(step(world)) == [PatchRequestStatus]
    request = world.get("request", "a")
    assert (request.active_run, request.recent_runs) == ("a-run-2", ("a-run-1",))
    assert kinds(step(world)) == [CreateRun]


def test_a_reservation_that_was_never_used_gives_way_once_the_server_shows_no_run() -> None:
    world = asked()
    step(world)
    world.edit_request("a", STATIC_SPEC)
    world.catch_up()
    assert decide_request(world.observe(KEY), CONFIGURATION, world.now).reads == {Read.REQUEST, Read.RUNS}
    step(world)
    assert world.get("request", "a").active_run == "a-run-2"


def test_an_open_run_that_the_cache_does_not_show_keeps_its_reservation() -> None:
    world = asked()
    step(world)
    step(world)
    world.edit_request("a", STATIC_SPEC)
    world.catch_up()
    world.forget("run", 1)
    world.step(KEY)
    assert world.get("request", "a").active_run == "a-run-1"


def test_a_run_that_people_delete_is_not_created_again() -> None:
    world = asked()
    for _ in range(3):
        step(world)
    world.delete("run", "a-run-1")
    world.settle()
    request = world.get("request", "a")
    assert (request.active_run, request.recent_runs) == ("", ())
    assert not world.objects["run"]


def test_history_is_short_newest_first_and_the_rest_is_deleted() -> None:
    world = asked()
    for generation in range(1, 13):
        for _ in range(4):
            step(world)
        end(world, f"a-run-{generation}")
        step(world)
        world.edit_request("a", SPEC)
        world.catch_up()
    assert world.get("request", "a").recent_runs == ("a-run-12", "a-run-11")
    assert sorted(world.objects["run"]) == ["a-run-11", "a-run-12"]


def test_the_status_lets_go_of_a_run_before_it_is_deleted() -> None:
    world = asked()
    for generation in (1, 2):
        for _ in range(4):
            step(world)
        end(world, f"a-run-{generation}")
        world.edit_request("a", SPEC)
        world.catch_up()
    for _ in range(4):
        step(world)
    end(world, "a-run-3")
    decision = world.decide(KEY)
    assert kinds(decision) == [PatchRequestStatus, DeleteRun]
    assert decision.actions[1].run.name == "a-run-1"


def test_a_status_that_was_wiped_is_written_again_from_the_runs() -> None:
    world = asked()
    for _ in range(3):
        step(world)
    before = world.get("request", "a")
    world.put("request", evolve(before, active_run="", observed_generation=0, conditions=()))
    world.settle()
    after = world.get("request", "a")
    assert (after.active_run, after.observed_generation) == ("a-run-1", 1)
    assert len(world.objects["run"]) == 1
