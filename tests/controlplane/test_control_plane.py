"""The control plane that other tests rely on."""

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.controlplane.control_plane import ControlPlane, ControlPlaneError, _wait_until_ready
from tests.controlplane.processes import Process

ROOT = Path(__file__).parents[2]


def test_an_administrator_is_let_in_and_a_stranger_is_not(control_plane: ControlPlane) -> None:
    with control_plane.client() as client:
        assert client.get("/api/v1/namespaces/default").status_code == 200
    elsewhere = ("--kubeconfig=/dev/null", f"--server={control_plane.url}", "--insecure-skip-tls-verify")
    stranger = control_plane.kubectl("get", "namespaces", *elsewhere, "--token=x")
    assert stranger.returncode != 0


def test_kubectl_talks_to_it(control_plane: ControlPlane) -> None:
    shown = control_plane.kubectl("version", "-o", "json")
    assert shown.returncode == 0, shown.stderr
    version = json.loads(shown.stdout)
    assert version["clientVersion"]["gitVersion"] == version["serverVersion"]["gitVersion"]


def test_each_process_leads_a_session_of_its_own(control_plane: ControlPlane) -> None:
    assert [process.name for process in control_plane.processes] == ["etcd", "kube-apiserver"]
    for process in control_plane.processes:
        assert os.getsid(process.pid) == process.pid


def test_a_process_that_ignores_sigterm_is_made_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.controlplane.processes.PATIENCE_S", 0.1)
    deaf = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    process = Process([sys.executable, "-c", deaf], log=tmp_path / "log")
    while not process.log.read_text():
        assert not process.ended()
    process.end()
    assert process.ended()


def test_a_program_that_ends_at_once_is_reported_with_its_log(tmp_path: Path, control_plane: ControlPlane) -> None:
    broken = Process([sys.executable, "-c", "print('no such flag')"], log=tmp_path / "log")
    broken._process.wait()
    plane = ControlPlane(
        "https://127.0.0.1:1",
        control_plane.certificates,
        control_plane.kubeconfig,
        control_plane.kubectl_path,
        tmp_path,
        (broken,),
    )
    with pytest.raises(ControlPlaneError, match="no such flag"):
        _wait_until_ready(plane)


def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = """
        import signal, sys
        from pathlib import Path
        from tests.controlplane.processes import Process
        lasting = "import signal; print('up', flush=True); signal.pause()"
        child = Process([sys.executable, "-c", lasting], log=Path(sys.argv[1]))
        while not child.log.read_text():
            pass
        print(child.pid, flush=True)
        signal.pause()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    ready, _, _ = select.select([child], [], [], 10)
    os.close(child)
    assert ready, "the child outlived its parent by 10 s"
