"""A world of values: what a decision's actions make of it, and what everybody else may do to it.

One namespace. Every kind has its history, so that a cache may be behind in one kind and not in another; actions are
fenced as the API server fences them. What must hold is asserted with every write that a controller makes.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from attrs import define, evolve, field

from dgdr_retune.api import claim_finalizer, is_claim_finalizer, label_value
from dgdr_retune.controllers import Configuration
from dgdr_retune.controllers._actions import (
    CLAIM_UID_ANNOTATION,
    Action,
    CreateJob,
    CreateRoleBinding,
    CreateRun,
    CreateServiceAccount,
    DeleteJob,
    DeleteRun,
    EmitEvent,
    PatchClaimFinalizers,
    PatchRequestStatus,
    PatchRunFailure,
    PatchRunStatus,
)
from dgdr_retune.controllers._claim import decide_claim
from dgdr_retune.controllers._decision import Decision
from dgdr_retune.controllers._observation import (
    Access,
    ClaimObservation,
    ClaimState,
    ContainerState,
    JobEnd,
    JobState,
    PodState,
    Read,
    Ref,
    Refusal,
    RequestObservation,
    RequestState,
    RunObservation,
    RunState,
)
from dgdr_retune.controllers._request import decide_request
from dgdr_retune.controllers._run import decide_run

NAMESPACE = "ns"
CLAIM = "request-traces"
FOREIGN_FINALIZER = "kubernetes.io/pvc-protection"
CONFIGURATION = Configuration(
    sweeper_image="registry.example/sweeper:1",
    publisher_image="registry.example/publisher:1",
    runtime_image="registry.example/vllm-runtime:1.6.1",
    history_limit=2,
    start_deadline_s=600.0,
    jobs_per_namespace=2,
)
SPEC = json.loads((Path(__file__).parents[1] / "data" / "trace_request_lowering.golden.json").read_text())["request"][
    "spec"
]
STATIC_SPEC = {**SPEC, "workload": {"static": {"isl": 1024, "osl": 128, "concurrency": 10}}}
BAD_SPEC = {**SPEC, "objective": {"mode": "Pareto", "metrics": ["Throughput", "TTFT"]}}
"""One that the API stores and that cannot be lowered."""
EPOCH = datetime(2026, 10, 1, 12, tzinfo=UTC)

Kind = str
Hold = Literal["somebody", "orphan"]
Snapshot = Mapping[str, Any]
Key = tuple[Kind, str]
"""`request`, `run` or `claim`, and a name."""


@define
class World:
    """The server's truth, a lagging view of it, and the rules that every write must keep."""

    now: datetime = EPOCH
    version: int = 0
    objects: dict[Kind, dict[str, Any]] = field(
        factory=lambda: {"request": {}, "run": {}, "claim": {}, "job": {}, "pod": {}}
    )
    history: dict[Kind, list[Snapshot]] = field(
        factory=lambda: {"request": [{}], "run": [{}], "claim": [{}], "job": [{}], "pod": [{}]}
    )
    seen_up_to: dict[Kind, int] = field(factory=lambda: {"request": 0, "run": 0, "claim": 0, "job": 0, "pod": 0})
    access: Access = field(factory=Access)
    refused: dict[Key, Refusal] = field(factory=dict)
    refuses_runs: bool = False
    refuses_jobs: bool = False
    released: set[str] = field(factory=set)
    holds: dict[str, Hold] = field(factory=dict)
    """By UID: whose finalizer keeps a Request or a Run that is deleted."""

    # What everybody sees

    def get(self, kind: Kind, name: str) -> Any:
        return self.objects[kind].get(name)

    def of_uid(self, kind: Kind, uid: str) -> Any:
        return next((each for each in self.objects[kind].values() if each.ref.uid == uid), None)

    def cached(self, kind: Kind) -> Snapshot:
        return self.history[kind][self.seen_up_to[kind]]

    def catch_up(self, *kinds: Kind) -> None:
        for kind in kinds or tuple(self.history):
            self.seen_up_to[kind] = len(self.history[kind]) - 1

    def forget(self, kind: Kind, events: int) -> None:
        """Be this many events behind."""
        self.seen_up_to[kind] = max(len(self.history[kind]) - 1 - events, 0)

    # Writes

    def fresh_ref(self, name: str) -> Ref:
        self.version += 1
        return Ref(NAMESPACE, name, f"uid-{self.version}", str(self.version))

    def put(self, kind: Kind, of: Any) -> None:
        """Store an object in a new version."""
        self.version += 1
        self.objects[kind][of.ref.name] = evolve(of, ref=evolve(of.ref, resource_version=str(self.version)))
        self.history[kind].append(dict(self.objects[kind]))

    def drop(self, kind: Kind, name: str) -> None:
        del self.objects[kind][name]
        self.history[kind].append(dict(self.objects[kind]))

    # What people do

    def create_request(self, name: str, spec: Mapping[str, Any] = SPEC) -> None:
        ref = self.fresh_ref(name)
        self.put("request", RequestState(ref=ref, object=_request_object(ref, spec, 1), generation=1))

    def edit_request(self, name: str, spec: Mapping[str, Any]) -> None:
        request = self.get("request", name)
        generation = request.generation + 1
        self.put(
            "request", evolve(request, generation=generation, object=_request_object(request.ref, spec, generation))
        )

    def create_claim(self, **state: Any) -> None:
        state.setdefault("finalizers", (FOREIGN_FINALIZER,))
        self.put("claim", ClaimState(ref=self.fresh_ref(CLAIM), **state))

    def delete_claim(self) -> None:
        self.put("claim", evolve(self.get("claim", CLAIM), deleting=True))
        self.collect()

    def create_foreign_job(self, name: str) -> None:
        self.put("job", JobState(ref=self.fresh_ref(name), created_at=self.now, controller_uid="somebody"))

    def create_foreign_run(self, name: str) -> None:
        ref = self.fresh_ref(name)
        self.put("run", RunState(ref=ref, object=_run_object(ref, SPEC), request_uid="another", claim_name=CLAIM))

    def delete_job(self, name: str, *, at_once: bool = False) -> None:
        if at_once:
            self.drop("job", name)
        else:
            self.put("job", evolve(self.get("job", name), deleted_at=self.now))
        self.collect()

    def hold(self, kind: Kind, name: str) -> None:
        """Put a finalizer on a Request or a Run."""
        self.holds[self.get(kind, name).ref.uid] = "somebody"

    def delete(self, kind: Kind, name: str) -> None:
        """Delete a Request or a Run in the background: once it is gone, what it owned goes with the collection."""
        self._remove(kind, self.get(kind, name))
        self.collect()

    def orphan(self, kind: Kind, name: str) -> None:
        """Delete a Request or a Run and leave what it owned, as `--cascade=orphan` does; `let_go` ends it."""
        self.holds[self.get(kind, name).ref.uid] = "orphan"
        self.delete(kind, name)

    def let_go(self, kind: Kind, name: str) -> None:
        """Take the finalizer off a Request or a Run."""
        of = self.get(kind, name)
        if self.holds.pop(of.ref.uid) == "orphan":
            owned, owner = ("run", "request_uid") if kind == "request" else ("job", "controller_uid")
            for each in tuple(self.objects[owned].values()):
                if getattr(each, owner) == of.ref.uid:
                    self.put(owned, evolve(each, **{owner: ""}))
        if of.deleting:
            self.drop(kind, name)
        self.collect()

    def take_owner_away(self, job: str) -> None:
        """Remove a Job's owner reference."""
        self.put("job", evolve(self.get("job", job), controller_uid=""))

    def _remove(self, kind: Kind, of: Any) -> None:
        """Of a Request that stays the server makes a new generation, for a time of deletion is written on it."""
        if of.ref.uid not in self.holds:
            self.drop(kind, of.ref.name)
        elif not of.deleting and kind == "request":
            generation = of.generation + 1
            spec = of.object["spec"]
            self.put(
                kind,
                evolve(of, deleting=True, generation=generation, object=_request_object(of.ref, spec, generation)),
            )
        elif not of.deleting:
            self.put(kind, evolve(of, deleting=True))

    # What the cluster does

    def collect(self) -> None:
        """Garbage, foreground deletions and pvc-protection, as far as they go now."""
        before = None
        while before != self.version + sum(map(len, self.objects.values())):
            before = self.version + sum(map(len, self.objects.values()))
            self._collect_once()

    def _collect_once(self) -> None:
        for run in tuple(self.objects["run"].values()):
            if run.request_uid not in ("", "another") and self.of_uid("request", run.request_uid) is None:
                self._remove("run", run)
        for job in tuple(self.objects["job"].values()):
            self._collect_job(job)
        for pod in tuple(self.objects["pod"].values()):
            if self.of_uid("job", pod.controller_uid) is None:
                self._end_pods([pod])
        claim = self.get("claim", CLAIM)
        if claim is not None and claim.deleting:
            self._collect_claim(claim)

    def _collect_job(self, job: JobState) -> None:
        pods = [pod for pod in self.objects["pod"].values() if pod.controller_uid == job.ref.uid]
        if job.deleted_at is not None:
            self._end_pods(pods)
        is_orphan = job.controller_uid not in ("", "somebody") and self.of_uid("run", job.controller_uid) is None
        if is_orphan or (job.deleted_at is not None and not pods):
            self.drop("job", job.ref.name)

    def _collect_claim(self, claim: ClaimState) -> None:
        is_mounted = bool(self.objects["pod"])
        kept = tuple(each for each in claim.finalizers if is_mounted or each != FOREIGN_FINALIZER)
        if not kept:
            self.drop("claim", CLAIM)
        elif kept != claim.finalizers:
            self.put("claim", evolve(claim, finalizers=kept))

    def _end_pods(self, pods: list[PodState]) -> None:
        for pod in pods:
            if not pod.deleting:
                self.put("pod", evolve(pod, deleting=True))

    def kubelet_removes(self, name: str) -> None:
        """The last step of a Pod that is being deleted."""
        self.drop("pod", name)
        self.collect()

    def start_pod(self, job: JobState) -> None:
        containers = (ContainerState(name="sweeper"), ContainerState(name="publisher"))
        pod = PodState(
            ref=self.fresh_ref(f"{job.ref.name}-pod"),
            controller_uid=job.ref.uid,
            run_uid=job.run_uid,
            node="node-1",
            containers=containers,
        )
        self.put("pod", pod)

    def set_containers(self, name: str, **state: Any) -> None:
        pod = self.get("pod", name)
        self.put("pod", evolve(pod, containers=tuple(evolve(each, **state) for each in pod.containers)))

    def end_job(self, name: str, *, succeeded: bool) -> None:
        job = self.get("job", name)
        for pod in tuple(self.objects["pod"].values()):
            if pod.controller_uid == job.ref.uid:
                self.set_containers(pod.ref.name, started=True, exit_code=0 if succeeded else 2)
        self.put("job", evolve(job, end=JobEnd(succeeded=succeeded, message="BackoffLimitExceeded")))

    # What a controller sees

    def observe(self, key: Key) -> Any:
        kind, name = key
        return {"request": self._request, "run": self._run, "claim": self._claim}[kind](
            name, {each: self.cached(each) for each in self.history}, frozenset(), self.refused.get(key)
        )

    def read(self, key: Key, known: Any, reads: frozenset[Read]) -> Any:
        """The observation with parts from the truth."""
        kind, name = key
        fresh = known.fresh | reads
        sources = {each: self.cached(each) for each in self.history}
        for read, of in _READ_KINDS.items():
            if read in fresh:
                sources[of] = self.objects[of]
        return {"request": self._request, "run": self._run, "claim": self._claim}[kind](
            name, sources, fresh, known.refused if kind != "claim" else None
        )

    def _request(
        self, name: str, sources: Mapping[Kind, Snapshot], fresh: frozenset[Read], refused: Refusal | None
    ) -> RequestObservation:
        request = sources["request"].get(name)
        if request is None:
            return RequestObservation(request=None, fresh=fresh)
        names = (request.active_run, request.next_run)
        runs = [run for run in sources["run"].values() if run.request_uid == request.ref.uid or run.ref.name in names]
        return RequestObservation(request=request, runs=tuple(runs), refused=refused, fresh=fresh)

    def _run(
        self, name: str, sources: Mapping[Kind, Snapshot], fresh: frozenset[Read], refused: Refusal | None
    ) -> RunObservation:
        run = sources["run"].get(name)
        if run is None:
            return RunObservation(run=None, fresh=fresh)
        requests = (each for each in sources["request"].values() if each.ref.uid == run.request_uid)
        label = label_value(run.ref.uid)
        others = [job for job in sources["job"].values() if job.end is None and job.ref.name != name]
        return RunObservation(
            run=run,
            request=next(requests, None),
            claim=sources["claim"].get(run.claim_name) if run.claim_name else None,
            jobs=tuple(each for each in sources["job"].values() if label == each.run_uid or each.ref.name == name),
            pods=tuple(each for each in sources["pod"].values() if each.run_uid == label),
            jobs_ahead=len(others),
            access=self.access if Read.ACCESS in fresh else None,
            refused=refused,
            fresh=fresh,
        )

    def _claim(
        self, name: str, sources: Mapping[Kind, Snapshot], fresh: frozenset[Read], refused: Refusal | None
    ) -> ClaimObservation:
        assert refused is None
        claim = sources["claim"].get(name)
        if claim is None:
            return ClaimObservation(claim=None, fresh=fresh)
        run_uids = frozenset(run.ref.uid for run in sources["run"].values())
        gone = {each for each in claim.finalizers if is_claim_finalizer(each)} - set(map(claim_finalizer, run_uids))
        return ClaimObservation(
            claim=claim,
            run_uids=run_uids,
            jobs=tuple(each for each in sources["job"].values() if claim_finalizer(each.run_uid) in gone),
            pods=tuple(each for each in sources["pod"].values() if claim_finalizer(each.run_uid) in gone),
            fresh=fresh,
        )

    # What a controller does

    def decide(self, key: Key) -> Decision:
        """One pass up to its actions, with the reads that it asks for."""
        seen = self.observe(key)
        while (decision := _decide(key[0], seen, self.now)).reads:
            missing = decision.reads - seen.fresh
            assert missing, f"{key} asks again for {decision.reads}"
            seen = self.read(key, seen, missing)
        self.refused.pop(key, None)
        assert not (decision.actions and decision.reads)
        return decision

    def perform(self, key: Key, action: Action) -> bool:
        """One action, fenced as the server fences it; whether it is done."""
        done = _PERFORM[type(action)](self, key, action)
        self.collect()
        if done and type(action) in _WRITES:
            self.catch_up(_WRITES[type(action)])  # read your writes: what is decided next rests on them
        return done

    def _fenced(self, kind: Kind, ref: Ref) -> Any:
        stored = self.get(kind, ref.name)
        return stored if stored is not None and stored.ref == ref else None

    def create_run(self, key: Key, action: CreateRun) -> bool:
        metadata = action.body["metadata"]
        owner = metadata["ownerReferences"][0]["uid"]
        if self.get("run", metadata["name"]) is not None:
            return False
        if self.refuses_runs:
            self.refused[key] = Refusal(action.body, "refused by a rule")
            return False
        mine = [run for run in self.objects["run"].values() if run.request_uid == owner and not run.is_done]
        assert not mine, "at most one open Run per Request"
        ref = self.fresh_ref(metadata["name"])
        trace = action.body["spec"]["workload"].get("trace")
        run = RunState(
            ref=ref,
            object=_run_object(ref, action.body["spec"]),
            request_uid=owner,
            generation=int(metadata["annotations"]["nvidia.com/dgdr-request-generation"]),
            claim_name=trace["source"]["persistentVolumeClaim"]["claimName"] if trace else "",
        )
        self.put("run", run)
        return True

    def delete_run(self, _: Key, action: DeleteRun) -> bool:
        stored = self.get("run", action.run.name)
        if stored is not None and stored.ref.uid == action.run.uid:
            assert stored.is_done, "only a Run that is done is history"
            self._remove("run", stored)
        return True

    def patch_request(self, _: Key, action: PatchRequestStatus) -> bool:
        request = self._fenced("request", action.request)
        if request is None:
            return False
        self.put(
            "request",
            evolve(
                request,
                observed_generation=action.observed_generation,
                active_run=action.active_run,
                recent_runs=action.recent_runs,
                conditions=action.conditions,
            ),
        )
        assert len(action.recent_runs) <= CONFIGURATION.history_limit
        return True

    def patch_run(self, _: Key, action: PatchRunStatus) -> bool:
        run = self._fenced("run", action.run)
        if run is None:
            return False
        assert run.request_uid != "another", "a foreign Run is left alone"
        request = self.of_uid("request", run.request_uid)
        says = action.status.completed
        if says.reason == "Superseded" and request is not None and not run.is_done:
            made = request.generation - request.deleting
            assert made > run.generation, "only a generation that somebody made takes a Run's place"
        if run.is_done:
            assert action.status.completed == run.status.completed, "a terminal condition never changes"
        assert action.status != run.status, "a status is written when it changes"
        assert run.status.input in (None, action.status.input), "the recorded input stays"
        done = evolve(run, status=action.status)
        if done.is_done and done.status.completed.reason not in ("SearchSucceeded", "SearchFailed"):
            left = [job for job in self.objects["job"].values() if job.owner_uid == run.ref.uid]
            assert not any(job.result is None for job in left), "a stopped Run is done once its Job is gone"
        self.put("run", done)
        return True

    def patch_failure(self, _: Key, action: PatchRunFailure) -> bool:
        run = self._fenced("run", action.run)
        if run is not None:
            assert run.failure is None, "what is durable stays"
            self.put("run", evolve(run, failure=action.failure))
        return run is not None

    def patch_claim(self, key: Key, action: PatchClaimFinalizers) -> bool:
        claim = self._fenced("claim", action.claim)
        if claim is None:
            return False
        added = set(action.finalizers) - set(claim.finalizers)
        released = set(claim.finalizers) - set(action.finalizers)
        if added and claim.deleting:
            return False  # the server says Invalid
        assert all(map(is_claim_finalizer, added | released)), "foreign finalizers stay as they are"
        runs = {claim_finalizer(run.ref.uid): run for run in self.objects["run"].values()}
        assert not added & self.released, "never added again after the release"
        self.released |= released
        for finalizer in released:
            self._may_be_released(key, finalizer, runs.get(finalizer))
        self.put("claim", evolve(claim, finalizers=action.finalizers))
        return True

    def _may_be_released(self, key: Key, finalizer: str, run: RunState | None) -> None:
        jobs = [job for job in self.objects["job"].values() if claim_finalizer(job.run_uid) == finalizer]
        pods = [pod for pod in self.objects["pod"].values() if claim_finalizer(pod.run_uid) == finalizer]
        if key[0] == "claim":
            assert run is None, "a Run that is there lets go by itself"
            assert not jobs, "no release for a Run that is gone while a Job object is left"
            assert not pods, "no release for a Run that is gone while a Pod object is left"
        else:
            assert all(job.end is not None for job in jobs), "no release while an unfinished Job is left"
            assert run is None or run.is_done, "a Run lets go when it is done, and may be deleted at that moment"

    def create_job(self, key: Key, action: CreateJob) -> bool:
        metadata = action.body["metadata"]
        owner = metadata["ownerReferences"][0]["uid"]
        run = self.of_uid("run", owner)
        if self.get("job", metadata["name"]) is not None:
            return False
        if run is None:
            return True  # the server takes it, and the garbage collector takes it away
        claim_uid = metadata.get("annotations", {}).get(CLAIM_UID_ANNOTATION, "")
        if run.claim_name:
            claim = self.get("claim", run.claim_name)
            assert claim is not None, "no Job without a claim"
            assert claim.ref.uid == claim_uid, "no Job for another claim"
            assert claim_finalizer(owner) in claim.finalizers, "no Job without the Run's finalizer"
        assert not run.is_done, "no Job for a Run that is done"
        assert run.status.input is not None, "no Job whose input is not recorded"
        assert self.access == Access(account=True, binding=True)
        if self.refuses_jobs:
            self.refused[key] = Refusal(action.body, "refused by a rule")
            return False
        job = JobState(
            ref=self.fresh_ref(metadata["name"]),
            created_at=self.now,
            controller_uid=owner,
            run_uid=metadata["labels"]["nvidia.com/dgdr-run-uid"],
            claim_uid=claim_uid,
        )
        self.put("job", job)
        return True

    def remove_job(self, _: Key, action: DeleteJob) -> bool:
        job = self.get("job", action.job.name)
        if job is None or job.ref.uid != action.job.uid:
            return True
        if job.ref != action.job:
            return False
        assert job.deleted_at is None, "a Job is not deleted twice"
        assert job.controller_uid != "somebody", "a foreign Job is left alone"
        if self.of_uid("run", job.owner_uid) is not None:
            assert job.end is None, "a finished Job is never stopped"
        self.put("job", evolve(job, deleted_at=self.now))
        return True

    def grant(self, _: Key, action: CreateServiceAccount | CreateRoleBinding) -> bool:
        part = "account" if isinstance(action, CreateServiceAccount) else "binding"
        assert action.body["metadata"]["namespace"] == NAMESPACE
        self.access = evolve(self.access, **{part: True})
        return True

    def emit(self, _: Key, action: EmitEvent) -> bool:
        assert action.reason
        return True

    # Whole passes

    def due(self) -> list[Key]:
        """Everything that a controller may be asked about."""
        return [
            (kind, name)
            for kind in ("request", "run", "claim")
            for name in sorted({*self.objects[kind], *self.cached(kind)})
        ]

    def step(self, key: Key) -> Decision:
        """A whole pass: decide, and perform up to the first action that is not done."""
        decision = self.decide(key)
        for action in decision.actions:
            if not self.perform(key, action):
                break
        return decision

    def settle(self, passes: int = 60) -> None:
        """Passes over everything, with caches that are up to date, until there is nothing left to do."""
        for _ in range(passes):
            self.collect()
            self.catch_up()
            acted = False
            for key in self.due():
                before = self.version
                actions = self.step(key).actions
                acted = acted or bool(actions)
                if actions and self.version != before and not self.refused:
                    assert not set(map(repr, actions)) & set(map(repr, self.decide(key).actions)), (
                        "deciding on its own result repeats nothing"
                    )
            if not acted:
                return
        raise AssertionError(f"still busy: {[self.decide(key) for key in self.due()]}")

    def must_be_safe(self) -> None:
        """What holds whenever nothing is left to do."""
        for job in self.objects["job"].values():
            if job.end is not None or job.deleted_at is not None:
                continue
            run, claim = self.of_uid("run", job.owner_uid), self.get("claim", CLAIM)
            if run is None:
                is_held = claim is not None and claim_finalizer(job.run_uid) in claim.finalizers
                assert not is_held, "an unfinished Job whose Run is gone is being stopped"
            elif run.claim_name:
                is_there = claim is not None and not claim.deleting and claim.ref.uid == job.claim_uid
                assert is_there, "an unfinished Job whose claim goes is being stopped"


