"""The Run Job: golden files for our sweeper and for that of Dynamo's planner image, and what must hold of any Job."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from dgdr_retune.api import REPLICATIONS_ANNOTATION, RUN_UID_LABEL, label_value
from dgdr_retune.controllers import AISIMULATE_COMMAND, Configuration, JobError, publisher_account, publisher_binding
from dgdr_retune.controllers import run_job as rendered
from dgdr_retune.lowering import lower

GOLDEN = Path(__file__).parent / "golden"
REQUEST = json.loads((Path(__file__).parents[1] / "data" / "trace_request_lowering.golden.json").read_text())["request"]
OURS = Configuration(
    sweeper_image="registry.example/dgdr-retune:0.1.0",
    publisher_image="registry.example/dgdr-retune:0.1.0",
    runtime_image="registry.example/vllm-runtime:1.6.1",
)
PLANNER = evolve(OURS, sweeper_image="registry.example/dynamo-planner:1.7.0", sweeper_command=AISIMULATE_COMMAND)
UID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


def run(*, name: str = "qwen-run-1", uid: str = UID, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentRun",
        "metadata": {
            "name": name,
            "namespace": "inference",
            "uid": uid,
            "annotations": {REPLICATIONS_ANNOTATION: "3"} if annotations is None else annotations,
        },
        "spec": copy.deepcopy(REQUEST["spec"]) | spec,
    }


def job(run: dict[str, Any], configuration: Configuration = OURS) -> Any:
    return rendered(run, lower(run), configuration)


def pod(run: dict[str, Any], configuration: Configuration = OURS) -> Any:
    return job(run, configuration)["spec"]["template"]["spec"]


def sweeper(run: dict[str, Any], configuration: Configuration = OURS) -> Any:
    return pod(run, configuration)["containers"][0]


def environment(container: Any) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"]}


def static() -> dict[str, Any]:
    made = run(workload={"static": {"isl": 10, "osl": 10, "concurrency": 1}})
    del made["spec"]["aisimulate"]["inputOverrides"]
    return made


@pytest.mark.parametrize(("name", "configuration"), [("ours", OURS), ("planner_image", PLANNER)])
def test_a_traces_job_is_the_golden_one(name: str, configuration: Configuration) -> None:
    path = GOLDEN / f"trace_job.{name}.yaml"
    made = job(run(), configuration)
    if path.exists() and yaml.safe_load(path.read_text()) == made:
        return
    new = path.with_name(f"{path.name}.new")
    new.write_text(yaml.safe_dump(made, sort_keys=False, width=118))
    pytest.fail(f"if that is meant, accept it with: mv {new} {path}")


def test_the_planner_images_command_finds_the_input_in_its_file(tmp_path: Path) -> None:
    seen, given_file = tmp_path / "seen", str(tmp_path / "input.yaml")
    program = f"import shutil, sys; shutil.copyfile(sys.argv[1], {str(seen)!r})"
    shown = [given_file if each == "/tmp/input.yaml" else each for each in AISIMULATE_COMMAND]  # noqa: S108 - the value under test
    at = shown.index("aisimulate")
    config = shown[shown.index("--config") + 1]
    made = sweeper(run(), PLANNER)
    command = [sys.executable, *shown[1:at], sys.executable, "-c", program, config]
    subprocess.run(command, env=environment(made), check=True, timeout=60)
    assert json.loads(seen.read_text())["engine"]["model"] == "Qwen/Qwen3-0.6B"
    assert shown[at:][:2] == ["aisimulate", "recommend"]


def test_the_input_is_the_lowered_document_and_what_to_render() -> None:
    document = json.loads(environment(sweeper(run(name="a.b-run-1")))["DGDR_RETUNE_INPUT"])
    section = document.pop("dgdr_run")
    assert document == lower(run()).document
    assert section == {
        "name": "a-b-run-1",
        "namespace": "inference",
        "snapshot_dir": "/var/run/dgdr-run",
        "generator": "direct",
        "runtime_image": "registry.example/vllm-runtime:1.6.1",
        "num_gpus_per_node": 8,
        "max_candidates": 6,
        "snapshot_interval_seconds": 5,
    }


@given(model=st.text(min_size=1, max_size=30).map(lambda text: text.replace("\0", "") + "$(HOME)$$"))
def test_the_environment_holds_no_reference_that_kubernetes_would_expand(model: str) -> None:
    made = run(modelRef={"name": model})
    value = environment(sweeper(made))["DGDR_RETUNE_INPUT"]
    assert "$" not in value
    assert json.loads(value)["engine"]["model"] == model


def test_replications_travel_from_the_runs_annotation_and_only_if_there_is_one() -> None:
    assert environment(sweeper(run()))["DGDR_RETUNE_REPLICATIONS"] == "3"
    assert "DGDR_RETUNE_REPLICATIONS" not in environment(sweeper(run(annotations={})))


@pytest.mark.parametrize("size", [128 * 1024, 10 * 128 * 1024])
def test_an_input_that_no_process_could_start_with_is_refused(size: int) -> None:
    made = run()
    made["spec"]["aisimulate"]["inputOverrides"]["x"] = "x" * size
    with pytest.raises(JobError, match="inputOverrides") as refused:
        job(made)
    assert refused.value.reason == "InputTooLarge"


def test_the_largest_input_that_is_not_refused_starts_a_process() -> None:
    made = run()
    overrides = made["spec"]["aisimulate"]["inputOverrides"]
    overrides["x"] = ""
    taken = len("DGDR_RETUNE_INPUT=" + environment(sweeper(made))["DGDR_RETUNE_INPUT"])
    overrides["x"] = "x" * (128 * 1024 - 1 - taken)
    subprocess.run([sys.executable, "-c", ""], env=environment(sweeper(made)), check=True, timeout=60)
    overrides["x"] += "x"
    with pytest.raises(JobError):
        job(made)


def test_the_requests_image_wins_over_the_operators() -> None:
    assert sweeper(run(image="registry.example/mine:2"))["image"] == "registry.example/mine:2"
    assert sweeper(run())["image"] == OURS.sweeper_image


@pytest.mark.parametrize("uid", [UID, "x" * 64, "a:b"])
def test_job_and_pods_are_found_by_the_runs_uid_and_owned_by_the_run(uid: str) -> None:
    made = job(run(uid=uid))
    assert made["metadata"]["labels"][RUN_UID_LABEL] == label_value(uid)
    assert made["spec"]["template"]["metadata"]["labels"] == made["metadata"]["labels"]
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["kind"], owner["controller"]) == (uid, "DynamoGraphDeploymentRun", True)
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("qwen-run-1", "inference")


def test_nothing_is_tried_twice() -> None:
    made = job(run())["spec"]
    assert (made["backoffLimit"], made["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert "ttlSecondsAfterFinished" not in made
    assert "activeDeadlineSeconds" not in made


@pytest.mark.parametrize(
    ("sub_path", "mount_path"),
    [
        ("w/1.jsonl.gz", "/var/run/aisimulate/trace/trace.jsonl.gz"),
        ("w/1.jsonl", "/var/run/aisimulate/trace/trace.jsonl"),
    ],
)
def test_the_sweeper_alone_mounts_the_trace_and_that_file_alone_read_only(sub_path: str, mount_path: str) -> None:
    made = run()
    made["spec"]["workload"]["trace"]["source"]["persistentVolumeClaim"]["subPath"] = sub_path
    shown = pod(made)
    volume = next(each for each in shown["volumes"] if each["name"] == "trace")
    assert volume["persistentVolumeClaim"] == {"claimName": "request-traces"}
    mounts = {each["name"]: [m for m in each["volumeMounts"] if m["name"] == "trace"] for each in shown["containers"]}
    assert mounts == {
        "sweeper": [{"name": "trace", "mountPath": mount_path, "subPath": sub_path, "readOnly": True}],
        "publisher": [],
    }


def test_the_typed_claim_is_mounted_whatever_the_overrides_say() -> None:
    made = run()
    made["spec"]["aisimulate"]["inputOverrides"]["traffic"] = None
    assert any(each["name"] == "trace" for each in pod(made)["volumes"])


def test_a_trace_job_reads_as_the_group_of_its_writers_and_changes_no_groups() -> None:
    assert pod(run())["securityContext"]["supplementalGroups"] == [65532]
    assert "supplementalGroups" not in pod(static())["securityContext"]
    for made in (pod(run()), pod(static())):
        assert "fsGroup" not in made["securityContext"]


def test_a_static_job_mounts_no_claim() -> None:
    made = pod(static())
    assert not any("persistentVolumeClaim" in each for each in made["volumes"])


def test_the_publisher_alone_has_a_token() -> None:
    made = pod(run())
    assert made["automountServiceAccountToken"] is False
    (token,) = [each for each in made["volumes"] if "projected" in each]
    holders = [each["name"] for each in made["containers"] for m in each["volumeMounts"] if m["name"] == token["name"]]
    assert holders == ["publisher"]
    assert made["serviceAccountName"] == "dgdr-retune-publisher"


@pytest.mark.parametrize("configuration", [OURS, PLANNER])
@pytest.mark.parametrize("made", [run(), static()])
def test_a_run_job_passes_the_restricted_pod_security_standard(made: Any, configuration: Configuration) -> None:
    shown = pod(made, configuration)
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers", "ephemeralContainers"} & shown.keys()
    allowed = {"configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
    assert all(set(each) - {"name"} <= allowed for each in shown["volumes"])
    assert shown["securityContext"]["runAsNonRoot"] is True
    assert shown["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in shown["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
        assert security["runAsUser"] > 0
        assert not {"privileged", "procMount"} & security.keys()
        assert set(container["resources"]["requests"]) == set(container["resources"]["limits"]) == {"cpu", "memory"}


def test_every_volume_is_mounted_and_every_mount_has_its_volume() -> None:
    made = pod(run())
    mounted = {m["name"] for each in made["containers"] for m in each["volumeMounts"]}
    assert mounted == {each["name"] for each in made["volumes"]}
    for container in made["containers"]:
        assert "/tmp" in {m["mountPath"] for m in container["volumeMounts"]}  # noqa: S108 - a path in the container


def test_the_publishers_account_is_bound_in_its_own_namespace_alone() -> None:
    account, binding = publisher_account("inference", OURS), publisher_binding("inference", OURS)
    assert account["automountServiceAccountToken"] is False
    assert binding["kind"] == "RoleBinding"
    assert binding["roleRef"]["name"] == "dgdr-retune-publisher"
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == (account["metadata"]["name"], "inference")
