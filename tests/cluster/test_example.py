"""The steps of examples/cluster, as a person takes them, with the operator as its manifests deploy it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.cluster.audit import FORBIDDEN, asked
from tests.cluster.cluster import Cluster
from tests.cluster.installation import Installation, install_rights
from tests.cluster.observer import Observer
from tools.cluster.image import NAME as IMAGE

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "cluster"
QUICKSTART = ROOT / "examples" / "quickstart"
NAMESPACE = "retune-example"
WITHIN_S = 240

pytestmark = pytest.mark.root


def _window(directory: Path) -> Path:
    """The quickstart's window, cut beside this test's other files."""
    configuration = yaml.safe_load((QUICKSTART / "retune.yaml").read_text())
    configuration["recording"] |= {"segments": str(QUICKSTART / "segments"), "windows": str(directory / "windows")}
    file = directory / "retune.yaml"
    file.write_text(yaml.safe_dump(configuration))
    subprocess.run([sys.executable, "-m", "dgdr_retune", "cut", str(file)], check=True, capture_output=True)
    (window,) = (directory / "windows").rglob("*.jsonl.gz")
    return window


def _provide_volume(cluster: Cluster, directory: Path) -> None:
    """What a storage class of a real cluster would: a volume that the frontends' group may write to."""
    directory.mkdir()
    shutil.chown(directory, 65532, 65532)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "example"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(directory)},
            "claimRef": {"namespace": NAMESPACE, "name": "request-traces"},
        },
    }
    done = cluster.kubectl("create", "-f", "-", stdin=json.dumps(volume))
    assert done.returncode == 0, done.stderr


def _steps(cluster: Cluster, window: Path, *steps: str) -> str:
    """Run steps of the script; what they printed for a person."""
    environment = os.environ | {
        "KUBECONFIG": str(cluster.kubeconfig),
        "KUBECACHEDIR": str(cluster.directory / "kubectl-cache"),
        "KUBECTL": str(cluster.programs / "kubectl"),
        "IMAGE": IMAGE,
        "WINDOW": str(window),
    }
    command = ["bash", str(EXAMPLE / "steps.sh"), *steps]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_steps_lead_from_a_recorded_window_to_ranked_candidates_and_leave_nothing(
    cluster: Cluster, installation: Installation, observer: Observer, tmp_path: Path
) -> None:
    window = _window(tmp_path)
    _provide_volume(cluster, tmp_path / "volume")
    _steps(cluster, window, "install", "claim", "upload", "ask", "watch")
    address = f"/apis/nvidia.com/v1beta2/namespaces/{NAMESPACE}"
    with cluster.client() as client:
        run = client.get(f"{address}/dynamographdeploymentruns/chat-run-1").raise_for_status().json()
        assert run["status"]["phase"] == "Succeeded", run["status"]
        names = [each["name"] for each in run["status"]["candidateRefs"]]
        found = client.get(f"{address}/dynamographdeploymentcandidates").raise_for_status().json()["items"]
        candidates = {each["metadata"]["name"]: each for each in found}
        assert sorted(names) == sorted(candidates)
        assert len(names) == 5
        scores = [candidates[name]["status"]["metrics"]["mean_ttft_ms"] for name in names]
        assert scores == sorted(scores)
        assert all(candidates[name]["status"]["metrics"]["completed_requests"] == 3000 for name in names)
    shown = _steps(cluster, window, "result").splitlines()
    assert [line.split()[0] for line in shown[1:6]] == names
    best = yaml.safe_load("\n".join(shown[6:]))
    assert best["spec"]["parameters"]["adapters"]["dynamo.router"].keys() >= {"overlap_score_credit", "temperature"}
    _steps(cluster, window, "clean")
    with cluster.client() as client:
        assert client.get(f"/api/v1/namespaces/{NAMESPACE}").status_code == 404
    assert observer.violations() == []
    assert [each for each in asked(cluster, installation.user) if each.status == FORBIDDEN] == []
    _steps(cluster, window, "uninstall")
    install_rights(cluster)  # for other tests
