"""The controllers in a simulated cluster: what is written in which order, who is woken, what comes of lost replies."""

import asyncio
import json
from collections import Counter

import pytest
from attrs import evolve

from controllers.cluster import (
    CLAIM,
    CLAIMS,
    CONFIGURATION,
    JOBS,
    NAMESPACE,
    PODS,
    REQUESTS,
    RUNS,
    Cluster,
    in_cluster,
)
from dgdr_retune.api import REPLICATIONS_ANNOTATION, claim_finalizer
from dgdr_retune.kube import Answer, Call, MaybeAppliedError
from dgdr_retune.testing._node import Script
from dgdr_retune.testing._store import Key

LONG = Script(sweeper_s=50_000.0)


def running(cluster: Cluster, run: str = "q-run-1") -> bool:
    return bool((cluster.get(RUNS, run) or {}).get("status", {}).get("phase") == "Running")


def test_a_request_becomes_a_running_job_in_eight_writes_with_the_claim_held_first() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: running(cluster))
        assert cluster.transport.writes() == [
            "patch dynamographdeploymentrequests/status",  # the Run's name is reserved
            "create dynamographdeploymentruns",
            "patch dynamographdeploymentrequests/status",  # the Request is accepted
            "patch dynamographdeploymentruns/status",  # the lowered input
            "patch persistentvolumeclaims",  # the finalizer
            "create jobs",
            "patch dynamographdeploymentruns/status",  # the Job, its start
            "patch dynamographdeploymentruns/status",  # its containers run
        ]

    in_cluster(scenario)


def test_what_is_not_counted_there_is_one_account_and_one_binding_a_namespace() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with cluster.running():
            cluster.request("a")
            await cluster.until(lambda: running(cluster, "a-run-1"))
            cluster.request("b")
            await cluster.until(lambda: running(cluster, "b-run-1"))
        access = [each.what for each in cluster.transport.calls if each.resource in ("serviceaccounts", "rolebindings")]
        assert [each for each in access if each.startswith("create")] == [
            "create serviceaccounts",
            "create rolebindings",
        ]

    in_cluster(scenario, script=LONG)


def test_a_finished_run_keeps_its_job_and_lets_the_claim_go() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with cluster.running() as controllers:
            cluster.request(annotations={REPLICATIONS_ANNOTATION: "5"})
            await cluster.until(cluster.finalizers)
            assert controllers.claim_holders() == {(NAMESPACE, CLAIM): 1}
            await cluster.until(lambda: cluster.reason("q-run-1") == "SearchSucceeded" and not cluster.finalizers())
            await asyncio.sleep(5)
            assert controllers.runs_by_phase() == {(NAMESPACE, "Succeeded"): 1}
            assert controllers.claim_holders() == {}
            assert controllers.queue_depths() == {"request": 0, "run": 0, "claim": 0}
        (job,) = cluster.all(JOBS)
        env = {each["name"]: each.get("value") for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}
        assert env["DGDR_RETUNE_REPLICATIONS"] == "5"
        stored = cluster.get(RUNS, "q-run-1")["status"]["aisimulate"]["input"]
        sent = json.loads(env["DGDR_RETUNE_INPUT"])
        assert sent.pop("dgdr_run")["name"] == "q-run-1"
        assert sent == stored
        assert ("q-run-1", "SearchSucceeded") in cluster.events.recorded

    in_cluster(scenario)


def test_nothing_is_written_while_nothing_happens() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: running(cluster))
            before, looks = len(cluster.transport.writes()), cluster.looks.total()
            await asyncio.sleep(3600)
            assert len(cluster.transport.writes()) == before
            assert cluster.looks.total() - looks < 20  # the watches list everything again twice an hour

    in_cluster(scenario, script=LONG)


