"""The node that other tests rely on: it runs pods, and nothing of it is left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from tests.cluster.inside import SYSCTLS
from tests.cluster.keeper import CONTROL_GROUPS
from tests.cluster.namespace import Namespace
from tests.cluster.pods import pod_spec, python_container

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.root

ASK_THE_API_SERVER = """
import asyncio, kubernetes_asyncio as k
async def main():
    k.config.load_incluster_config()
    async with k.client.ApiClient() as api:
        try:
            await k.client.CoreV1Api(api).list_namespaced_pod("default")
        except k.client.ApiException as error:
            print("status", error.status, error.reason)
asyncio.run(main())
"""
READ_THE_TRACE = "import pathlib; print(pathlib.Path('/trace/trace.jsonl').read_text())"


def _log(namespace: Namespace, pod: str) -> str:
    shown = namespace.cluster.kubectl("--namespace", namespace.name, "logs", pod)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_a_pod_reaches_the_api_server_with_its_service_account_and_may_not_do_what_nobody_granted(
    namespace: Namespace,
) -> None:
    spec = pod_spec(python_container(ASK_THE_API_SERVER))
    namespace.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asks"}, "spec": spec})
    namespace.wait("pod that ended", lambda: _phase(namespace, "asks") == "Succeeded")
    assert _log(namespace, "asks").startswith("status 403")


def test_a_pod_that_is_not_restricted_is_refused(namespace: Namespace) -> None:
    spec = pod_spec(python_container("pass", securityContext={}))
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "free"}, "spec": spec}
    answer = namespace.client.post(namespace.path("pods"), json=document)
    assert answer.status_code == 403
    assert "allowPrivilegeEscalation != false" in answer.text


def test_a_job_reads_one_file_of_a_claim_through_its_sub_path(namespace: Namespace) -> None:
    directory = namespace.make_claim("traces")
    (directory / "windows").mkdir()
    (directory / "windows" / "1.jsonl").write_text("a row")
    mount = {"name": "trace", "mountPath": "/trace/trace.jsonl", "subPath": "windows/1.jsonl", "readOnly": True}
    volume = {"name": "trace", "persistentVolumeClaim": {"claimName": "traces"}}
    template = {"spec": pod_spec(python_container(READ_THE_TRACE, volumeMounts=[mount]), volumes=[volume])}
    spec = {"backoffLimit": 0, "template": template}
    namespace.create("jobs", {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "reads"}, "spec": spec})
    job = namespace.wait("finished Job", lambda: _finished(namespace, "reads"))
    assert job == "Complete"
    assert _log(namespace, "job/reads") == "a row\n"


def _phase(namespace: Namespace, name: str) -> str:
    pod = namespace.get("pods", name)
    assert pod is not None
    return str(pod["status"].get("phase"))


def _finished(namespace: Namespace, name: str) -> str | None:
    job = namespace.get("jobs", name)
    assert job is not None
    for condition in job["status"].get("conditions", []):
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return None


STARTER = """
import sys
from pathlib import Path
from tests.cluster.cluster import running
from tests.cluster.programs import PAUSE_IMAGE
from tests.cluster.namespace import Namespace
with running(Path(sys.argv[1]), Path(sys.argv[2])) as cluster, Namespace.made(cluster, "left", Path()) as namespace:
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "pause", "image": PAUSE_IMAGE, "imagePullPolicy": "Never", "securityContext": own}
    spec = {"containers": [container], "securityContext": security}
    namespace.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "runs"}, "spec": spec})
    namespace.wait("running pod", lambda: namespace.get("pods", "runs")["status"]["phase"] == "Running")
    print(cluster.first_process, flush=True)
    sys.stdin.read()
"""


def _machine() -> dict[str, str]:
    """What a cluster could leave on the machine, beside processes."""
    kept = {name: path.read_text() for name in SYSCTLS if (path := Path("/proc/sys", name)).exists()}
    kept["mounts"] = Path("/proc/self/mountinfo").read_text()
    kept["interfaces"] = " ".join(sorted(os.listdir("/sys/class/net")))  # noqa: PTH208 - names are wanted
    return kept


def _processes(first: int, control_group: str, directory: Path) -> dict[Path, str]:
    """The command lines of a cluster's processes: in its process namespace, in a pod's, or outside of both."""
    namespace = Path(f"/proc/{first}/ns/pid").readlink()
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                inside = (path / "ns" / "pid").readlink() == namespace
                if inside or control_group in (path / "cgroup").read_text() or f"{directory}/" in command:
                    found[path] = command
    return found


def test_nothing_is_left_when_the_starter_is_killed(node_programs: Path, tmp_path: Path) -> None:
    before = _machine()
    directory = tmp_path / "cluster"
    directory.mkdir()
    starter = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(STARTER), str(node_programs), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
        start_new_session=True,
    )
    assert starter.stdout is not None
    assert starter.stdin is not None
    first = int(starter.stdout.readline())
    control_group = f"dgdr-retune-{starter.pid}-"
    ours = _processes(first, control_group, directory)
    for name in ("keeper.py", "kubelet", "containerd-shim", "/pause"):
        assert any(name in command for command in ours.values()), name
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdin.close()
    starter.stdout.close()
    deadline = time.monotonic() + 30
    while left := {path: command for path, command in ours.items() if path.exists()}:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert [path.name for path in directory.iterdir()] == ["logs"]
    assert not list(CONTROL_GROUPS.glob(f"**/{control_group}*"))
    assert _machine() == before
