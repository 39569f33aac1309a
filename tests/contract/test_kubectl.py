"""What a user sees with kubectl against a real API server."""

import copy
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.contract.conftest import SERVED
from tests.contract.judges import ServerJudge, holds_whole_float
from tests.contract.row import Row
from tests.controlplane.control_plane import ControlPlane

from dgdr_retune.api import RUN

Json = Any

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "requests").glob("*.yaml"))


@pytest.fixture
def plane(control_plane: ControlPlane, real: ServerJudge) -> ControlPlane:  # noqa: ARG001 - its definitions are in force
    return control_plane


@pytest.fixture
def cleaned(plane: ControlPlane) -> Iterator[ControlPlane]:
    yield plane
    for example in EXAMPLES:
        plane.kubectl("delete", "-f", str(example), "--ignore-not-found")


def sent(rows: list[Row], real: ServerJudge) -> str:
    """Many objects, each under a name of its own."""
    documents = []
    for number, row in enumerate(rows):
        thing = copy.deepcopy(row.object)
        thing["metadata"]["name"] = real.stored_name(row) if row.old else name_of(number)
        documents.append(json.dumps(thing))
    return "\n---\n".join(documents)


def name_of(number: int) -> str:
    return f"sent-{number}"


def compare(shown: subprocess.CompletedProcess[str], rows: list[Row], names: list[str]) -> None:
    accepted = Counter(re.findall(r"/(\S+) (?:created|replaced) \(server dry run\)", shown.stdout))
    assert accepted == Counter(name for row, name in zip(rows, names, strict=True) if not row.refused)
    for row, name in zip(rows, names, strict=True):
        if row.refused:
            said = [line for line in shown.stderr.splitlines() if f'"{name}"' in line or "(BadRequest)" in line] or [
                shown.stderr
            ]
            assert any(row.refused in line for line in said), row.id


def test_kubectl_creates_what_the_table_accepts_and_shows_why_not_for_the_rest(
    plane: ControlPlane, real: ServerJudge
) -> None:
    rows = [row for row in SERVED if row.operation == "create" and row.strict and not holds_whole_float(row.object)]
    shown = plane.kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=sent(rows, real))
    compare(shown, rows, [name_of(number) for number in range(len(rows))])


@pytest.mark.parametrize("operation", ["update", "update status"])
def test_kubectl_replaces_what_the_table_accepts_and_shows_why_not_for_the_rest(
    plane: ControlPlane, real: ServerJudge, operation: str
) -> None:
    rows = [row for row in SERVED if row.operation == operation and row.strict and not holds_whole_float(row.object)]
    part = ["--subresource=status"] if operation == "update status" else []
    shown = plane.kubectl("replace", "--dry-run=server", "--validate=strict", *part, "-f", "-", stdin=sent(rows, real))
    compare(shown, rows, [real.stored_name(row) for row in rows])


def test_kubectl_sends_a_whole_float_as_an_integer(plane: ControlPlane) -> None:
    """So that a Request is accepted from it that a client which sends 10.0 is refused."""
    request = yaml.safe_load(EXAMPLES[0].read_text())
    request["spec"]["workload"] = {"static": {"isl": 1.0, "osl": 1.0, "concurrency": 10.0}}
    shown = plane.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(request))
    assert json.loads(shown.stdout)["spec"]["workload"]["static"] == {"isl": 1, "osl": 1, "concurrency": 10}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_can_be_applied(cleaned: ControlPlane, example: Path) -> None:
    created = cleaned.kubectl("apply", "--validate=strict", "-f", str(example))
    assert created.returncode == 0, created.stderr
    assert created.stdout.endswith(" created\n")
    again = cleaned.kubectl("apply", "--validate=strict", "-f", str(example))
    assert again.stdout.endswith(" unchanged\n")