def test_a_run_that_is_deleted_on_its_way_to_its_job_still_holds_the_claim_when_the_job_comes() -> None:
    async def scenario(cluster: Cluster) -> None:
        held: list[list[str]] = []

        async def slow(call: Call) -> Answer | None:
            if call.method == "POST" and call.path.endswith("/jobs"):
                cluster.people.delete(Key(RUNS, NAMESPACE, "q-run-1"))
                await asyncio.sleep(8)
                held.append(cluster.finalizers())
            return None

        cluster.transport.instead = slow
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: held)
            assert len(held[0]) == 1
            await cluster.until(lambda: not cluster.finalizers() and not cluster.all(JOBS) and not cluster.all(PODS))

    in_cluster(scenario, script=LONG)


def test_a_claim_that_appears_wakes_the_runs_that_wait_for_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: cluster.reason("q-run-1") == "TraceSourceMissing")
            await asyncio.sleep(1000)
            assert not cluster.all(JOBS)
            cluster.claim()
            await cluster.until(lambda: running(cluster), most_s=10)

    in_cluster(scenario, script=LONG)


def test_a_claim_event_looks_only_at_the_runs_concerned_of_a_thousand() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        for number in range(995):
            cluster.done_run(f"done-{number:03}")
        async with cluster.running():
            for number in range(5):
                cluster.request(f"open-{number}")
            await cluster.until(lambda: all(running(cluster, f"open-{number}-run-1") for number in range(5)))
            await asyncio.sleep(60)
            before, calls = cluster.looks.copy(), len(cluster.transport.calls)
            cluster.people.patch(Key(CLAIMS, NAMESPACE, CLAIM), {"metadata": {"labels": {"a": "b"}}})
            await asyncio.sleep(5)
            assert cluster.looks - before == {"claim": 1}
            before = cluster.looks.copy()
            finalizer = claim_finalizer(cluster.get(RUNS, "open-0-run-1")["metadata"]["uid"])
            held = cluster.get(CLAIMS, CLAIM)["metadata"]["finalizers"]
            kept = [each for each in held if each != finalizer]
            cluster.people.patch(Key(CLAIMS, NAMESPACE, CLAIM), {"metadata": {"finalizers": kept}})
            await asyncio.sleep(5)
            assert cluster.looks - before == {"claim": 1, "run": 1}
            assert cluster.transport.calls[calls:] == []
            before = cluster.looks.copy()
            cluster.people.delete(Key(CLAIMS, NAMESPACE, CLAIM), "Background")
            await cluster.until(lambda: cluster.get(CLAIMS, CLAIM) is None)
            await asyncio.sleep(5)
            assert (cluster.looks - before)["run"] < 5 * 30  # each with the events of its own Job and Pod
            made = cluster.transport.calls[calls:]
            assert Counter(each.verb in ("get", "list") for each in made) == {True: 5 * 7, False: 5 * 7 - 1}
            named = {CLAIM, *(name for number in range(5) for name in (f"open-{number}", f"open-{number}-run-1"))}
            assert {each.name for each in made if each.name} == named

    in_cluster(scenario, script=LONG)


def test_runs_take_turns_where_there_are_more_than_may_have_jobs() -> None:
    most = 0

    async def scenario(cluster: Cluster) -> None:
        nonlocal most
        cluster.claim()
        async with cluster.running(evolve(CONFIGURATION, jobs_per_namespace=2)):
            for number in range(7):
                cluster.request(f"q{number}")
            while not all(cluster.reason(f"q{number}-run-1") == "SearchSucceeded" for number in range(7)):
                unfinished = [job for job in cluster.all(JOBS) if not job.get("status", {}).get("conditions")]
                most = max(most, len(unfinished))
                await asyncio.sleep(0.1)
        assert cluster.loop.time() < 7 * 70  # two at a time, without waiting in between

    in_cluster(scenario)
    assert most == 2


def refusing(cluster: Cluster, plural: str) -> list[str]:
    """Have the server refuse, as Invalid, to create objects of a kind; the calls that it refused."""
    refused: list[str] = []

    async def instead(call: Call) -> Answer | None:
        if not (call.method == "POST" and call.path.endswith(f"/{plural}")):
            return None
        refused.append(call.path)
        said = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "spec.colour: must be blue"}
        return Answer(422, {}, json.dumps(said).encode())

    cluster.transport.instead = instead
    return refused


