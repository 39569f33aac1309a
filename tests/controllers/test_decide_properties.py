"""Whatever people, the cluster, stale caches and crashes do, every write keeps the rules that the model asserts."""

from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.controllers.decide_model import BAD_SPEC, CLAIM, SPEC, STATIC_SPEC, Key, World

from dgdr_retune.api import claim_finalizer, is_claim_finalizer

REQUESTS = ("a", "b")
SPECS = (SPEC, SPEC, STATIC_SPEC, BAD_SPEC)
STALE = st.dictionaries(st.sampled_from(["request", "run", "claim", "job", "pod"]), st.integers(1, 3), max_size=3)
"""How many events each cache is behind in what others did, or another operator before this one."""


class Controllers(RuleBasedStateMachine):
    """Passes of the three controllers, interleaved with everything else; a pass is cut off anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.under_way: dict[Key, list[object]] = {}

    @initialize(jobs=st.sampled_from([0, 1, 2]))
    def some_jobs_run(self, jobs: int) -> None:
        if jobs:
            self.world.create_claim()
        for name in REQUESTS[:jobs]:
            self.world.create_request(name)
        self.world.settle()
        for job in tuple(self.world.objects["job"].values()):
            self.world.start_pod(job)

    def pick(self, data: st.DataObject, kind: str, **attributes: object) -> str | None:
        names = sorted(
            name
            for name, each in self.world.objects[kind].items()
            if all(getattr(each, attribute) == value for attribute, value in attributes.items())
        )
        return data.draw(st.sampled_from(names)) if names else None

    # The controllers

    @rule(data=st.data(), stale=STALE)
    def begin(self, data: st.DataObject, stale: dict[str, int]) -> None:
        idle = [key for key in self.world.due() if key not in self.under_way]
        if idle:
            key = data.draw(st.sampled_from(idle))
            self.fall_behind(stale)
            self.under_way[key] = list(self.world.decide(key).actions)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), how_many=st.integers(1, 6))
    def go_on(self, data: st.DataObject, how_many: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.under_way)))
        for _ in range(how_many):
            actions = self.under_way[key]
            if not actions or not self.world.perform(key, actions.pop(0)):
                del self.under_way[key]
                return

    @rule(data=st.data(), stale=STALE)
    def whole_pass(self, data: st.DataObject, stale: dict[str, int]) -> None:
        idle = [key for key in self.world.due() if key not in self.under_way]
        if idle:
            key = data.draw(st.sampled_from(idle))
            self.fall_behind(stale)
            self.world.step(key)

    def fall_behind(self, stale: dict[str, int]) -> None:
        self.world.catch_up()
        for kind, events in stale.items():
            self.world.forget(kind, events)

    @rule()
    def work_until_nothing_is_left_to_do(self) -> None:
        self.under_way.clear()
        self.world.settle()
        self.world.must_be_safe()

    @rule()
    def crash_and_restart(self) -> None:
        self.under_way.clear()
        self.world.refused.clear()

    # People

    @rule(name=st.sampled_from(REQUESTS), spec=st.sampled_from(SPECS))
    def ask(self, name: str, spec: dict[str, object]) -> None:
        if self.world.get("request", name) is None:
            self.world.create_request(name, spec)
        else:
            self.world.edit_request(name, spec)

    @rule(data=st.data(), kind=st.sampled_from(["request", "run"]), how=st.sampled_from(["at once", "held", "orphan"]))
    def delete(self, data: st.DataObject, kind: str, how: str) -> None:
        if (name := self.pick(data, kind, deleting=False)) is None:
            return
        if how == "held":
            self.world.hold(kind, name)
        (self.world.orphan if how == "orphan" else self.world.delete)(kind, name)

    @rule(data=st.data(), kind=st.sampled_from(["request", "run"]))
    def finish_a_deletion(self, data: st.DataObject, kind: str) -> None:
        if (name := self.pick(data, kind, deleting=True)) is not None:
            self.world.let_go(kind, name)

    @rule(data=st.data())
    def take_the_owner_of_a_job_away(self, data: st.DataObject) -> None:
        if (name := self.pick(data, "job")) is not None and self.world.get("job", name).controller_uid != "somebody":
            self.world.take_owner_away(name)

    @rule(data=st.data(), at_once=st.booleans())
    def delete_job(self, data: st.DataObject, at_once: bool) -> None:  # noqa: FBT001 - hypothesis names it
        if (name := self.pick(data, "job")) is not None:
            self.world.delete_job(name, at_once=at_once)

    @rule(state=st.sampled_from([{}, {}, {}, {"block": True}, {"lost": True}]))
    def create_claim(self, state: dict[str, bool]) -> None:
        if self.world.get("claim", CLAIM) is None:
            self.world.create_claim(**state)

    @precondition(lambda self: self.world.get("claim", CLAIM) is not None)
    @rule()
    def delete_claim(self) -> None:
        self.world.delete_claim()

    @precondition(lambda self: self.world.get("claim", CLAIM) is not None and not self.under_way)
    @rule()
    def tear_the_claim_away(self) -> None:
        self.world.drop("claim", CLAIM)

    @rule(name=st.sampled_from(REQUESTS), kind=st.sampled_from(["job", "run"]))
    def take_a_name(self, name: str, kind: str) -> None:
        if self.world.get(kind, f"{name}-run-1") is None:
            (self.world.create_foreign_job if kind == "job" else self.world.create_foreign_run)(f"{name}-run-1")

    @rule(runs=st.booleans(), jobs=st.booleans())
    def refuse(self, runs: bool, jobs: bool) -> None:  # noqa: FBT001 - hypothesis names them
        self.world.refuses_runs, self.world.refuses_jobs = runs, jobs

    # The cluster

    @rule(minutes=st.integers(1, 11))
    def time_passes(self, minutes: int) -> None:
        self.world.now += timedelta(minutes=minutes)

    @rule(data=st.data(), waiting=st.sampled_from(["", "ImagePullBackOff", "ContainerCreating"]))
    def a_pod_changes(self, data: st.DataObject, waiting: str) -> None:
        if (name := self.pick(data, "job", deleted_at=None, end=None)) is None:
            return
        if self.world.get("pod", f"{name}-pod") is None:
            self.world.start_pod(self.world.get("job", name))
        self.world.set_containers(f"{name}-pod", waiting_reason=waiting, started=not waiting)

    @rule(data=st.data(), succeeded=st.booleans())
    def a_job_ends(self, data: st.DataObject, succeeded: bool) -> None:  # noqa: FBT001 - hypothesis names it
        if (name := self.pick(data, "job", end=None)) is not None:
            self.world.end_job(name, succeeded=succeeded)

    @rule(data=st.data())
    def the_kubelet_removes_a_pod(self, data: st.DataObject) -> None:
        if (name := self.pick(data, "pod", deleting=True)) is not None:
            self.world.kubelet_removes(name)

    # What must hold

    @invariant()
    def no_condition_is_lost(self) -> None:
        for run in self.world.objects["run"].values():
            assert len(run.status.conditions) <= 1

    def teardown(self) -> None:
        """With a cluster that works, everything comes to its end and lets go."""
        self.under_way.clear()
        self.world.refused.clear()
        self.world.refuses_runs = self.world.refuses_jobs = False
        for kind in ("job", "run"):
            for each in tuple(self.world.objects[kind].values()):
                if getattr(each, "controller_uid", getattr(each, "request_uid", "")) in ("somebody", "another"):
                    self.world.drop(kind, each.ref.name)
        for _ in range(20):
            self.world.settle()
            self.world.must_be_safe()
            if not self._deletion_ends() and not self._cluster_goes_on():
                break
        self.world.must_be_safe()
        held = self.world.objects["claim"].get(CLAIM)
        runs = {claim_finalizer(run.ref.uid): run for run in self.world.objects["run"].values()}
        for finalizer in filter(is_claim_finalizer, held.finalizers if held is not None else ()):
            assert not runs[finalizer].is_done, "nothing holds the claim for ever"
        for run in runs.values():
            assert run.is_done or not run.request_uid, "every Run comes to its end, but an orphan that never had a Job"

    def _deletion_ends(self) -> bool:
        for kind in ("request", "run"):
            for each in tuple(self.world.objects[kind].values()):
                if each.deleting:
                    self.world.let_go(kind, each.ref.name)
                    return True
        return False

    def _cluster_goes_on(self) -> bool:
        """The next thing that the cluster does when nothing is in its way; False if there is none."""
        world = self.world
        for pod in tuple(world.objects["pod"].values()):
            if pod.deleting:
                world.kubelet_removes(pod.ref.name)
                return True
        for job in tuple(world.objects["job"].values()):
            if job.end is None and job.deleted_at is None:
                world.end_job(job.ref.name, succeeded=True)
                return True
        for job in tuple(world.objects["job"].values()):
            if not job.controller_uid:  # an orphan that holds no claim, but a name: people clean up after themselves
                world.delete_job(job.ref.name, at_once=True)
                return True
        if world.get("claim", CLAIM) is None and not all(run.is_done for run in world.objects["run"].values()):
            world.create_claim()
            return True
        return False


Controllers.TestCase.settings = settings(
    deadline=None, max_examples=300, stateful_step_count=50, suppress_health_check=list(HealthCheck)
)
TestEveryReachableObservation = Controllers.TestCase
