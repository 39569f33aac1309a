"""Each action is one call, fenced as it must be; each answer is one of five outcomes."""

import asyncio
import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import define, field

from dgdr_retune.api import Condition, RunReason
from dgdr_retune.controllers._act import Became, Outcome, Performer
from dgdr_retune.controllers._actions import (
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
from dgdr_retune.controllers._caches import Caches
from dgdr_retune.controllers._observation import Failure, Ref, Refusal, RunStatus
from dgdr_retune.kube import Answer, Api, Cache, Call, ForbiddenError, MaybeAppliedError, NotSentError, Stream
from dgdr_retune.testing import VirtualLoop

REF = Ref("ns", "it", "uid-it", "7")
BODY: dict[str, Any] = {"apiVersion": "v1", "kind": "Any", "metadata": {"namespace": "ns", "name": "it"}}
CONDITION = Condition(
    type="Completed", status="False", reason="Pending", message="m", last_transition_time="2026-01-01T00:00:00Z"
)
NVIDIA = "/apis/nvidia.com/v1beta2/namespaces/ns"
REQUEST, RUN = f"{NVIDIA}/dynamographdeploymentrequests", f"{NVIDIA}/dynamographdeploymentruns"
CLAIM, JOBS = "/api/v1/namespaces/ns/persistentvolumeclaims/it", "/apis/batch/v1/namespaces/ns/jobs"
ACCOUNTS = "/api/v1/namespaces/ns/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings"

ACTIONS: dict[str, Action] = {
    "request status": PatchRequestStatus(
        request=REF, observed_generation=2, active_run="", recent_runs=("b", "a"), conditions=(CONDITION,)
    ),
    "run status": PatchRunStatus(REF, RunStatus(phase="Pending", job_name="it", input={"a": 1}, message="theirs")),
    "run failure": PatchRunFailure(REF, Failure(RunReason.TRACE_SOURCE_DELETED, "gone")),
    "claim": PatchClaimFinalizers(REF, ("theirs", "nvidia.com/dgdr-run-1")),
    "create run": CreateRun(BODY),
    "create job": CreateJob(BODY),
    "account": CreateServiceAccount(BODY),
    "binding": CreateRoleBinding(BODY),
    "delete run": DeleteRun(REF),
    "delete job": DeleteJob(REF),
}
WRITES = list(ACTIONS.values())
CALLS = {
    "request status": (
        "PATCH",
        f"{REQUEST}/it/status",
        {
            "metadata": {"resourceVersion": "7"},
            "status": {
                "observedGeneration": 2,
                "activeRunRef": None,
                "recentRunRefs": [{"name": "b"}, {"name": "a"}],
                "conditions": [CONDITION.stored()],
            },
        },
    ),
    "run status": (
        "PATCH",
        f"{RUN}/it/status",
        {
            "metadata": {"resourceVersion": "7"},
            "status": {"phase": "Pending", "jobRef": {"name": "it"}, "aisimulate": {"input": {"a": 1}}},
        },
    ),
    "run failure": (
        "PATCH",
        f"{RUN}/it",
        {
            "metadata": {
                "resourceVersion": "7",
                "annotations": {"nvidia.com/dgdr-run-failure": '{"reason": "TraceSourceDeleted", "message": "gone"}'},
            }
        },
    ),
    "claim": (
        "PATCH",
        CLAIM,
        {"metadata": {"resourceVersion": "7", "finalizers": ["theirs", "nvidia.com/dgdr-run-1"]}},
    ),
    "create run": ("POST", RUN, BODY),
    "create job": ("POST", JOBS, BODY),
    "account": ("POST", ACCOUNTS, BODY),
    "binding": ("POST", BINDINGS, BODY),
    "delete run": (
        "DELETE",
        f"{RUN}/it",
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "uid-it"},
            "propagationPolicy": "Background",
        },
    ),
    "delete job": (
        "DELETE",
        f"{JOBS}/it",
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "uid-it", "resourceVersion": "7"},
            "propagationPolicy": "Foreground",
        },
    ),
}


