"""docs/operations.md says what the code does: settings, conditions, exit codes, rights, metrics, logs, limits."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.cluster import RUNS, Cluster, in_cluster
from dgdr_retune.api import CandidateReason, RequestReason, RunReason
from dgdr_retune.controllers import AISIMULATE_COMMAND
from dgdr_retune.controllers._condition import _WARNINGS
from dgdr_retune.controllers._job import MAX_VARIABLE_BYTES
from dgdr_retune.kube import JOBS
from dgdr_retune.kube._api import PAGE_SIZE
from dgdr_retune.operator import Settings, _arguments, _main
from dgdr_retune.operator._metrics import Metrics
from dgdr_retune.publisher._errors import Exit
from dgdr_retune.publisher._file import MAX_BYTES
from dgdr_retune.sweeper._errors import ExitStatus

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text()
SOURCE = ROOT / "src" / "dgdr_retune"
CODE = re.compile(r"`([^`]+)`")

Row = tuple[str, ...]


def section(title: str) -> str:
    """What stands under a heading, down to the next one of its level or above."""
    level = re.search(rf"^(#+) {re.escape(title)}$", TEXT, re.MULTILINE)
    assert level is not None, f"docs/operations.md has no section {title}"
    rest = TEXT[level.end() :]
    end = re.search(rf"^#{{1,{len(level[1])}}} ", rest, re.MULTILINE)
    return rest if end is None else rest[: end.start()]


def table(title: str) -> list[Row]:
    """The rows of the first table of a section."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    width = lines[0].count("|") - 1
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]
    assert all(len(row) == width for row in rows), f"{title}: a row has another number of cells"
    return rows


def code(cell: str) -> set[str]:
    return set(CODE.findall(cell))


def setting_row(name: str) -> str:
    field = Settings.model_fields[name]
    if field.is_required():
        default = "required"
    elif field.default_factory is not None:
        default = "the host's name"
    elif field.default in (None, ""):
        default = ""
    else:
        value = field.default
        default = f"`{json.dumps(list(value)) if isinstance(value, tuple) else value}`"
    return f"| `--{name.replace('_', '-')}` | {default} | {' '.join((field.description or '').split())} |"


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_stands_in_the_docs_as_in_the_model(name: str) -> None:
    assert setting_row(name) in section("Configuration").splitlines()


def test_no_other_setting_does() -> None:
    assert len(table("Configuration")) == len(Settings.model_fields)
    flags = {flag.replace("-", "_") for flag in re.findall(r"`--([a-z-]+)`", TEXT)}
    assert flags <= {*Settings.model_fields, "config", "print_config", "help", "version"}
    variables = {variable.lower() for variable in re.findall(r"DGDR_RETUNE_([A-Z_]+)", TEXT)}
    assert variables <= {*Settings.model_fields, "input"}


def test_the_command_of_the_planner_image_is_the_one_that_is_tested() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", section("Configuration"), re.DOTALL)
    assert tuple(json.loads(block)) == AISIMULATE_COMMAND


@pytest.mark.parametrize(
    ("title", "reasons"),
    [
        ("Requests: `Accepted`", RequestReason),
        ("Runs: `Completed`", RunReason),
        ("Candidates: `Evaluated`", CandidateReason),
    ],
)
def test_every_reason_stands_in_the_docs_with_its_status_and_its_event(
    title: str, reasons: type[RequestReason | RunReason | CandidateReason]
) -> None:
    rows = {row[1].strip("`"): row for row in table(title)}
    assert list(rows) == [reason.value for reason in reasons]
    for reason in reasons:
        status, _, event, means, advice = rows[reason]
        assert reason.meaning.startswith(f"{status}: ")
        told = "Warning" if reason in _WARNINGS else "Normal"
        assert event == ("none" if reasons is CandidateReason else told)
        assert means
        assert advice