def _decide(kind: Kind, seen: Any, now: datetime) -> Decision:
    if kind == "request":
        return decide_request(seen, CONFIGURATION, now)
    if kind == "run":
        return decide_run(seen, CONFIGURATION, now)
    return decide_claim(seen)


_READ_KINDS = {
    Read.REQUEST: "request",
    Read.RUN: "run",
    Read.RUNS: "run",
    Read.CLAIM: "claim",
    Read.JOBS: "job",
    Read.PODS: "pod",
}

_WRITES: dict[type, Kind] = {
    CreateRun: "run",
    DeleteRun: "run",
    PatchRequestStatus: "request",
    PatchRunStatus: "run",
    PatchRunFailure: "run",
    PatchClaimFinalizers: "claim",
    CreateJob: "job",
    DeleteJob: "job",
}

_PERFORM: dict[type, Callable[[World, Key, Any], bool]] = {
    CreateRun: World.create_run,
    DeleteRun: World.delete_run,
    PatchRequestStatus: World.patch_request,
    PatchRunStatus: World.patch_run,
    PatchRunFailure: World.patch_failure,
    PatchClaimFinalizers: World.patch_claim,
    CreateJob: World.create_job,
    DeleteJob: World.remove_job,
    CreateServiceAccount: World.grant,
    CreateRoleBinding: World.grant,
    EmitEvent: World.emit,
}


def _request_object(ref: Ref, spec: Mapping[str, Any], generation: int) -> dict[str, Any]:
    return {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid, "generation": generation},
        "spec": spec,
    }


def _run_object(ref: Ref, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentRun",
        "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid},
        "spec": spec,
    }
