"""What the controllers see: from caches, from the server, and what the caches keep of objects."""

import asyncio
import copy
import random
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from controllers.cluster import CLAIM, CONFIGURATION, JOBS, NAMESPACE, RUNS, Cluster, in_cluster
from dgdr_retune.api import REQUEST_GENERATION_ANNOTATION, RUN_FAILURE_ANNOTATION, RUN_UID_LABEL, claim_finalizer
from dgdr_retune.controllers._caches import Caches, job_indexes, jobs_ahead, next_in_line, pod_indexes, run_indexes
from dgdr_retune.controllers._observation import JobEnd, Read
from dgdr_retune.controllers._observe import SELECTED_RUNS, BehindError, ClaimObserver, RequestObserver, RunObserver
from dgdr_retune.controllers._projections import kept_claim, kept_job, kept_pod, kept_request, kept_run
from dgdr_retune.controllers._states import claim_state, job_state, pod_state, request_state, run_state
from dgdr_retune.kube import Api, Cache, Call
from dgdr_retune.testing._node import Script

ALL_OF_RUN = frozenset({Read.REQUEST, Read.RUN, Read.CLAIM, Read.JOBS, Read.PODS, Read.ACCESS})
ALL_OF_CLAIM = frozenset({Read.RUNS, Read.CLAIM, Read.JOBS, Read.PODS})
API = Api(None, rng=random.Random(0))  # type: ignore[arg-type]  # noqa: S311 - never asked


def owner(kind: str, name: str, uid: str, *, controller: bool = True) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": controller}


def thing(name: str, version: int = 1, **more: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **more.pop("metadata", {}),
    }
    return {"metadata": metadata, **more}


def run(name: str, *, claim: str = CLAIM, **more: Any) -> dict[str, Any]:
    source = {"persistentVolumeClaim": {"claimName": claim, "subPath": "w.jsonl.gz"}}
    spec = {"workload": {"trace": {"source": source}}} if claim else {"workload": {"static": {}}}
    metadata = {"ownerReferences": [owner("DynamoGraphDeploymentRequest", "q", "uid-q")], **more.pop("metadata", {})}
    return thing(name, spec=spec, metadata=metadata, **more)


def run_of(request: str, **more: Any) -> dict[str, Any]:
    """The Run of a Request's generation 1."""
    metadata = {
        "ownerReferences": [owner("DynamoGraphDeploymentRequest", request, f"uid-{request}")],
        "annotations": {REQUEST_GENERATION_ANNOTATION: "1"},
        **more.pop("metadata", {}),
    }
    return run(f"{request}-run-1", metadata=metadata, **more)


