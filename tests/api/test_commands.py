"""`dgdr-retune crds`, `lower` and `validate`."""

from pathlib import Path

import pytest
import typer
import yaml
from click.testing import Result
from typer.testing import CliRunner

from dgdr_retune.api import KINDS, REQUEST, crd_text, custom_resource_definition
from dgdr_retune.api._admission import NO_BLOCK_SIZE
from dgdr_retune.cli._api import register

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "requests").glob("*.yaml"))

REQUEST_TEXT = """\
apiVersion: nvidia.com/v1beta2
kind: DynamoGraphDeploymentRequest
metadata: {name: qwen}
spec:
  modelRef: {name: Qwen/Qwen3-0.6B}
  backends: [vllm]
  hardware: {gpu: {sku: h200_sxm, budget: 2}}
  aisimulate: {generator: direct}
"""

CANDIDATE_TEXT = """\
apiVersion: nvidia.com/v1beta2
kind: DynamoGraphDeploymentCandidate
metadata: {name: a}
spec: {parameters: {tp: 1}}
"""


def run(*arguments: str) -> Result:
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "request.yaml"
    path.write_text(REQUEST_TEXT)
    return path


def test_all_definitions_are_printed_as_one_stream() -> None:
    printed = run("crds")
    assert printed.exit_code == 0
    assert list(yaml.safe_load_all(printed.stdout)) == [custom_resource_definition(kind) for kind in KINDS]


def test_one_definition_is_printed_as_it_is_committed() -> None:
    assert run("crds", "--kind", "request").stdout == crd_text(REQUEST)


def test_definitions_are_written_one_a_file(tmp_path: Path) -> None:
    directory = tmp_path / "deploy" / "crds"
    assert run("crds", "--write", str(directory)).exit_code == 0
    assert {path.name: path.read_text() for path in directory.iterdir()} == {
        f"{kind.crd_name}.yaml": crd_text(kind) for kind in KINDS
    }


def test_definitions_that_cannot_be_written_are_said_in_one_line(file: Path) -> None:
    failed = run("crds", "--write", str(file / "crds"))
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: the definitions cannot be written: ")


def test_a_cluster_that_cannot_be_reached_is_said_in_one_line(tmp_path: Path) -> None:
    nowhere = tmp_path / "kubeconfig"
    failed = run("crds", "--apply", "--kubeconfig", str(nowhere))
    assert failed.exit_code == 1
    assert "error: there is no cluster to talk to" in failed.stderr
    cluster = {"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    user = {"name": "x", "user": {"token": "x"}}
    nowhere.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "clusters": [cluster],
                "contexts": [context],
                "users": [user],
            }
        )
    )
    failed = run("crds", "--apply", "--kubeconfig", str(nowhere))
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: the cluster cannot be reached: ")
    assert "Traceback" not in failed.stderr


def test_the_input_of_a_request_is_printed(file: Path) -> None:
    printed = run("lower", str(file))
    assert printed.exit_code == 0
    document = yaml.safe_load(printed.stdout)
    assert document["engine"]["model"] == "Qwen/Qwen3-0.6B"
    assert document["optimizer"] == {"max_trials": 320, "parallelism": 16, "seed": 42}
    assert printed.stderr == ""


def test_the_mount_of_a_trace_is_told_beside_the_input() -> None:
    trace = next(path for path in EXAMPLES if path.name == "trace.yaml")
    printed = run("lower", str(trace))
    assert yaml.safe_load(printed.stdout)["traffic"]["load"] == {"type": "trace_timestamps", "speedup": 2}
    assert "of claim request-traces at /var/run/aisimulate/trace/trace.jsonl.gz" in printed.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("budget: 2", "budget: 0"), ": spec.hardware.gpu.budget: Invalid value: 0"),
        (("aisimulate:", "objective: {mode: Pareto}\n  aisimulate:"), "ParetoUnsupported: "),
        (("kind: DynamoGraphDeploymentRequest", "kind: Pod"), ": kind: not an object"),
        (("budget: 2", "budget: 2, bugdet: 3"), 'spec.hardware.gpu.bugdet: unknown field "spec.hardware.gpu.bugdet"'),
        (("metadata:", "---\nmetadata:"), "holds 2 objects"),
        ((REQUEST_TEXT, ""), "holds 0 objects"),
        ((REQUEST_TEXT, "- 1"), "holds 1 objects; give a file with one Request"),
    ],
)
def test_a_request_without_an_input_has_a_reason(file: Path, change: tuple[str, str], message: str) -> None:
    file.write_text(REQUEST_TEXT.replace(*change))
    failed = run("lower", str(file))
    assert failed.exit_code == 1
    assert failed.stdout == ""
    assert message in failed.stderr


def test_a_candidate_has_no_input(file: Path) -> None:
    file.write_text(CANDIDATE_TEXT)
    failed = run("lower", str(file))
    assert failed.exit_code == 1
    assert failed.stderr == f"error: {file}: KindUnsupported: a Candidate has no input; give a Request or a Run\n"