CLAIM = "spec.workload.trace.source.persistentVolumeClaim"
FAULTS = [
    ("spec.hardware.gpu.budget", 0, "spec.hardware.gpu.budget in body should be greater than or equal to 1"),
    ("spec.backends", ["vllm", "vllm"], "spec.backends: Invalid value: name each backend once"),
    (
        "spec.backends",
        ["tgi"],
        'Unsupported value: "tgi": supported values: "vllm", "sglang", "trtllm"',
    ),
    ("spec.modelRef", None, "spec.modelRef: Required value"),
    (
        f"{CLAIM}.claimName",
        "My_Claim",
        "must be a DNS-1123 subdomain: lower case",
    ),
    (
        f"{CLAIM}.subPath",
        "/a.jsonl",
        "must be relative to the claim's root: remove",
    ),
    (
        f"{CLAIM}.subPath",
        "a/../b",
        "must name one file: no empty, . or .. segment",
    ),
    ("spec.workload.trace.replay.arrivalSpeedupRatio", 0, "arrivalSpeedupRatio in body should be greater than 0"),
    ("spec.workload.static", {"isl": 1, "osl": 1, "concurrency": 1}, "set exactly one of static and trace"),
    ("spec.objective.sla.e2eMs", 900, "set e2eMs alone, or ttftMs and itlMs together"),
    ("spec.objective.metrics", ["TTFT", "Goodput"], "mode Optimize takes metric, not metrics"),
    ("spec.search.budget.maxEvaluationDuration", "10 minutes", "must be a duration such as 120s, 1.5h or 2m30s"),
    ("spec.workload.trace.sauce", {}, 'unknown field "spec.workload.trace.sauce"'),
    ("spec.v1beta1", {}, "this API serves v1beta2 alone: write the v1beta2 fields"),
]


@pytest.mark.parametrize(("path", "value", "message"), FAULTS, ids=[f"{path} {value}" for path, value, _ in FAULTS])
def test_a_request_with_a_fault_is_refused_with_what_to_do(
    plane: ControlPlane, path: str, value: Json, message: str
) -> None:
    request = yaml.safe_load((EXAMPLES[0].parent / "trace.yaml").read_text())
    *parents, last = path.split(".")
    place = request
    for name in parents:
        place = place[name]
    place[last] = value
    shown = plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(request))
    assert shown.returncode != 0
    assert message in shown.stderr


def test_kubectl_get_shows_the_columns(plane: ControlPlane) -> None:
    shown = plane.kubectl("get", "dgdr,dgdrrun,dgdc")
    assert shown.returncode == 0, shown.stderr
    headers = [re.split(r"  +", line.strip()) for line in shown.stdout.splitlines() if line.startswith("NAME ")]
    assert headers == [
        ["NAME", "MODEL", "ACTIVE RUN", "ACCEPTED", "AGE"],
        ["NAME", "PHASE", "COMPLETED", "CANDIDATES", "AGE"],
        ["NAME", "EVALUATED", "BACKEND", "AGE"],
    ]


def test_the_columns_hold_what_the_status_says(plane: ControlPlane) -> None:
    name = "shown-in-columns"
    run = next(row.object for row in SERVED if row.kind == RUN and row.operation == "create" and not row.refused)
    run |= {"metadata": {"name": name}}
    assert plane.kubectl("create", "-f", "-", stdin=json.dumps(run)).returncode == 0
    condition = {
        "type": "Completed",
        "status": "False",
        "reason": "EvaluatingCandidates",
        "message": "",
        "lastTransitionTime": "2026-10-01T12:00:00Z",
    }
    status = {"phase": "Running", "conditions": [condition], "progress": {"candidates": {"published": 3}}}
    patch = json.dumps({"status": status})
    patched = plane.kubectl("patch", "dgdrrun", name, "--subresource=status", "--type=merge", "-p", patch)
    assert patched.returncode == 0, patched.stderr
    shown = plane.kubectl("get", "dgdrrun", name, "--no-headers").stdout.split()
    plane.kubectl("delete", "dgdrrun", name)
    assert shown[:4] == [name, "Running", "False", "3"]