def job(name: str, *, of: str = "", ended: str = "", **more: Any) -> dict[str, Any]:
    at = "2026-01-01T00:01:00Z"
    ends = [{"type": ended, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": at}]
    volumes = [{"name": "trace", "persistentVolumeClaim": {"claimName": CLAIM}}]
    metadata = {
        "labels": {RUN_UID_LABEL: f"uid-{of or name}"},
        "ownerReferences": [owner("DynamoGraphDeploymentRun", of or name, f"uid-{of or name}")],
        **more.pop("metadata", {}),
    }
    spec = {"template": {"spec": {"volumes": volumes}}}
    return thing(name, spec=spec, status={"conditions": ends if ended else []}, metadata=metadata, **more)


def caches(**kinds: list[Mapping[str, Any]]) -> Caches:
    made = Caches(
        Cache(kept_request),
        Cache(kept_run, run_indexes()),
        Cache(kept_claim),
        Cache(kept_job, job_indexes()),
        Cache(kept_pod, pod_indexes()),
    )
    for kind, objects in kinds.items():
        for each in objects:
            getattr(made, kind).happened("ADDED", copy.deepcopy(each))
    return made


DONE = {"conditions": [{"type": "Completed", "status": "True"}]}


# From caches


def test_a_request_is_seen_with_its_runs_and_with_those_that_have_its_names() -> None:
    request = thing("q", metadata={"generation": 3}, status={"activeRunRef": {"name": "q-run-2"}})
    foreign = run("q-run-3", metadata={"ownerReferences": []})
    made = caches(
        requests=[request],
        runs=[run("q-run-1"), run("q-run-2"), foreign, run("other", metadata={"ownerReferences": []})],
    )
    seen = RequestObserver(API, made).cached((NAMESPACE, "q"), None)
    assert seen.request is not None
    assert (seen.request.generation, seen.request.active_run, seen.request.next_run) == (3, "q-run-2", "q-run-3")
    assert sorted(each.ref.name for each in seen.runs) == ["q-run-1", "q-run-2", "q-run-3"]
    assert not seen.fresh


def test_a_run_is_seen_with_its_request_claim_jobs_and_pods() -> None:
    pod = thing("p", metadata={"labels": {RUN_UID_LABEL: "uid-r"}, "ownerReferences": [owner("Job", "r", "uid-job")]})
    foreign = job(
        "r", of="r", metadata={"uid": "uid-foreign", "labels": {RUN_UID_LABEL: "another"}, "ownerReferences": []}
    )
    made = caches(
        requests=[thing("q")],
        runs=[run("r")],
        claims=[thing(CLAIM)],
        jobs=[job("r-old", of="r"), foreign, job("other")],
        pods=[pod],
    )
    seen = RunObserver(API, made, CONFIGURATION).cached((NAMESPACE, "r"), None)
    assert seen.run is not None
    assert seen.request is not None
    assert seen.claim is not None
    assert (seen.request.ref.uid, seen.claim.ref.name) == ("uid-q", CLAIM)
    assert [each.ref.name for each in seen.jobs] == ["r-old", "r"]
    assert [each.ref.name for each in seen.pods] == ["p"]
    assert seen.access is None


def test_a_claim_is_seen_with_the_jobs_and_pods_of_runs_that_are_gone_alone() -> None:
    held = [claim_finalizer("uid-here"), claim_finalizer("uid-gone"), "theirs"]
    pod = {"metadata": {"labels": {RUN_UID_LABEL: "uid-gone"}}}
    made = caches(
        claims=[thing(CLAIM, metadata={"finalizers": held})],
        runs=[run("here")],
        jobs=[job("here"), job("gone"), job("unrelated")],
        pods=[thing("p", **copy.deepcopy(pod)), thing("x", metadata={"labels": {RUN_UID_LABEL: "uid-here"}})],
    )
    seen = ClaimObserver(API, made).cached((NAMESPACE, CLAIM), None)
    assert seen.run_uids == {"uid-here"}
    assert [each.ref.name for each in seen.jobs] == ["gone"]
    assert [each.ref.name for each in seen.pods] == ["p"]


@pytest.mark.parametrize("which", ["runs", "jobs"])
def test_nothing_is_decided_on_what_the_cache_has_not_seen_of_our_own_writes(which: str) -> None:
    made = caches(runs=[run("r")], jobs=[job("r")])
    written = copy.deepcopy(run("r") if which == "runs" else job("r"))
    written["metadata"]["resourceVersion"] = "9"
    getattr(made, which).wrote(written)
    observer = RunObserver(API, made, CONFIGURATION)
    with pytest.raises(BehindError):
        observer.cached((NAMESPACE, "r"), None)
    getattr(made, which).happened("MODIFIED", written)
    assert observer.cached((NAMESPACE, "r"), None).run is not None


def test_what_is_gone_is_seen_as_gone() -> None:
    made = caches()
    assert RequestObserver(API, made).cached((NAMESPACE, "q"), None).request is None
    assert RunObserver(API, made, CONFIGURATION).cached((NAMESPACE, "r"), None).run is None
    assert ClaimObserver(API, made).cached((NAMESPACE, CLAIM), None).claim is None


# Whose turn it is


def at(second: int) -> dict[str, Any]:
    return {"creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}


NAME_TAKEN = {"type": "Completed", "status": "False", "reason": "JobNameConflict"}


def test_unfinished_jobs_and_earlier_runs_that_can_start_go_first() -> None:
    mine = run_of("m", metadata=at(5))
    runs = [
        mine,
        run_of("earlier", metadata=at(1)),
        run_of("same-second", metadata=at(5)),
        run_of("later", metadata=at(9)),
        run_of("without-claim", claim="missing", metadata=at(1)),
        run_of("static", claim="", metadata=at(2)),
        run_of("done", metadata=at(1), status=DONE),
        run_of("has-job", metadata=at(1)),
        run_of("records-job", metadata=at(1), status={"jobRef": {"name": "x"}}),
        run_of("going", metadata={**at(1), "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        run_of("name-taken", metadata=at(1), status={"conditions": [NAME_TAKEN]}),
        run_of("request-going", metadata=at(1)),
    ]
    requests = {(name := each["metadata"]["ownerReferences"][0]["name"]): thing(name) for each in runs}
    requests["request-going"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made = caches(
        claims=[thing(CLAIM)],
        requests=list(requests.values()),
        runs=runs,
        jobs=[job("has-job-run-1"), job("ended", ended="Complete"), job("failed", ended="Failed")],
    )
    assert jobs_ahead(made, mine, 100) == 3  # has-job's Job, earlier, static
    assert jobs_ahead(made, mine, 2) == 2
    assert [each["metadata"]["name"] for each in next_in_line(made, NAMESPACE, 3)] == [
        "earlier-run-1",
        "static-run-1",
        "m-run-1",
    ]


def test_a_run_that_no_request_made_has_no_place_in_the_line() -> None:
    """It never gets a Job: whoever may create Runs could keep all others from theirs."""
    mine = run_of("m", metadata=at(5))
    foreign = [
        run("by-hand", metadata={**at(1), "ownerReferences": []}),
        run("m-run-2", metadata={**mine["metadata"], **at(1), "name": "m-run-2", "uid": "uid-copy"}),
        run("m-run-0", metadata={**at(1), "ownerReferences": mine["metadata"]["ownerReferences"]}),
        run_of("without-request", metadata=at(1)),
    ]
    made = caches(claims=[thing(CLAIM)], requests=[thing("m")], runs=[mine, *foreign])
    assert jobs_ahead(made, mine, 100) == 0
    assert [each["metadata"]["name"] for each in next_in_line(made, NAMESPACE, 3)] == ["m-run-1"]


def test_runs_of_one_second_take_turns_by_name() -> None:
    made = caches(
        claims=[thing(CLAIM)], requests=[thing(name) for name in "abc"], runs=[run_of(name) for name in "bac"]
    )
    assert [jobs_ahead(made, run_of(name), 100) for name in "abc"] == [0, 1, 2]


# What the caches keep


def test_the_pod_fields_that_the_diagnostic_reads_are_kept_and_no_others() -> None:
    status = {
        "name": "sweeper",
        "image": "i",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "failed to prepare subPath"}},
        "lastState": {"terminated": {"exitCode": 1}},
    }
    pod = thing(
        "p",
        apiVersion="v1",
        kind="Pod",
        metadata={
            "labels": {RUN_UID_LABEL: "uid-r"},
            "annotations": {"a": "b"},
            "managedFields": [{}],
            "ownerReferences": [owner("Job", "r", "uid-r")],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["f"],
        },
        spec={
            "nodeName": "n",
            "containers": [{"name": "sweeper", "env": ["a lot"]}],
            "volumes": [{"name": "s", "emptyDir": {}}, {"name": "t", "persistentVolumeClaim": {"claimName": CLAIM}}],
        },
        status={"phase": "Pending", "conditions": [{}], "containerStatuses": [status], "podIP": "198.51.100.1"},
    )
    kept = kept_pod(pod)
    assert kept == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": NAMESPACE,
            "uid": "uid-p",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "labels": {RUN_UID_LABEL: "uid-r"},
            "ownerReferences": [owner("Job", "r", "uid-r")],
            "finalizers": ["f"],
        },
        "spec": {"nodeName": "n", "volumes": [{"persistentVolumeClaim": {"claimName": CLAIM}}]},
        "status": {
            "containerStatuses": [
                {"name": "sweeper", "state": status["state"], "lastState": status["lastState"]},
            ]
        },
    }
    assert pod_state(kept) == pod_state(pod)


@pytest.mark.parametrize(
    ("state", "last", "expected"),
    [
        ({}, {}, ("", "", False, None)),
        ({"waiting": {}}, {}, ("", "", False, None)),
        ({"waiting": {"reason": "R", "message": "m"}}, {}, ("R", "m", False, None)),
        ({"waiting": {"reason": "R"}}, {"terminated": {"exitCode": 1}}, ("R", "", True, None)),
        ({"running": {}}, {}, ("", "", True, None)),
        ({"terminated": {"exitCode": 0}}, {}, ("", "", True, 0)),
    ],
)
def test_a_container_is_what_its_status_says(state: Any, last: Any, expected: Any) -> None:
    statuses = [{"name": "sweeper", "state": state, "lastState": last}]
    (container,) = pod_state(thing("p", status={"containerStatuses": statuses})).containers
    assert (
        container.waiting_reason,
        container.waiting_message,
        container.started,
        container.exit_code,
    ) == expected


@pytest.mark.parametrize(
    "of",
    [
        job("r"),
        job("r", ended="Complete"),
        job("r", ended="Failed", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        job("r", metadata={"annotations": {"nvidia.com/dgdr-claim-uid": "uid-c", "other": "x"}}),
    ],
)
def test_a_job_is_the_same_from_the_cache(of: dict[str, Any]) -> None:
    assert job_state(kept_job(of)) == job_state(of)


def test_how_a_job_ended_is_its_condition() -> None:
    end = job_state(job("r", ended="Failed")).end
    assert end == JobEnd(succeeded=False, message="R: m")
    unfinished = job("r")
    unfinished["status"]["conditions"] = [
        {"type": "FailureTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Complete", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]
    assert job_state(unfinished).end is None


@pytest.mark.parametrize(
    ("status", "has_ended"),
    [
        ({}, False),
        ({"active": 1, "ready": 1, "failed": 0, "uncountedTerminatedPods": {}}, False),
        ({"uncountedTerminatedPods": {"succeeded": [], "failed": ["uid"]}}, True),
        ({"uncountedTerminatedPods": {"succeeded": ["uid"]}}, True),
        ({"failed": 1}, True),
        ({"succeeded": 1}, True),
    ],
)
def test_a_pod_that_is_gone_is_told_by_the_counts_of_its_job(status: Any, *, has_ended: bool) -> None:
    of = job("r") | {"status": status}
    assert job_state(kept_job(of)).has_ended_pods is job_state(of).has_ended_pods is has_ended


@pytest.mark.parametrize(
    "of",
    [
        thing(CLAIM, spec={"volumeMode": "Block", "accessModes": []}, status={"phase": "Lost", "capacity": {}}),
        thing(CLAIM, metadata={"finalizers": ["a"], "deletionTimestamp": "2026-01-01T00:00:00Z"}, spec={}, status={}),
        thing(CLAIM),
    ],
)
def test_a_claim_is_the_same_from_the_cache(of: dict[str, Any]) -> None:
    assert claim_state(kept_claim(of)) == claim_state(of)


def test_a_run_that_is_done_is_kept_without_its_specification_and_input() -> None:
    big = {"name": "org/model", "overrides": "x" * 100_000}
    done = run("r", status={**DONE, "phase": "Succeeded", "aisimulate": {"input": big}, "jobRef": {"name": "r"}})
    done["spec"]["aisimulate"] = {"inputOverrides": big}
    done["status"]["conditions"][0] |= {"reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    kept = kept_run(done)
    assert len(str(kept)) < 2000
    state, whole = run_state(kept), run_state(done)
    assert state.is_done
    assert (state.ref, state.claim_name, state.request_uid) == (whole.ref, whole.claim_name, whole.request_uid)
    assert (state.status.phase, state.status.job_name, state.status.conditions) == (
        whole.status.phase,
        whole.status.job_name,
        whole.status.conditions,
    )


def test_a_run_that_is_not_done_is_kept_whole() -> None:
    of = run("r", status={"aisimulate": {"input": {"a": 1}}})
    assert kept_run({**of, "metadata": {**of["metadata"], "managedFields": []}}) == of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"reason": "TraceSourceDeleted", "message": "m"}', ("TraceSourceDeleted", "m")),
        ("", None),
        ("no JSON", None),
        ("[]", None),
        ("7", None),
        ("{}", None),
        ('{"reason": ["TraceSourceDeleted"], "message": "m"}', None),
        ('{"reason": "Unheard", "message": "m"}', None),
        (r'{"reason": "TraceSourceDeleted", "message": "\ud800"}', None),
        ("[" * 100_000, None),
    ],
)
def test_a_durable_marker_that_is_none_of_ours_says_nothing(text: str, expected: tuple[str, str] | None) -> None:
    failure = run_state(run("r", metadata={"annotations": {RUN_FAILURE_ANNOTATION: text}})).failure
    assert (None if failure is None else (str(failure.reason), failure.message)) == expected


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        ([owner("DynamoGraphDeploymentRequest", "q", "u")], "u"),
        ([owner("DynamoGraphDeploymentRequest", "q", "u", controller=False)], ""),
        ([owner("ConfigMap", "q", "u")], ""),
        ([], ""),
    ],
)
def test_a_run_is_of_the_request_that_is_its_controller(owners: Any, expected: str) -> None:
    assert run_state(run("r", metadata={"ownerReferences": owners})).request_uid == expected


