"""Operators in a simulated cluster: one of them leads, hands over, and is held to its rights."""

import asyncio
import copy
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from controllers.cluster import (
    JOBS,
    NAMESPACE,
    PODS,
    REQUEST,
    REQUESTS,
    RUNS,
    Cluster,
    Recorded,
    in_cluster,
)
from dgdr_retune.operator import Operator, Settings
from dgdr_retune.testing import SimulatedTransport
from dgdr_retune.testing._node import Script, Waiting
from dgdr_retune.testing._store import Key

DEPLOY = Path(__file__).parents[2] / "deploy" / "operator"
HOME = "dgdr-retune"
LEASE = Key("coordination.k8s.io/leases", HOME, "dgdr-retune-operator")
LONG = Script(sweeper_s=50_000.0)


def settings(**more: Any) -> Settings:
    images = {
        "sweeper_image": "registry.example/dgdr-retune:0.1.0",
        "publisher_image": "registry.example/dgdr-retune:0.1.0",
        "runtime_image": "registry.example/vllm-runtime:1.6.1",
    }
    return Settings.model_validate({"operator_namespace": HOME, "http_port": None, **images, **more})


@asynccontextmanager
async def running(cluster: Cluster, seed: int = 1, **more: Any) -> AsyncIterator[tuple[Operator, Recorded]]:
    if cluster.people.get(Key("/namespaces", "", HOME)) is None:
        cluster.people.create("/namespaces", "", {"metadata": {"name": HOME}})
    transport = Recorded(SimulatedTransport(cluster.world.server))
    rng = random.Random(seed)  # noqa: S311 - jitter
    operator = Operator(settings(**more), transport, now=cluster.loop.now, rng=rng)
    task = asyncio.create_task(operator.run())
    try:
        yield operator, transport
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()


def holder(cluster: Cluster) -> Any:
    lease = cluster.people.get(LEASE)
    return None if lease is None else lease["spec"].get("holderIdentity")


def test_an_operator_leads_works_and_releases_its_lease_when_it_is_stopped() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with running(cluster, identity="pod-1") as (operator, _):
            await cluster.until(lambda: operator.is_leader)
            assert holder(cluster).startswith("pod-1_")
            cluster.request()
            await cluster.until(lambda: cluster.reason("q-run-1") == "EvaluatingCandidates")
            assert b"dgdr_retune_leader 1.0" in generate_latest(operator.metrics)
            stopped = cluster.loop.time()
        assert cluster.loop.time() - stopped < 10
        assert b"dgdr_retune_leader 0.0" in generate_latest(operator.metrics)
        assert not operator.is_leader
        assert holder(cluster) is None

    in_cluster(scenario, script=LONG)


def test_of_two_operators_one_works_and_the_other_takes_over_at_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with running(cluster, 2) as (second, theirs):
            async with running(cluster, 1) as (first, ours):
                await cluster.until(lambda: first.is_leader or second.is_leader)
                leader, idle = (first, theirs) if first.is_leader else (second, ours)
                cluster.request("a")
                await cluster.until(lambda: cluster.reason("a-run-1") == "EvaluatingCandidates")
                assert {each.resource for each in idle.calls} == {"leases"}
                assert leader.why_not_ready() == ""
                assert (second if leader is first else first).why_not_ready() == ""
            await cluster.until(lambda: second.is_leader, most_s=5)
            cluster.request("b")
            await cluster.until(lambda: cluster.reason("b-run-1") == "EvaluatingCandidates", most_s=60)
        assert len(cluster.all(JOBS)) == 2

    in_cluster(scenario, script=LONG)


def test_a_leader_that_wakes_up_in_a_term_that_is_over_writes_nothing_before_it_leads_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.people.create("/namespaces", "", {"metadata": {"name": HOME}})
        cluster.claim()
        process = cluster.loop.process("operator")
        transport = Recorded(SimulatedTransport(cluster.world.server))
        operator = Operator(settings(), transport, now=process.now, rng=random.Random(1))  # noqa: S311 - jitter
        task = process.spawn(operator.run())
        await cluster.until(lambda: not operator.why_not_ready() and holder(cluster))
        await asyncio.sleep(10)
        process.freeze()
        cluster.request()
        await asyncio.sleep(60)
        before = len(transport.calls)
        process.thaw()
        await cluster.until(lambda: cluster.reason("q-run-1") == "EvaluatingCandidates")
        writes = [each for each in transport.calls[before:] if each.verb not in ("get", "list", "watch")]
        assert writes[0].what == "update leases"
        task.cancel()
        await asyncio.wait([task])

    in_cluster(scenario, script=LONG)


def test_two_processes_of_one_host_are_two_candidates() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with (
            running(cluster, 1, identity="same") as (first, _),
            running(cluster, 2, identity="same") as (second, _),
        ):
            await asyncio.sleep(60)
            assert first.is_leader != second.is_leader

    in_cluster(scenario)


