"""`dgdr-retune crds --apply` on a real API server."""

import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.contract.judges import definitions, loosened, remove_definitions
from tests.controlplane.control_plane import ControlPlane

Json = Any

COMMAND = "import typer; from dgdr_retune.cli._api import register; app = typer.Typer(); register(app); app()"
NAMES = sorted(each["metadata"]["name"] for each in definitions())
REQUESTS = "dynamographdeploymentrequests.nvidia.com"
RUNS = "dynamographdeploymentruns.nvidia.com"


def apply(plane: ControlPlane) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "crds", "--apply"],
        env=os.environ | {"KUBECONFIG": str(plane.kubeconfig), "HOME": str(plane.directory)},
        capture_output=True,
        text=True,
        check=False,
    )


def present(plane: ControlPlane) -> dict[str, Json]:
    shown = plane.kubectl("get", "crds", "-o", "yaml")
    return {each["metadata"]["name"]: each for each in yaml.safe_load(shown.stdout)["items"]}


def put(plane: ControlPlane, definition: Json) -> None:
    shown = plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(definition))
    assert shown.returncode == 0, shown.stderr


def request_definition() -> Json:
    return copy.deepcopy(next(each for each in definitions() if each["metadata"]["name"] == REQUESTS))


@pytest.fixture
def empty(other_plane: ControlPlane) -> Iterator[ControlPlane]:
    yield other_plane
    with other_plane.client() as client:
        remove_definitions(client)


def test_what_is_not_there_is_created_and_served(empty: ControlPlane) -> None:
    done = apply(empty)
    assert done.returncode == 0, done.stderr
    assert sorted(present(empty)) == NAMES
    assert empty.kubectl("get", "dgdr,dgdrrun,dgdc").returncode == 0


def test_applying_again_changes_nothing(empty: ControlPlane) -> None:
    apply(empty)
    before = present(empty)
    assert apply(empty).returncode == 0
    assert present(empty) == before


def test_ours_are_brought_up_to_date_whoever_wrote_them(empty: ControlPlane) -> None:
    put(empty, loosened(request_definition()))
    done = apply(empty)
    assert done.returncode == 0, done.stderr
    assert present(empty)[REQUESTS]["spec"]["versions"] == request_definition()["spec"]["versions"]


def test_a_definition_that_is_not_ours_is_left_alone_and_so_is_everything_else(empty: ControlPlane) -> None:
    foreign = loosened(request_definition())
    del foreign["metadata"]["labels"]
    foreign["spec"]["versions"][0]["name"] = "v1beta1"
    put(empty, foreign)
    before = present(empty)
    done = apply(empty)
    assert done.returncode != 0
    assert REQUESTS in done.stderr
    assert "serves v1beta1" in done.stderr
    assert "nothing was changed" in done.stderr
    after = present(empty)
    assert sorted(after) == [REQUESTS]
    assert after[REQUESTS]["spec"] == before[REQUESTS]["spec"]


def test_what_the_server_refuses_is_said_in_one_line_and_nothing_is_applied(empty: ControlPlane) -> None:
    older = loosened(next(copy.deepcopy(each) for each in definitions() if each["metadata"]["name"] == RUNS))
    older["spec"]["versions"][0]["name"] = "v1alpha1"  # it is stored, so that it cannot be taken away
    put(empty, older)
    before = present(empty)
    done = apply(empty)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {RUNS}: the API server refuses: ")
    assert "storedVersions" in line
    after = present(empty)
    assert sorted(after) == [RUNS]
    assert after[RUNS]["spec"] == before[RUNS]["spec"]


def test_a_name_that_another_definition_has_is_said(empty: ControlPlane) -> None:
    other = loosened(request_definition())
    other["metadata"] = {"name": "dragons.nvidia.com"}
    other["spec"] |= {
        "group": "nvidia.com",
        "names": {"kind": "DynamoGraphDeploymentRequest", "plural": "dragons", "singular": "dragon"},
    }
    put(empty, other)
    done = apply(empty)
    assert done.returncode != 0
    assert "another definition has its names" in done.stderr
