"""What the publisher is granted, and what it does: on the simulated server, and on a real one that enforces it."""

import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.judges import ServerJudge, definitions
from tests.controlplane.control_plane import ControlPlane
from tests.publisher.conftest import Play
from tests.publisher.snapshots import SERVICE, candidate, deployment, manifest, snapshot, text, unmaterialized
from tests.publisher.world import RUN_BODY, UID_LABEL, Fault, World

from dgdr_retune.api import SNAPSHOT_FILE, candidate_name
from dgdr_retune.kube import Call
from dgdr_retune.publisher._act import CANDIDATES, RUNS
from dgdr_retune.publisher._errors import Exit
from dgdr_retune.publisher._rules import RULES, publisher_cluster_role

Json = Any

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def right(call: Call) -> tuple[str, str, str]:
    """Group, resource and verb of a call, as RBAC judges it."""
    parts = call.path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    resource, *name = parts[parts.index("namespaces") + 2 :]
    verb = VERBS.get(call.method) or ("get" if name else "list")
    return group, "/".join([resource, *name[1:]]), verb


def test_every_right_is_used_and_every_one_used_is_granted(world: World, play: Play) -> None:
    async def scenario() -> None:
        async def hide(call: Call) -> None:
            """Take the label from a Candidate that is not finished, so that it is met by its name."""
            if call.method == "POST":
                (made,) = (await world.candidates()).values()
                bare = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "labels": None}}
                await world.admin.patch(CANDIDATES, "default", made["metadata"]["name"], bare)
                world.transport.after_write = None

        world.write(snapshot(candidate(1.0), phase="Succeeded"))
        world.transport.after_write = hide
        world.transport.faults = [Fault(at=1, before=False, killed=True)]
        assert await world.publish() is Exit.ACKNOWLEDGED

    play(scenario())
    granted = {(group, resource, verb) for group, resource, verbs in RULES for verb in verbs}
    assert {right(call) for call in world.transport.calls} == granted


PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from dgdr_retune.kube import InCluster
from dgdr_retune.publisher._main import publish
from dgdr_retune.publisher._settings import read_settings
token, authority, *flags = sys.argv[1:]
sys.exit(asyncio.run(publish(read_settings(flags, os.environ), InCluster(Path(token), Path(authority)))))
"""

SPACE = "publisher"
ROLE = "dgdr-retune-publisher"
POD = "qwen-run-1-abcde"
WITHIN_S = 60.0


class Cluster:
    """The real API server as its administrator sees it, and a publisher with an account of its own."""

    def __init__(self, plane: ControlPlane, client: httpx.Client, directory: Path) -> None:
        self.plane = plane
        self.client = client
        self.directory = directory
        self.token = directory / "token"

    def send(self, method: str, path: str, body: Json = None, **headers: str) -> Json:
        content = None if body is None else json.dumps(body)
        answer = self.client.request(
            method, path, content=content, headers={"Content-Type": "application/json"} | headers
        )
        assert answer.is_success, answer.text
        return answer.json()

    def prepare(self) -> None:
        judge = ServerJudge(self.client)
        for definition in definitions():
            judge.install(definition)
        judge.wait_until(refuses_nonsense=True)
        core, rbac = "/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1"
        self.send("POST", core, {"metadata": {"name": SPACE}})
        for account in ("default", ROLE):
            self.send("POST", f"{core}/{SPACE}/serviceaccounts", {"metadata": {"name": account}})
        self.send("POST", f"{rbac}/clusterroles", publisher_cluster_role(ROLE))
        subject = {"kind": "ServiceAccount", "name": ROLE, "namespace": SPACE}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
        binding = {"metadata": {"name": ROLE}, "roleRef": reference, "subjects": [subject]}
        self.send("POST", f"{rbac}/namespaces/{SPACE}/rolebindings", binding)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        token = self.send("POST", f"{core}/{SPACE}/serviceaccounts/{ROLE}/token", asked)
        self.token.write_text(token["status"]["token"])
        uid = self.send("POST", RUNS.path(SPACE), RUN_BODY)["metadata"]["uid"]
        containers = [{"name": name, "image": "none"} for name in ("sweeper", "publisher")]
        pod = {"metadata": {"name": POD, "labels": {UID_LABEL: uid}}, "spec": {"containers": containers}}
        self.send("POST", f"{core}/{SPACE}/pods", pod)

    def run(self) -> Json:
        return self.send("GET", RUNS.path(SPACE, RUN_BODY["metadata"]["name"]))

    def candidates(self) -> dict[str, Json]:
        return {each["metadata"]["name"]: each for each in self.send("GET", CANDIDATES.path(SPACE))["items"]}

    def end_sweeper(self, code: int) -> None:
        state = {"name": "sweeper", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
        status = {"containerStatuses": [state | {"state": {"terminated": {"exitCode": code}}}]}
        merge = {"Content-Type": "application/merge-patch+json"}
        self.send("PATCH", f"/api/v1/namespaces/{SPACE}/pods/{POD}/status", {"status": status}, **merge)

    def write(self, document: Json) -> None:
        (self.directory / "new").write_bytes(text(document))
        (self.directory / "new").rename(self.directory / SNAPSHOT_FILE)

    @contextmanager
    def publisher(self) -> Iterator[subprocess.Popen[bytes]]:
        url = httpx.URL(self.plane.url)
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", PROGRAM, str(self.token), str(self.plane.certificates.authority)),
                *("--snapshot-dir", str(self.directory), "--run-name", RUN_BODY["metadata"]["name"]),
                *("--poll-interval", "50ms"),
            ],
            env={
                "PATH": os.environ["PATH"],
                "POD_NAMESPACE": SPACE,
                "POD_NAME": POD,
                "KUBERNETES_SERVICE_HOST": url.host,
                "KUBERNETES_SERVICE_PORT": str(url.port),
            },
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def cluster(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    with control_plane.client() as client:
        made = Cluster(control_plane, client, tmp_path)
        made.prepare()
        yield made


def test_a_real_server_lets_the_publisher_do_its_work_and_nothing_else(cluster: Cluster) -> None:
    uid, name = cluster.run()["metadata"]["uid"], RUN_BODY["metadata"]["name"]
    first, second, third = (candidate(number, manifest=manifest(deployment(), SERVICE)) for number in (1.0, 2.0, 3.0))
    names = [candidate_name(name, uid, each["id"]) for each in (first, second, third)]

    def refs() -> list[str]:
        return [each["name"] for each in cluster.run().get("status", {}).get("candidateRefs", [])]

    cluster.write(snapshot(first, second, evaluated=2))
    with cluster.publisher() as process:
        cluster.until(lambda: refs() == names[:2])
        process.kill()  # at any instruction
    gone = cluster.candidates()[names[1]]
    cluster.send("DELETE", CANDIDATES.path(SPACE, names[1]))
    with cluster.publisher() as process:
        cluster.until(lambda: names[1] in cluster.candidates())
        cluster.write(snapshot(third, first, unmaterialized(4.0), round_=2, evaluated=4))
        cluster.until(lambda: sorted(cluster.candidates()) == sorted([names[2], names[0]]))
        process.terminate()
        assert process.wait(timeout=10) == Exit.NOT_RECONCILED
    last = snapshot(second, third, phase="Succeeded", round_=2, evaluated=5, run={"message": "done"})
    cluster.write(last)
    cluster.end_sweeper(0)
    with cluster.publisher() as process:
        assert process.wait(timeout=WITHIN_S) == Exit.ACKNOWLEDGED

    found = cluster.candidates()
    assert sorted(found) == sorted(names[1:])
    assert refs() == names[1:]
    assert found[names[1]]["metadata"]["uid"] != gone["metadata"]["uid"]
    for each in (second, third):
        one = found[candidate_name(name, uid, each["id"])]
        assert one["spec"] == {**deployment()["spec"], "parameters": each["parameters"]}
        assert one["status"]["metrics"] == each["metrics"]
        assert [each["status"] for each in one["status"]["conditions"]] == ["True"]
    assert cluster.run()["status"] == {
        "candidateRefs": [{"name": each} for each in names[1:]],
        "progress": {"round": 2, "evaluated": 5, "candidates": {"published": 2}},
        "message": "done",
        "lastProgressTime": "2026-10-01T12:00:00Z",
    }

    with httpx.Client(
        base_url=cluster.plane.url,
        verify=ssl.create_default_context(cafile=cluster.plane.certificates.authority),
        headers={"Authorization": f"Bearer {cluster.token.read_text()}"},
        trust_env=False,
    ) as account:
        merge = {"Content-Type": "application/merge-patch+json"}
        for path in (RUNS.path(SPACE, name), CANDIDATES.path(SPACE, names[1])):
            assert account.patch(path, json={"metadata": {"labels": {"a": "b"}}}, headers=merge).status_code == 403
        assert account.get(f"/api/v1/namespaces/{SPACE}/secrets").status_code == 403
        assert account.get(CANDIDATES.path("default")).status_code == 403