def test_a_run_that_is_refused_as_invalid_is_reported_and_not_tried_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        refused = refusing(cluster, "dynamographdeploymentruns")
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await asyncio.sleep(4000)
        status = cluster.get(REQUESTS, "q")["status"]
        (accepted,) = status["conditions"]
        assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
        assert "must be blue" in accepted["message"]
        assert (status["observedGeneration"], "activeRunRef" in status, len(refused)) == (1, False, 1)

    in_cluster(scenario)


def test_a_job_that_is_refused_as_invalid_fails_its_run_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        refused = refusing(cluster, "jobs")
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: cluster.reason("q-run-1") == "SearchFailed")
            await cluster.until(lambda: not cluster.finalizers())
            await asyncio.sleep(4000)
        assert len(refused) == 1
        assert "must be blue" in cluster.get(RUNS, "q-run-1")["status"]["conditions"][0]["message"]

    in_cluster(scenario)


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("POST", "/jobs", "create jobs"),
        ("POST", "/serviceaccounts", "create serviceaccounts"),
        ("POST", "/rolebindings", "create rolebindings"),
        ("PATCH", f"/persistentvolumeclaims/{CLAIM}", "patch persistentvolumeclaims"),
    ],
)
def test_what_is_forbidden_on_the_way_to_a_job_is_told_and_asked_for_again(method: str, path: str, what: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        refused: list[str] = []

        async def instead(call: Call) -> Answer | None:
            if not (call.method == method and call.path.endswith(path)):
                return None
            refused.append(call.path)
            message = f"exceeded quota: few-jobs, request {len(refused)}"
            said = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}
            return Answer(403, {}, json.dumps(said).encode())

        def message() -> str:
            (completed,) = cluster.get(RUNS, "q-run-1")["status"]["conditions"]
            assert (completed["status"], completed["reason"]) == ("False", "Pending")
            return str(completed["message"])

        cluster.transport.instead = instead
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await asyncio.sleep(60)
            assert "few-jobs" in message()
            before = len(cluster.transport.calls)
            await asyncio.sleep(600)
            assert f"request {len(refused)}" in message()
            assert 8 < len(refused) < 16
            writes = {each.what for each in cluster.transport.calls[before:] if each.verb in ("create", "patch")}
            assert writes == {what, "patch dynamographdeploymentruns/status"}
            cluster.transport.instead = None
            await cluster.until(lambda: running(cluster), most_s=90)

    in_cluster(scenario, script=LONG)


@pytest.mark.parametrize(("status", "reason"), [(422, "Invalid"), (409, "Conflict")])
def test_a_write_that_is_refused_again_and_again_is_tried_ever_more_rarely(status: int, reason: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        tries = 0

        async def instead(call: Call) -> Answer | None:
            nonlocal tries
            if not (call.method == "PATCH" and "/dynamographdeploymentruns/" in call.path):
                return None
            tries += 1
            said = {"kind": "Status", "code": status, "reason": reason, "message": "the stored object breaks a rule"}
            return Answer(status, {}, json.dumps(said).encode())

        cluster.transport.instead = instead
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await asyncio.sleep(600)
            assert 10 < tries < 40
            cluster.transport.instead = None
            await cluster.until(lambda: running(cluster), most_s=60)

    in_cluster(scenario, script=LONG)


@pytest.mark.parametrize("which", range(1, 9))
def test_a_lost_reply_to_any_write_leads_to_the_same_end(which: int) -> None:
    writes = 0

    async def scenario(cluster: Cluster) -> None:
        async def instead(call: Call) -> Answer | None:
            nonlocal writes
            if call.method == "GET" or call.path.endswith(("serviceaccounts", "rolebindings")):
                return None
            writes += 1
            if writes != which:
                return None
            await cluster.transport.inner.send(call)
            raise MaybeAppliedError("the reply was lost")

        cluster.claim()
        cluster.transport.instead = instead
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: running(cluster), most_s=60)
        assert len(cluster.all(RUNS)) == len(cluster.all(JOBS)) == len(cluster.all(PODS)) == 1
        assert writes >= 8

    in_cluster(scenario, script=LONG)