@pytest.mark.parametrize(
    ("program", "codes"),
    [
        ("sweeper", {*map(int, ExitStatus), 124}),  # AISimulate's own, which is kept
        ("publisher", set(map(int, Exit))),
        ("operator", {_main.STOPPED, _main.FAILED, _main.BAD_SETTINGS}),
    ],
)
def test_every_exit_code_stands_in_the_docs(program: str, codes: set[int]) -> None:
    rows = [row for row in table("Exit codes") if row[0] == program]
    assert sorted(int(row[1]) for row in rows) == sorted(codes)


def granted() -> Iterator[tuple[str, str, str]]:
    """Role, resources and verbs of `access.yaml`, as the docs write them."""
    for document in yaml.safe_load_all((ROOT / "deploy" / "operator" / "access.yaml").read_text()):
        if document["kind"] not in ("Role", "ClusterRole"):
            continue
        role = document["metadata"]["name"].removeprefix("dgdr-retune-")
        where = ", in its own namespace" if document["kind"] == "Role" else ""
        where = ", in the Run's namespace" if role == "publisher" else where
        for rule in document["rules"]:
            for resource in rule["resources"]:
                names = "".join(f" `{name}`" for name in rule.get("resourceNames", ()))
                yield f"{role}{where}", f"`{resource}`{names}", ", ".join(rule["verbs"])


def test_the_docs_list_the_rights_that_the_manifest_grants() -> None:
    assert [row[:3] for row in table("Rights")] == list(granted())


class Leader:
    def queue_depths(self) -> dict[str, int]:
        return {"run": 1}

    def runs_by_phase(self) -> dict[tuple[str, str], int]:
        return {("a", "Running"): 1}

    def claim_holders(self) -> dict[tuple[str, str], int]:
        return {("a", "traces"): 1}


def test_every_metric_stands_in_the_docs_with_its_type_and_labels() -> None:
    metrics = Metrics()
    metrics.leading = Leader()
    metrics.called("get", JOBS, "200", 0.1)
    metrics.reconciled("run", "done", 0.1)
    shown = {
        family.name: (family.type, {label for sample in family.samples for label in sample.labels} - {"le"})
        for family in metrics.registry.collect()
    }
    assert {row[0].strip("`"): (row[1], code(row[2])) for row in table("Metrics")} == shown


def logged() -> Iterator[tuple[str, str]]:
    """Event and level of what an operator logs: the names, not the sentences of the webhook."""
    for path in sorted(
        each for package in ("kube", "controllers", "operator") for each in (SOURCE / package).glob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="_log"), attr=level), args=[ast.Constant(value=str(event)), *_]
                ):
                    yield event, "error" if level == "exception" else level


def test_every_log_event_stands_in_the_docs_with_its_level() -> None:
    assert {(event, row[1]) for row in table("Logs") for event in code(row[0])} == set(logged())


def test_the_docs_list_the_writes_from_a_request_to_a_running_job() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.claim()
        async with cluster.running():
            cluster.request()
            await cluster.until(lambda: _phase(cluster) == "Running")
        rows = table("Writes of a Run")
        assert [row[1].strip("`") for row in rows] == cluster.transport.writes()
        assert [row[0] for row in rows] == [str(number) for number in range(1, 9)]

    in_cluster(scenario)


def _phase(cluster: Cluster) -> Any:
    return (cluster.get(RUNS, "q-run-1") or {}).get("status", {}).get("phase")


def test_limits_are_those_of_the_code() -> None:
    limits = {row[0]: row[1] for row in table("Sizes and limits")}
    assert limits["the input of a sweeper, with its variable's name"] == f"{MAX_VARIABLE_BYTES:,} bytes"
    assert limits["a snapshot"] == f"{MAX_BYTES:,} bytes"
    assert limits["a list"] == f"pages of {PAGE_SIZE}"
    assert limits["end of the operator"] == f"{_main.GRACE_S:g} s after a signal"
    assert limits["file of settings"] == f"{_arguments.MAX_FILE_BYTES:,} bytes"


def test_links_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    }
    for link in re.findall(r"\]\(([^)]+)\)", TEXT):
        path, _, anchor = link.partition("#")
        if path:
            assert (ROOT / "docs" / path).exists(), link
        else:
            assert anchor in anchors, link