@pytest.mark.parametrize(("text", "expected"), [("3", 3), ("", 0), ("x", 0), ("-1", 0), ("³", 0), ("1" * 5000, 0)])
def test_a_generation_is_a_decimal_number(text: str, expected: int) -> None:
    annotations = {"nvidia.com/dgdr-request-generation": text}
    assert run_state(run("r", metadata={"annotations": annotations})).generation == expected


def test_conditions_that_break_our_rules_are_kept_and_an_end_is_an_end() -> None:
    """Definitions of another release may allow them, and a Run that nobody can read would hold its claim for ever."""
    odd = [{"type": "Completed", "status": "True"}, {"type": "Fine", "status": "Perhaps", "message": 7, "since": "x"}]
    of = run("r", status={"conditions": odd})
    state = run_state(of)
    assert state.is_done
    assert request_state(of).conditions == state.status.conditions
    for each, stored in zip(state.status.conditions, odd, strict=True):
        assert each.stored().items() >= stored.items()


def test_a_request_without_a_status_has_observed_nothing() -> None:
    state = request_state(thing("q", metadata={"generation": 4}))
    assert (state.generation, state.observed_generation, state.active_run, state.recent_runs) == (4, 0, "", ())


# From the server


def test_the_server_is_read_whatever_the_caches_say() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: cluster.reason("q-run-1") == "EvaluatingCandidates")
            await asyncio.sleep(10)
        stale = caches(runs=[cluster.get(RUNS, "q-run-1")])
        observer = RunObserver(cluster.api(), stale, CONFIGURATION)
        key = (NAMESPACE, "q-run-1")
        cached = observer.cached(key, None)
        assert (cached.request, cached.claim, cached.jobs, cached.pods) == (None, None, (), ())
        seen = await observer.read(key, cached, ALL_OF_RUN)
        assert seen.fresh == ALL_OF_RUN
        assert seen.request is not None
        assert seen.claim is not None
        assert seen.access is not None
        assert (len(seen.jobs), len(seen.pods), seen.access.account, seen.access.binding) == (1, 1, True, True)
        part = await observer.read(key, cached, frozenset({Read.JOBS}))
        assert (part.fresh, len(part.jobs), part.pods) == ({Read.JOBS}, 1, ())

    in_cluster(scenario, script=Script(sweeper_s=50_000.0))


