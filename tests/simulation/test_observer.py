"""What the observer reports, one rule at a time, and what it lets pass. The cluster's own parts stand still here."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dgdr_retune.api import ACCEPTED, COMPLETED, RUN_UID_LABEL, claim_finalizer
from dgdr_retune.testing import Observer, Response, VirtualLoop, World
from dgdr_retune.testing._exchange import Action, Exchange
from dgdr_retune.testing._observer import FRESH_S, STOP_WITHIN_S
from dgdr_retune.testing._part import CLAIMS, JOBS, PODS, REQUESTS, RUNS
from dgdr_retune.testing._stage import specification
from dgdr_retune.testing._store import Key
from dgdr_retune.testing._world import NAMESPACE

Json = Any

TIME = "2026-01-01T00:00:00Z"
OPERATOR = "operator-a1"


class Scene:
    """A Request with its Run on a claim, people, and an operator that does as it is told."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.world = World(loop, seed=0)
        self.people = self.world.access("people")
        self.operator = self.world.access(OPERATOR)
        self.time_s = 0.0
        self.observer = Observer(self.world.server.store, lambda: self.time_s, lambda actor: actor == OPERATOR)
        self.world.server.store.listen(lambda write: self.observer.saw(write, self.world.desk.actor))
        self.people.create(CLAIMS, NAMESPACE, {"metadata": {"name": "traces"}})
        self.request = self.people.create(
            REQUESTS, NAMESPACE, {"metadata": {"name": "demo"}, "spec": specification("traces")}
        )
        self.run = self.new_run("demo-run-1")

    def new_run(self, name: str) -> Json:
        owner = self.owner("DynamoGraphDeploymentRequest", self.request)
        metadata = {"name": name, "ownerReferences": [owner]}
        return self.operator.create(RUNS, NAMESPACE, {"metadata": metadata, "spec": specification("traces")})

    def new_job(self, name: str = "demo-run-1") -> Json:
        volume = {"name": "trace", "persistentVolumeClaim": {"claimName": "traces"}}
        labels = {RUN_UID_LABEL: self.uid}
        metadata = {
            "name": name,
            "labels": labels,
            "ownerReferences": [self.owner("DynamoGraphDeploymentRun", self.run)],
        }
        template = {"metadata": {"labels": labels}, "spec": {"containers": [], "volumes": [volume]}}
        body = {"metadata": metadata, "spec": {"backoffLimit": 0, "template": template}}
        return self.operator.create(JOBS, NAMESPACE, body)

    def new_pod(self) -> None:
        self.people.create(PODS, NAMESPACE, {"metadata": {"name": "pod", "labels": {RUN_UID_LABEL: self.uid}}})

    @property
    def uid(self) -> str:
        return str(self.run["metadata"]["uid"])

    @staticmethod
    def owner(kind: str, of: Json) -> Json:
        metadata = of["metadata"]
        return {
            "apiVersion": of["apiVersion"],
            "kind": kind,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }

    def hold(self, *more: str) -> None:
        held = ["kubernetes.io/pvc-protection", claim_finalizer(self.uid), *more]
        self.operator.patch(key(CLAIMS, "traces"), {"metadata": {"finalizers": held}})

    def release(self) -> None:
        self.operator.patch(key(CLAIMS, "traces"), {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}})

    def complete(self, reason: str, status: str = "True") -> None:
        condition = {
            "type": COMPLETED,
            "status": status,
            "reason": reason,
            "message": "",
            "lastTransitionTime": TIME,
        }
        self.operator.patch(key(RUNS, "demo-run-1"), {"status": {"conditions": [condition]}}, "status")

    def finish_job(self, type_: str = "Complete") -> None:
        conditions = [{"type": type_, "status": "True"}]
        self.people.patch(key(JOBS, "demo-run-1"), {"status": {"conditions": conditions}}, "status")

    def hear(self, verb: str, resource: str, body: Json, subresource: str = "", answer: Json = None) -> None:
        action = Action(verb, resource, NAMESPACE, "x", subresource)
        self.observer.heard(Exchange(OPERATOR, action, body, Response(200, answer or {"metadata": {"uid": "u"}})))

    @property
    def rules(self) -> list[str]:
        return [problem.rule for problem in self.observer.problems]


def key(resource: str, name: str) -> Key:
    return Key(resource, NAMESPACE, name)