def test_a_leader_is_ready_once_its_caches_are_filled() -> None:
    async def scenario(cluster: Cluster) -> None:
        blocked = asyncio.Event()

        async def instead(call: Any) -> None:
            if call.path.endswith("/jobs"):
                await blocked.wait()

        async with running(cluster) as (operator, transport):
            transport.instead = instead
            await cluster.until(lambda: operator.is_leader)
            await asyncio.sleep(5)
            assert operator.why_not_ready() == "the caches are not filled yet"
            blocked.set()
            await cluster.until(lambda: not operator.why_not_ready(), most_s=5)

    in_cluster(scenario)


def test_an_operator_with_webhooks_is_ready_once_there_is_a_certificate(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        files = {"webhook_certificate": tmp_path / "tls.crt", "webhook_key": tmp_path / "tls.key"}
        async with running(cluster, **files) as (operator, _):
            await cluster.until(lambda: operator.is_leader)
            await asyncio.sleep(60)
            assert operator.why_not_ready() == "the webhooks have no certificate yet"

    in_cluster(scenario)


def test_an_operator_of_one_namespace_asks_for_nothing_elsewhere() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.people.create("/namespaces", "", {"metadata": {"name": "other"}})
        elsewhere = {"metadata": {"name": "q", "namespace": "other"}, "spec": copy.deepcopy(REQUEST["spec"])}
        cluster.people.create(REQUESTS, "other", elsewhere)
        cluster.claim()
        paths: list[str] = []

        async def instead(call: Any) -> None:
            paths.append(call.path)

        async with running(cluster, namespace=NAMESPACE) as (_, transport):
            transport.instead = instead
            cluster.request()
            await cluster.until(lambda: cluster.reason("q-run-1") == "EvaluatingCandidates")
        assert not list(cluster.people.all(RUNS, "other"))
        assert all(f"/namespaces/{NAMESPACE}/" in path or f"/namespaces/{HOME}/" in path for path in paths)

    in_cluster(scenario, script=LONG)


# Rights


def rights(documents: list[Any], *roles: tuple[str, str]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for each in documents
        if (each["kind"], each["metadata"]["name"]) in roles
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_exactly_the_rights_that_are_granted_are_used() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "access.yaml").read_text()))
    name = "dgdr-retune-operator"
    granted = rights(documents, ("ClusterRole", name), ("Role", name))
    used: set[tuple[str, str, str]] = set()

    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        cluster.claim("blocks", mode="Block")
        async with running(cluster, history_limit=1) as (_, transport):
            cluster.request()
            await cluster.until(lambda: cluster.reason("q-run-1") == "SearchSucceeded")
            cluster.world.script = LONG
            for rounds in (7, 8):  # the second supersedes the first, whose Job is stopped
                cluster.people.patch(
                    Key(REQUESTS, NAMESPACE, "q"), {"spec": {"search": {"budget": {"maxRounds": rounds}}}}
                )
                await cluster.until(lambda n=rounds - 5: cluster.reason(f"q-run-{n}") == "EvaluatingCandidates")
            cluster.request("b", claim="blocks")  # fails for good, by the durable marker
            await cluster.until(lambda: cluster.reason("b-run-1") == "TraceSourceUnavailable")
            cluster.people.delete(Key(RUNS, NAMESPACE, "q-run-3"), "Background")
            await cluster.until(lambda: not cluster.finalizers() and not cluster.all(PODS))
            await cluster.until(lambda: cluster.get(RUNS, "q-run-1") is None)
            cluster.world.script = Script(waiting=Waiting("sweeper", "ErrImagePull", "not found"))
            cluster.request("c")
            await cluster.until(lambda: cluster.reason("c-run-1") == "ContainerWaiting")
            cluster.world.script = LONG  # what was said before is said again, which changes its Event
            await cluster.until(lambda: cluster.reason("c-run-1") == "EvaluatingCandidates")
            await asyncio.sleep(60)
            used.update((each.group, each.resource, each.verb) for each in transport.calls)

    in_cluster(scenario)
    bind = ("rbac.authorization.k8s.io", "clusterroles", "bind")  # asked for by the API server, for a binding
    assert used - granted == set()
    assert granted - used == {bind}


@pytest.mark.parametrize("name", ["access.yaml", "deployment.yaml"])
def test_the_manifests_name_no_namespace_but_that_of_the_subjects(name: str) -> None:
    for each in yaml.safe_load_all((DEPLOY / name).read_text()):
        assert "namespace" not in each["metadata"]


def test_the_deployment_gives_every_setting_that_is_required_and_stays_ready_for_the_restricted_standard() -> None:
    deployment = yaml.safe_load((DEPLOY / "deployment.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given = {
        each["name"].removeprefix("DGDR_RETUNE_").lower(): each.get("value", "198.51.100.1")
        for each in container["env"]
    }
    given["operator_namespace"] = HOME
    Settings.model_validate(given)
    assert container["command"] == ["python", "-m", "dgdr_retune.operator"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["ports"][0]["containerPort"] == settings(http_port=8080).http_port