@define
class Server:
    """A transport with one answer for all."""

    code: int = 200
    reason: str = ""
    error: Exception | None = None
    calls: list[Call] = field(factory=list)

    async def send(self, call: Call) -> Answer:
        self.calls.append(call)
        if self.error is not None:
            raise self.error
        if self.code >= 400:
            said = {"kind": "Status", "code": self.code, "reason": self.reason, "message": "because"}
            return Answer(self.code, {}, json.dumps(said).encode())
        stored = {**BODY, "metadata": {**BODY["metadata"], "uid": "uid-it", "resourceVersion": "8"}}
        return Answer(self.code, {}, json.dumps(stored).encode())

    def stream(self, call: Call) -> Any:
        raise AssertionError(call)


@define
class Recorder:
    events: list[tuple[Mapping[str, Any], str, str, str]] = field(factory=list)

    def record(self, about: dict[str, Any], reason: str, message: str, type_: str = "Normal") -> None:
        self.events.append((about, reason, message, type_))


def caches() -> Caches:
    return Caches(Cache(), Cache(), Cache(), Cache(), Cache())


def performed(
    action: Action,
    server: Server,
    *,
    of: Caches | None = None,
    events: Recorder | None = None,
    towards: CreateJob | None = None,
) -> Outcome:
    api = Api(server, rng=random.Random(0), attempts=1)  # noqa: S311 - jitter
    performer = Performer(api, of or caches(), events or Recorder())
    with VirtualLoop() as loop:
        return loop.run(performer.perform(action, towards), until_s=1000)


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_is_one_call_with_its_fence(name: str) -> None:
    server = Server()
    assert performed(ACTIONS[name], server).became is Became.DONE
    (call,) = server.calls
    assert (call.method, call.path, json.loads(call.body)) == CALLS[name]
    if call.method != "DELETE":
        assert call.query == {"fieldValidation": "Strict"}


@pytest.mark.parametrize("action", [each for each in WRITES if isinstance(each, DeleteRun | DeleteJob)])
def test_to_delete_what_is_gone_is_done(action: Action) -> None:
    assert performed(action, Server(404, "NotFound")).became is Became.DONE


@pytest.mark.parametrize("action", [each for each in WRITES if not isinstance(each, DeleteRun | DeleteJob)])
def test_to_change_what_is_gone_or_to_create_in_a_namespace_that_is_gone_is_not_done(action: Action) -> None:
    assert performed(action, Server(404, "NotFound")).became is Became.GONE


@pytest.mark.parametrize("action", WRITES)
def test_a_conflict_is_told(action: Action) -> None:
    assert performed(action, Server(409, "Conflict")).became is Became.CONFLICT


@pytest.mark.parametrize("action", WRITES)
def test_a_name_that_is_taken_is_fine_for_what_all_runs_share_and_a_conflict_for_the_rest(action: Action) -> None:
    shared = isinstance(action, CreateServiceAccount | CreateRoleBinding)
    assert performed(action, Server(409, "AlreadyExists")).became is (Became.DONE if shared else Became.CONFLICT)


@pytest.mark.parametrize("action", WRITES)
def test_invalid_is_told_and_for_a_create_what_was_refused(action: Action) -> None:
    outcome = performed(action, Server(422, "Invalid"))
    assert outcome.became is Became.INVALID
    if isinstance(action, CreateRun | CreateJob):
        assert outcome.refusal is not None
        assert (outcome.refusal.body, outcome.refusal.message) == (BODY, "because")
    else:
        assert outcome.refusal is None


@pytest.mark.parametrize("name", ["create run", "create job"])
def test_a_body_with_a_field_that_the_server_does_not_know_is_invalid(name: str) -> None:
    outcome = performed(ACTIONS[name], Server(400, "BadRequest"))
    assert outcome.became is Became.INVALID
    assert outcome.refusal is not None
    assert (outcome.refusal.body, outcome.refusal.message) == (BODY, "because")