@pytest.fixture
def scene() -> Iterator[Scene]:
    with VirtualLoop() as loop:
        yield Scene(loop)


def test_a_run_that_is_held_worked_on_finished_and_let_go_breaks_nothing(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.complete("EvaluatingCandidates", "False")
    scene.finish_job()
    scene.complete("SearchSucceeded")
    scene.release()
    scene.new_run("demo-run-2")
    assert scene.rules == []


def _no_hold(scene: Scene) -> None:
    scene.new_job()


def _no_claim(scene: Scene) -> None:
    scene.people.patch(key(CLAIMS, "traces"), {"metadata": {"finalizers": []}})
    scene.people.delete(key(CLAIMS, "traces"))
    scene.new_job()


def _dead_claim(scene: Scene) -> None:
    scene.hold()
    scene.people.delete(key(CLAIMS, "traces"))
    scene.new_job()


def _dead_claim_said_alive_long_ago(scene: Scene) -> None:
    scene.hold()
    scene.hear("get", CLAIMS, None, answer=scene.people.get(key(CLAIMS, "traces")))
    scene.people.delete(key(CLAIMS, "traces"))
    scene.time_s = FRESH_S + 1
    scene.new_job()


def _release_while_the_job_runs(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.release()


def _release_before_the_pod_of_a_gone_run_is_gone(scene: Scene) -> None:
    scene.hold()
    scene.new_pod()
    scene.people.delete(key(RUNS, "demo-run-1"))
    scene.release()


def _release_with_a_finished_job_of_a_run_that_is_long_gone(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.finish_job()
    scene.complete("SearchSucceeded")
    scene.people.delete(key(RUNS, "demo-run-1"))
    scene.time_s = FRESH_S + 1
    scene.release()


def _terminal_changed(scene: Scene) -> None:
    scene.complete("SearchFailed")
    scene.complete("Superseded")


def _stopped_early(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.complete("TraceSourceDeleted")


def _success_without_a_job(scene: Scene) -> None:
    scene.complete("SearchSucceeded")


def _finished_job_deleted(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.finish_job("Failed")
    scene.operator.delete(key(JOBS, "demo-run-1"))


def _second_run(scene: Scene) -> None:
    scene.new_run("demo-run-2")


def _foreign_finalizer_taken(scene: Scene) -> None:
    scene.people.patch(key(CLAIMS, "traces"), {"metadata": {"finalizers": ["example.com/other"]}})
    scene.operator.patch(key(CLAIMS, "traces"), {"metadata": {"finalizers": []}})


def _foreign_finalizer_put(scene: Scene) -> None:
    scene.hold("example.com/other")


def _claim_labelled(scene: Scene) -> None:
    scene.operator.patch(key(CLAIMS, "traces"), {"metadata": {"labels": {"a": "b"}}})


def _foreign_object(scene: Scene) -> None:
    job = scene.people.create(JOBS, NAMESPACE, {"metadata": {"name": "other"}, "spec": {"template": {"spec": {}}}})
    scene.observer.foreign[job["metadata"]["uid"]] = "other"
    scene.operator.delete(key(JOBS, "other"))


def _foreign_job_adopted(scene: Scene) -> None:
    scene.people.create(JOBS, NAMESPACE, {"metadata": {"name": "other"}, "spec": {"template": {"spec": {}}}})
    scene.operator.patch(key(RUNS, "demo-run-1"), {"status": {"jobRef": {"name": "other"}}}, "status")


def _foreign_run_adopted(scene: Scene) -> None:
    scene.people.patch(key(RUNS, "demo-run-1"), {"metadata": {"ownerReferences": []}})
    condition = {"type": ACCEPTED, "status": "True", "reason": "RunCreated", "message": ""}
    times = {"lastTransitionTime": TIME, "observedGeneration": 1}
    scene.operator.patch(key(REQUESTS, "demo"), {"status": {"conditions": [{**condition, **times}]}}, "status")


def _not_stopped(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.people.delete(key(CLAIMS, "traces"))
    for _ in range(3):
        scene.observer.pass_time(STOP_WITHIN_S / 2)


@pytest.mark.parametrize(
    ("rule", "act"),
    [
        ("no-finalizer", _no_hold),
        ("no-finalizer", _no_claim),
        ("dead-claim", _dead_claim),
        ("dead-claim", _dead_claim_said_alive_long_ago),
        ("early-release", _release_while_the_job_runs),
        ("early-release", _release_before_the_pod_of_a_gone_run_is_gone),
        ("early-release", _release_with_a_finished_job_of_a_run_that_is_long_gone),
        ("terminal-changed", _terminal_changed),
        ("completed-early", _stopped_early),
        ("completed-early", _success_without_a_job),
        ("stale-stop", _finished_job_deleted),
        ("second-run", _second_run),
        ("foreign-finalizer", _foreign_finalizer_taken),
        ("foreign-finalizer", _foreign_finalizer_put),
        ("claim-write", _claim_labelled),
        ("foreign-object", _foreign_object),
        ("adopted", _foreign_job_adopted),
        ("adopted", _foreign_run_adopted),
        ("not-stopped", _not_stopped),
    ],
)
def test_what_must_never_be_is_reported_once(scene: Scene, rule: str, act: Callable[[Scene], None]) -> None:
    act(scene)
    assert scene.rules == [rule]


def test_a_run_succeeded_whose_complete_job_was_deleted_a_moment_ago(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.finish_job()
    scene.people.delete(key(JOBS, "demo-run-1"), "Background")
    scene.complete("SearchSucceeded")
    assert scene.rules == []


def test_a_job_may_be_on_its_way_when_its_claim_is_deleted(scene: Scene) -> None:
    scene.hold()
    scene.hear("get", CLAIMS, None, answer=scene.people.get(key(CLAIMS, "traces")))
    scene.people.delete(key(CLAIMS, "traces"))
    scene.new_job()
    assert scene.rules == []


def test_a_release_may_be_on_its_way_when_its_run_is_deleted(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.new_pod()
    scene.finish_job()
    scene.complete("SearchSucceeded")
    scene.people.delete(key(RUNS, "demo-run-1"))
    scene.release()
    assert scene.rules == []


def test_a_run_may_name_its_job_when_somebody_has_taken_the_owner_reference_away(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.operator.patch(key(RUNS, "demo-run-1"), {"status": {"jobRef": {"name": "demo-run-1"}}}, "status")
    scene.people.patch(key(JOBS, "demo-run-1"), {"metadata": {"ownerReferences": []}})
    scene.complete("Stopping", "False")
    assert scene.rules == []


def test_a_finished_job_of_a_run_that_is_gone_may_be_deleted(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.finish_job()
    scene.people.delete(key(RUNS, "demo-run-1"))
    scene.operator.delete(key(JOBS, "demo-run-1"))
    assert scene.rules == []


def test_a_job_that_is_being_stopped_is_not_overdue(scene: Scene) -> None:
    scene.hold()
    scene.new_job()
    scene.people.delete(key(CLAIMS, "traces"))
    scene.observer.pass_time(STOP_WITHIN_S - 1)
    scene.operator.delete(key(JOBS, "demo-run-1"), "Foreground")
    scene.observer.pass_time(STOP_WITHIN_S)
    assert scene.rules == []


FENCED = {"metadata": {"resourceVersion": "1"}}
UID = {"preconditions": {"uid": "u"}, "propagationPolicy": "Foreground"}


@pytest.mark.parametrize(
    ("call", "body", "rules"),
    [
        (("patch", RUNS, "status"), FENCED, []),
        (("patch", RUNS, "status"), {"status": {}}, ["unfenced-write"]),
        (("patch", REQUESTS, "status"), {"metadata": {}}, ["unfenced-write"]),
        (("patch", CLAIMS, ""), {"metadata": {"finalizers": []}}, ["unfenced-write"]),
        (("patch", CLAIMS, ""), [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}], []),
        (("patch", CLAIMS, ""), [{"op": "add", "path": "/metadata/finalizers/-", "value": "x"}], ["unfenced-write"]),
        (("update", CLAIMS, ""), FENCED, ["claim-write"]),
        (("patch", PODS, ""), FENCED, ["pod-write"]),
        (("delete", JOBS, ""), UID, []),
        (("delete", JOBS, ""), {"propagationPolicy": "Foreground"}, ["unguarded-delete"]),
        (("delete", JOBS, ""), {"preconditions": {"uid": "u"}}, ["unguarded-delete"]),
        (("get", JOBS, ""), None, []),
    ],
)
def test_calls_are_fenced_and_guarded(scene: Scene, call: tuple[str, str, str], body: Json, rules: list[str]) -> None:
    verb, resource, subresource = call
    scene.hear(verb, resource, body, subresource)
    assert scene.rules == rules