def test_warnings_are_told_beside_the_input(file: Path) -> None:
    file.write_text(REQUEST_TEXT.replace("direct", "aic"))
    printed = run("lower", str(file))
    assert printed.exit_code == 0
    assert printed.stderr == f"warning: {file}: {NO_BLOCK_SIZE}\n"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_sound_and_have_an_input(path: Path) -> None:
    checked = run("validate", str(path))
    assert checked.exit_code == 0
    assert "warning" not in checked.stdout
    assert run("lower", str(path)).exit_code == 0


def test_each_object_is_judged_with_every_fault(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "list.yaml"
    run_text = REQUEST_TEXT.replace("Request", "Run", 1).replace("budget: 2", "budget: 0").replace("vllm", "VLLM")
    both = [yaml.safe_load(text) for text in (run_text, REQUEST_TEXT.replace("direct", "aic"))]
    other.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": both}))
    checked = run("validate", str(file), str(other))
    assert checked.exit_code == 1
    assert checked.stdout.splitlines() == [
        f"{file}: DynamoGraphDeploymentRequest qwen: ok",
        f"{other}: DynamoGraphDeploymentRun qwen: refused",
        '  error: spec.backends[0]: Unsupported value: "VLLM": supported values: "vllm", "sglang", "trtllm"',
        "  error: spec.hardware.gpu.budget: Invalid value: 0: should be greater than or equal to 1",
        "  error: spec.workload: Required value",
        f"{other}: DynamoGraphDeploymentRequest qwen: ok",
        f"  warning: {NO_BLOCK_SIZE}",
    ]


@pytest.mark.parametrize(
    ("metadata", "fault"),
    [
        ("{}", "metadata.name: Required value: name or generateName is required"),
        ("x", 'metadata: Invalid value: "string": must be of type object: "string"'),
        ("{name: a, labels: {x: 1}}", "metadata.labels: Invalid value: must be an object of strings"),
        (r'{name: a, labels: {x: "\ud800"}}', r'metadata.labels: Invalid value: "\ud800": must be 1 to 63 letters'),
        (r'{name: a, annotations: {"\ud800": "\ud800"}}', r'metadata.annotations: Invalid value: "\ud800": must be'),
        ("{name: a, lables: {}}", 'metadata.lables: unknown field "metadata.lables"'),
    ],
)
def test_metadata_is_judged_too(file: Path, metadata: str, fault: str) -> None:
    file.write_text(REQUEST_TEXT.replace("{name: qwen}", metadata))
    checked = run("validate", str(file))
    assert checked.exit_code == 1
    title, *lines = checked.stdout.splitlines()
    assert title.endswith(": refused")
    (line,) = lines
    assert line.startswith(f"  error: {fault}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "expected the node content"),
        ("spec: {}\nspec: {}", "the key 'spec' comes twice"),
        ("a: {b: 1, b: 2}", "the key 'b' comes twice"),
        ("? [a, b]\n: c", "a key is a list or an object"),
        (f"a: {'9' * 5000}", "cannot be read as int"),
        ('a: !!int "abc"', "cannot be read as int"),
        ('a: !!bool "abc"', "cannot be read as bool"),
        ("a: !!timestamp 2026-10-01", "could not determine a constructor"),
        ("\x00", "special characters are not allowed"),
        ("[" * 2000, "recursion"),
    ],
)
def test_a_file_that_cannot_be_read_is_said_with_its_name(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    checked = run("validate", str(file))
    assert checked.exit_code == 1
    assert checked.stdout.startswith(f"error: {file}: ")
    assert message in checked.stdout
    assert message in run("lower", str(file)).stderr


def test_values_are_read_as_kubectl_reads_them(file: Path) -> None:
    values = 'inputOverrides: {a: 2026-10-01, b: 1e3, c: 1.5, d: "1", e: null, f: 2.0, g: 12:30, h: 12:30:00, i: 0x1_0}'
    file.write_text(REQUEST_TEXT.replace("generator: direct", values))
    document = yaml.safe_load(run("lower", str(file)).stdout)
    assert {name: document.get(name) for name in "abcdefghi"} == {
        "a": "2026-10-01",
        "b": 1000,
        "c": 1.5,
        "d": "1",
        "e": None,
        "f": 2,
        "g": "12:30",
        "h": "12:30:00",
        "i": 16,
    }


def test_a_merge_key_brings_the_keys_that_are_not_written_out(file: Path) -> None:
    values = "inputOverrides: {a: &m {b: 1, c: 2}, d: {c: 3, <<: *m}}"
    file.write_text(REQUEST_TEXT.replace("generator: direct", values))
    assert yaml.safe_load(run("lower", str(file)).stdout)["d"] == {"b": 1, "c": 3}


@pytest.mark.parametrize("text", ["- 1", "x", "{}", "kind: 1", "{metadata: x, kind: {}}", "{1: 2}"])
def test_anything_else_is_refused_and_named(file: Path, text: str) -> None:
    file.write_text(text)
    checked = run("validate", str(file))
    assert checked.exit_code == 1
    assert ": refused\n  error: kind: not an object of nvidia.com/v1beta2" in checked.stdout