@pytest.mark.parametrize("action", WRITES)
@pytest.mark.parametrize(
    "server",
    [Server(error=MaybeAppliedError("lost")), Server(504, "Timeout"), Server(500, "InternalError")],
    ids=["lost", "504", "500"],
)
def test_nobody_knows_what_became_of_a_write_whose_answer_says_nothing(action: Action, server: Server) -> None:
    assert performed(action, server).became is Became.UNKNOWN


@pytest.mark.parametrize("action", WRITES)
def test_what_says_nothing_about_the_object_is_left_to_the_queue(action: Action) -> None:
    with pytest.raises(NotSentError):
        performed(action, Server(error=NotSentError("no route")))
    with pytest.raises(ForbiddenError):
        performed(action, Server(403, "Forbidden"))


@pytest.mark.parametrize("name", ["run status", "account", "binding", "claim", "create job"])
def test_what_is_forbidden_on_the_way_to_a_job_is_told_as_a_refusal_of_the_job(name: str) -> None:
    job = CreateJob({**BODY, "kind": "Job"})
    outcome = performed(ACTIONS[name], Server(403, "Forbidden"), towards=job)
    assert (outcome.became, outcome.refusal) == (Became.FORBIDDEN, Refusal(job.body, "because", for_now=True))


def stored(uid: str, version: str) -> dict[str, Any]:
    return {**BODY, "metadata": {**BODY["metadata"], "uid": uid, "resourceVersion": version}}


@pytest.mark.parametrize(
    ("action", "which"),
    [
        (ACTIONS["request status"], "requests"),
        (ACTIONS["run status"], "runs"),
        (ACTIONS["run failure"], "runs"),
        (ACTIONS["claim"], "claims"),
        (ACTIONS["create run"], "runs"),
        (ACTIONS["create job"], "jobs"),
        (ACTIONS["delete run"], "runs"),
        (ACTIONS["delete job"], "jobs"),
    ],
)
def test_the_cache_is_told_of_a_write_and_is_behind_until_it_has_seen_it(action: Action, which: str) -> None:
    of = caches()
    cache = getattr(of, which)
    if not isinstance(action, CreateRun | CreateJob):
        cache.happened("ADDED", stored("uid-it", "7"))
    performed(action, Server(), of=of)
    assert cache.is_behind("ns", "it")
    if isinstance(action, DeleteRun | DeleteJob):
        cache.happened("DELETED", stored("uid-it", "9"))
    else:
        assert cache.get("ns", "it")["metadata"]["resourceVersion"] == "8"
        cache.happened("MODIFIED", stored("uid-it", "8"))
    assert not cache.is_behind("ns", "it")


def test_an_event_is_recorded_without_a_call() -> None:
    server, events = Server(), Recorder()
    action = EmitEvent(kind="DynamoGraphDeploymentRun", about=REF, reason="SearchFailed", message="why", type="Warning")
    assert performed(action, server, events=events).became is Became.DONE
    ((about, reason, message, type_),) = events.events
    assert not server.calls
    assert (reason, message, type_) == ("SearchFailed", "why", "Warning")
    assert about == {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentRun",
        "metadata": {"name": "it", "namespace": "ns", "uid": "uid-it", "resourceVersion": "7"},
    }


def test_a_run_status_never_clears_nor_writes_the_publishers_message() -> None:
    server = Server()
    performed(PatchRunStatus(REF, RunStatus(message="theirs")), server)
    assert json.loads(server.calls[0].body)["status"] == {}


def test_a_cancelled_action_is_cancelled() -> None:
    class Hanging(Server):
        async def send(self, call: Call) -> Answer:
            self.calls.append(call)
            await asyncio.sleep(100)
            raise AssertionError

        def stream(self, call: Call) -> Stream:
            raise AssertionError(call)

    async def scenario() -> bool:
        api = Api(Hanging(), rng=random.Random(0))  # noqa: S311 - jitter
        task = asyncio.create_task(Performer(api, caches(), Recorder()).perform(ACTIONS["claim"]))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    with VirtualLoop() as loop:
        assert loop.run(scenario(), until_s=1000)