def test_after_a_lost_reply_everything_is_read_before_anything_is_written() -> None:
    async def scenario(cluster: Cluster) -> None:
        at = 0

        async def instead(call: Call) -> Answer | None:
            nonlocal at
            if at or not (call.method == "POST" and call.path.endswith("/jobs")):
                return None
            at = len(cluster.transport.calls)
            raise MaybeAppliedError("the connection broke")

        cluster.claim()
        cluster.transport.instead = instead
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: running(cluster), most_s=60)
        after = [each.what for each in cluster.transport.calls[at:]]
        first_write = next(index for index, what in enumerate(after) if what.split()[0] not in ("get", "list", "watch"))
        read = set(after[:first_write])
        assert read >= {
            "get dynamographdeploymentrequests",
            "get dynamographdeploymentruns",
            "get persistentvolumeclaims",
            "get jobs",
            "list jobs",
            "list pods",
        }

    in_cluster(scenario, script=LONG)


def test_a_run_that_is_deleted_with_others_is_cleaned_up_with_one_list_of_a_kind_a_pass() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with cluster.running():
            for number in range(6):
                cluster.request(f"q{number}")
            await cluster.until(lambda: all(running(cluster, f"q{number}-run-1") for number in range(6)))
            await asyncio.sleep(60)
            before, looks = len(cluster.transport.calls), cluster.looks["claim"]
            for number in range(6):
                cluster.people.delete(Key(REQUESTS, NAMESPACE, f"q{number}"), "Background")
            await cluster.until(lambda: not cluster.finalizers())
            lists = [each.what for each in cluster.transport.calls[before:] if each.verb == "list"]
            passes = cluster.looks["claim"] - looks
            assert 0 < lists.count("list jobs") <= passes
            assert 0 < lists.count("list pods") <= passes
            assert not cluster.all(JOBS)
            assert not cluster.all(PODS)

    in_cluster(scenario, script=LONG)


def test_one_request_that_is_deleted_costs_four_lists_of_a_kind_at_most() -> None:
    """Its Run is gone, its Job is stopped, its Pod is gone, its Job is gone: what happens in between costs nothing."""

    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: running(cluster))
            await asyncio.sleep(60)
            before = len(cluster.transport.calls)
            cluster.people.delete(Key(REQUESTS, NAMESPACE, "q"), "Background")
            await cluster.until(lambda: not cluster.finalizers())
            await asyncio.sleep(60)
        made = Counter(each.what for each in cluster.transport.calls[before:] if each.verb != "watch")
        lists = [made[f"list {each}"] for each in ("dynamographdeploymentruns", "jobs", "pods")]
        assert lists in ([2] * 3, [3] * 3, [4] * 3)
        assert made.total() == sum(lists) + 2
        assert made["patch persistentvolumeclaims"] == made["delete jobs"] == 1

    in_cluster(scenario, script=LONG)


def test_the_controllers_stop_at_once_and_leave_nothing_running() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: running(cluster))
            began = cluster.loop.time()
        assert cluster.loop.time() - began < 1
        assert len(asyncio.all_tasks()) == 1

    in_cluster(scenario, script=LONG)


def test_nothing_is_decided_before_every_watch_has_shown_what_there_is() -> None:
    async def scenario(cluster: Cluster) -> None:
        blocked = asyncio.Event()

        async def instead(call: Call) -> Answer | None:
            if call.path.endswith("/pods"):
                await blocked.wait()
            return None

        cluster.claim()
        cluster.request()
        cluster.transport.instead = instead
        controllers = cluster.controllers()
        task = asyncio.create_task(controllers.run())
        await asyncio.sleep(10)
        assert not controllers.synced
        assert cluster.transport.writes() == []
        blocked.set()
        await cluster.until(lambda: running(cluster))
        task.cancel()
        await asyncio.wait([task])

    in_cluster(scenario, script=LONG)