def test_a_run_that_was_made_again_is_not_mixed_up_with_the_one_in_the_cache() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.done_run("r")
        before = copy.deepcopy(cluster.get(RUNS, "r"))
        before["metadata"]["uid"] = "an earlier one"
        observer = RunObserver(cluster.api(), caches(runs=[before]), CONFIGURATION)
        cached = observer.cached((NAMESPACE, "r"), None)
        with pytest.raises(BehindError):
            await observer.read((NAMESPACE, "r"), cached, frozenset({Read.RUN}))

    in_cluster(scenario)


def uids(count: int) -> list[str]:
    return [str(uuid.UUID(int=number, version=4)) for number in range(count)]


SELECTED = uids(SELECTED_RUNS)


@pytest.mark.parametrize(
    ("stale", "selector"),
    [
        (SELECTED[:1], f"{RUN_UID_LABEL} in ({SELECTED[0]})"),
        (SELECTED, f"{RUN_UID_LABEL} in ({','.join(SELECTED)})"),
        (uids(SELECTED_RUNS + 1), RUN_UID_LABEL),
        ([SELECTED[0], "u" * 60], RUN_UID_LABEL),  # in the finalizer it is a hash, on the Job it is not
    ],
    ids=["one", "as many as are selected", "more", "hash"],
)
def test_a_claim_is_read_with_one_list_of_a_kind_however_many_finalizers_are_stale(
    stale: list[str], selector: str
) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        volumes = [{"name": "trace", "persistentVolumeClaim": {"claimName": CLAIM}}]
        for uid in (stale[-1], "another"):
            metadata = {"name": f"of-{uid}", "labels": {RUN_UID_LABEL: uid}}
            spec = {"template": {"spec": {"containers": [], "volumes": volumes}}}
            cluster.people.create(JOBS, NAMESPACE, {"metadata": metadata, "spec": spec})
        selectors: list[str] = []

        async def note(call: Call) -> None:
            if call.path.endswith(("/jobs", "/pods")):
                selectors.append(call.query["labelSelector"])

        cluster.transport.instead = note
        finalizers = [claim_finalizer(uid) for uid in stale]
        observer = ClaimObserver(cluster.api(), caches(claims=[thing(CLAIM, metadata={"finalizers": finalizers})]))
        cached = observer.cached((NAMESPACE, CLAIM), None)
        with pytest.raises(BehindError):  # the server's claim is another one
            await observer.read((NAMESPACE, CLAIM), cached, ALL_OF_CLAIM)
        cluster.transport.calls.clear()
        seen = await observer.read((NAMESPACE, CLAIM), cached, ALL_OF_CLAIM - {Read.CLAIM})
        assert sorted(each.what for each in cluster.transport.calls) == [
            "list dynamographdeploymentruns",
            "list jobs",
            "list pods",
        ]
        assert selectors == [selector, selector]
        assert [job.ref.name for job in seen.jobs] == [f"of-{stale[-1]}"]

    in_cluster(scenario)


def test_no_job_is_asked_for_where_the_server_has_the_run_of_every_finalizer() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.done_run("r")
        finalizers = [claim_finalizer(cluster.get(RUNS, "r")["metadata"]["uid"])]
        observer = ClaimObserver(cluster.api(), caches(claims=[thing(CLAIM, metadata={"finalizers": finalizers})]))
        cached = observer.cached((NAMESPACE, CLAIM), None)
        seen = await observer.read((NAMESPACE, CLAIM), cached, ALL_OF_CLAIM - {Read.CLAIM})
        assert [each.what for each in cluster.transport.calls] == ["list dynamographdeploymentruns"]
        assert (seen.jobs, seen.pods) == ((), ())

    in_cluster(scenario)
