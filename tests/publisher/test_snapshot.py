"""What is read from a sweeper's file, and what is refused."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.publisher.snapshots import SERVICE, candidate, deployment, manifest, snapshot, text, unmaterialized

from dgdr_retune.api import ADDITIONAL_RESOURCES_ANNOTATION, SNAPSHOT_FILE, candidate_name, metadata_faults, validate
from dgdr_retune.publisher import _file as file_module
from dgdr_retune.publisher._candidate import candidate_object
from dgdr_retune.publisher._errors import SnapshotError
from dgdr_retune.publisher._file import read_file
from dgdr_retune.publisher._snapshot import Snapshot, check_follows, read_snapshot
from dgdr_retune.publisher._yaml import MAX_DEPTH, YamlError, documents
from dgdr_retune.sweeper import _snapshot as sweeper
from dgdr_retune.sweeper._errors import SweeperError
from dgdr_retune.sweeper._yaml import dump

Json = Any


def read(*candidates: Json, **whole: Json) -> Snapshot:
    return read_snapshot(text(snapshot(*candidates, **whole)))


def test_a_snapshot_is_read_completely() -> None:
    evaluations = {"feasible": 3, "failed": 1, "cacheHits": 2}
    found = read(
        candidate(0.0),
        unmaterialized(0.5),
        candidate(1.0),
        evaluated=4,
        progress={"round": 2, "evaluated": 4, "evaluations": evaluations},
        run={"message": "on it"},
    )
    assert (found.phase, found.terminal, found.round, found.evaluated) == ("Running", False, 2, 4)
    assert (found.message, found.error, found.reported_at) == ("on it", None, "2026-10-01T12:00:00Z")
    assert found.evaluations == evaluations
    assert [each.id for each in found.candidates] == [candidate(0.0)["id"], candidate(1.0)["id"]]
    assert found.unmaterialized == ((candidate(0.5)["id"], "no template"),)


def test_a_candidate_is_the_deployment_with_its_parameters() -> None:
    one = candidate(0.5)
    found = read(one).candidates[0]
    assert found.spec == {**deployment()["spec"], "parameters": one["parameters"]}
    assert found.metrics == {"score": 9.5, "usedGpus": 2, "replications": [{"mean_ttft_ms": 31.5}]}
    assert found.companions == ""


def test_companions_are_kept_as_documents_of_an_annotation() -> None:
    found = read(candidate(1.0, manifest=manifest(SERVICE, deployment(), None, SERVICE))).candidates[0]
    made = candidate_object(found, run_name="run", run_uid="uid")
    kept = made["metadata"]["annotations"][ADDITIONAL_RESOURCES_ANNOTATION]
    assert list(yaml.safe_load_all(kept)) == [SERVICE, SERVICE]


def test_the_object_is_one_that_admission_lets_in() -> None:
    name = "a" * 63
    made = candidate_object(read(candidate(1.0)).candidates[0], run_name=name, run_uid="0-uid")
    assert made["metadata"]["name"] == candidate_name(name, "0-uid", candidate(1.0)["id"])
    assert not metadata_faults(made["metadata"])
    assert not validate(made).errors
    owner = {"apiVersion": "nvidia.com/v1beta2", "kind": "DynamoGraphDeploymentRun", "name": name, "uid": "0-uid"}
    assert made["metadata"]["ownerReferences"] == [owner | {"controller": True}]


@pytest.mark.parametrize("given_time", [None, 5, "", "2026-10-01", "2026-13-01T00:00:00Z", "2026-10-01T12:00:00+02:00"])
def test_a_bad_time_is_no_time_and_no_fault(given_time: Json) -> None:
    assert read(timestamp=given_time).reported_at is None


def test_a_date_that_is_not_quoted_is_read_as_text() -> None:
    assert read_snapshot(text(snapshot()).replace(b"'2026-10-01T12:00:00Z'", b"2026-10-01T12:00:00Z")).reported_at


BAD: dict[str, Json] = {
    "another version": snapshot(schemaVersion=2),
    "version as text": snapshot(schemaVersion="1"),
    "no run": {name: value for name, value in snapshot().items() if name != "run"},
    "unknown field": snapshot(extra=1),
    "unknown phase": snapshot(phase="Pending"),
    "terminal against phase": snapshot(run={"terminal": True}),
    "running against terminal": snapshot(phase="Failed", run={"terminal": False}),
    "negative round": snapshot(round_=-1),
    "round as text": snapshot(progress={"round": "1", "evaluated": 0}),
    "evaluated too large": snapshot(evaluated=2**31),
    "long message": snapshot(run={"message": "x" * 20_000}),
    "candidates no list": snapshot(candidates={}),
    "too many candidates": snapshot(*(candidate(number) for number in range(101))),
    "id twice": snapshot(candidate(1.0), candidate(1.0)),
    "id twice, once failed": snapshot(candidate(1.0), unmaterialized(1.0)),
    "id too long": snapshot(candidate(1.0, id="a" * 49)),
    "id with upper case": snapshot(candidate(1.0, id="A")),
    "id with a dot": snapshot(candidate(1.0, id="a.b")),
    "id with a line break": snapshot(candidate(1.0, id="a\n")),
    "id with a hyphen at its end": snapshot(candidate(1.0, id="a-")),
    "unknown outcome": snapshot(candidate(1.0, outcome="ok")),
    "no parameters": snapshot({k: v for k, v in candidate(1.0).items() if k != "parameters"}),
    "parameters no object": snapshot(candidate(1.0, parameters=[])),
    "no metrics": snapshot({k: v for k, v in candidate(1.0).items() if k != "metrics"}),
    "metric not finite": snapshot(candidate(1.0, metrics={"score": float("inf")})),
    "metric beyond any double": snapshot(candidate(1.0, metrics={"score": -(10**400)})),
    "parameter beyond any double": snapshot(candidate(1.0, parameters={"tp": 10**309})),
    "deployment with a number beyond any double": snapshot(
        candidate(1.0, manifest=manifest(deployment(spec={"backendFramework": "vllm", "x": 10**400})))
    ),
    "materialized without a manifest": snapshot({k: v for k, v in candidate(1.0).items() if k != "manifest"}),
    "materialized with an error": snapshot(candidate(1.0, error="e")),
    "failed with a manifest": snapshot(unmaterialized(1.0) | {"manifest": "a: 1"}),
    "failed without an error": snapshot({k: v for k, v in unmaterialized(1.0).items() if k != "error"}),
    "empty manifest": snapshot(candidate(1.0, manifest="")),
    "manifest no YAML": snapshot(candidate(1.0, manifest="a: [")),
    "manifest of text": snapshot(candidate(1.0, manifest="a")),
    "manifest without a kind": snapshot(candidate(1.0, manifest=manifest(deployment(), {"a": 1}))),
    "no deployment": snapshot(candidate(1.0, manifest=manifest(SERVICE))),
    "two deployments": snapshot(candidate(1.0, manifest=manifest(deployment(), deployment()))),
    "deployment of another group": snapshot(candidate(1.0, manifest=manifest(deployment(apiVersion="other.com/v1")))),
    "deployment of the old version": snapshot(
        candidate(1.0, manifest=manifest(deployment(apiVersion="nvidia.com/v1alpha1")))
    ),
    "deployment without a spec": snapshot(candidate(1.0, manifest=manifest(deployment(spec=None)))),
    "deployment with an empty spec": snapshot(candidate(1.0, manifest=manifest(deployment(spec={})))),
    "deployment with parameters": snapshot(candidate(1.0, manifest=manifest(deployment(spec={"parameters": {}})))),
    "backend that the CRD does not know": snapshot(
        candidate(1.0, manifest=manifest(deployment(spec={"backendFramework": "llamacpp"})))
    ),
    "components that the CRD refuses": snapshot(
        candidate(1.0, manifest=manifest(deployment(spec={"components": [{"name": str(n)} for n in range(26)]})))
    ),
    "companions too large": snapshot(
        candidate(1.0, manifest=manifest(deployment(), {"kind": "ConfigMap", "data": {"a": "x" * 300_000}}))
    ),
    "object too large": snapshot(candidate(1.0, metrics={"a": "x" * 1_100_000})),
}


@pytest.mark.parametrize("document", BAD.values(), ids=BAD.keys())
def test_what_breaks_a_rule_is_refused(document: Json) -> None:
    with pytest.raises(SnapshotError) as caught:
        read_snapshot(text(document))
    assert caught.value.reason == "InvalidSnapshot"
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a: 1\n---\nb: 1\n",
        b"\xff\xfe",
        b"[1, 2",
        b"!!python/object/apply:os.system [true]",
        b"schemaVersion: 1\nschemaVersion: 1\n",
        b"? [1]\n: 2\n",
        b"1: 2\n",
        b"<<: {a: 1}\n",
        b"a: &a [*a]\n",
        b"a: *b\n",
        b"a: .nan\n",
        b"[" * 100_000,
        b"- " * 5_000,
        b"a: &a [" + b"x," * 1000 + b"]\nb: &b [" + b"*a," * 1000 + b"]\nc: [" + b"*b," * 1000 + b"]\n",
    ],
    ids=range(15),
)
def test_what_is_no_plain_bounded_yaml_is_refused(content: bytes) -> None:
    with pytest.raises(SnapshotError, match=r".") as caught:
        read_snapshot(content)
    assert caught.value.reason == "InvalidSnapshot"


def test_any_part_of_a_snapshot_is_read_or_refused_and_never_anything_else() -> None:
    whole = text(snapshot(candidate(0.0), unmaterialized(1.0), phase="Succeeded"))
    for end in range(0, len(whole), 7):
        try:
            read_snapshot(whole[:end])
        except SnapshotError:
            continue
        assert end > len(whole) * 0.9


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=200)
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(SnapshotError):
        read_snapshot(content)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES, st.sampled_from([True, False, None]))
@settings(deadline=None, max_examples=300)
def test_what_pyyaml_writes_is_read_as_it_was(value: Json, flow_style: object) -> None:
    assert documents(yaml.safe_dump(value, default_flow_style=flow_style)) == [value]


def test_what_is_shared_may_be_written_as_aliases() -> None:
    shared = {"a": [1, 2]}
    written = yaml.safe_dump({"one": shared, "two": [shared, shared]})
    assert "*id001" in written
    assert documents(written) == [{"one": shared, "two": [shared, shared]}]


def test_nesting_ends_where_it_says() -> None:
    assert documents("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(YamlError, match="nested"):
        documents("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


def test_aliases_that_nest_more_deeply_than_json_may_be_are_refused() -> None:
    level = 40
    nested = f"a: &a {'[' * level}{']' * level}\nb: &b {'[' * level}*a{']' * level}\nc: {'[' * level}*b{']' * level}"
    parameters = documents(nested)[0]
    with pytest.raises(SnapshotError, match="nested"):
        read(candidate(1.0, parameters=parameters))


RUNNING = read(round_=2, evaluated=5)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, RUNNING),
        (RUNNING, RUNNING),
        (RUNNING, read(round_=2, evaluated=6)),
        (RUNNING, read(round_=3, evaluated=0)),
        (RUNNING, read(round_=2, evaluated=0, phase="Succeeded")),
        (RUNNING, read(round_=2, evaluated=0, phase="Failed")),
    ],
)
def test_a_snapshot_may_go_on(before: Snapshot | None, after: Snapshot) -> None:
    check_follows(after, before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (RUNNING, read(round_=1, evaluated=9)),
        (RUNNING, read(round_=2, evaluated=4)),
        (RUNNING, read(round_=1, evaluated=9, phase="Succeeded")),
        (read(phase="Failed"), read(round_=9)),
    ],
)
def test_a_snapshot_may_not_go_back(before: Snapshot, after: Snapshot) -> None:
    with pytest.raises(SnapshotError) as caught:
        check_follows(after, before)
    assert caught.value.reason == "RegressingSnapshot"


def test_a_file_that_is_not_there_yet_is_none(tmp_path: Path) -> None:
    assert read_file(tmp_path) is None
    assert read_file(tmp_path / "absent") is None


def test_a_file_is_read_to_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_module, "MAX_BYTES", 10)
    (tmp_path / SNAPSHOT_FILE).write_bytes(b"x" * 10)
    assert read_file(tmp_path) == b"x" * 10
    (tmp_path / SNAPSHOT_FILE).write_bytes(b"x" * 11)
    with pytest.raises(SnapshotError, match="larger"):
        read_file(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / SNAPSHOT_FILE).symlink_to(tmp_path / "token")
    with pytest.raises(SnapshotError, match="regular"):
        read_file(tmp_path)


def test_a_pipe_and_a_directory_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / SNAPSHOT_FILE)
    with pytest.raises(SnapshotError, match="no regular file"):
        read_file(tmp_path)
    (tmp_path / SNAPSHOT_FILE).unlink()
    (tmp_path / SNAPSHOT_FILE).mkdir()
    with pytest.raises(SnapshotError, match="no regular file"):
        read_file(tmp_path)


@pytest.mark.parametrize("mode", ["aggregated", "disaggregated"])
def test_what_our_sweeper_writes_is_read(tmp_path: Path, mode: str) -> None:
    rendered = (Path(__file__).parents[1] / "sweeper" / "golden" / f"{mode}.yaml").read_text()
    entry = dump([candidate(1.0, manifest=rendered)])
    scored = sweeper.Candidate(score=9.0, rank=(-9.0, 2, ""), text=entry)
    file = sweeper.SnapshotFile(tmp_path, lambda: datetime(2026, 10, 1, tzinfo=UTC))
    counts = sweeper.Evaluations(scheduled=0, running=1, feasible=1, infeasible=0, failed=0)
    file.write(sweeper.Snapshot(evaluations=counts, candidates=(scored,), message="1 of 2"))
    content = read_file(tmp_path)
    assert content is not None
    found = read_snapshot(content)
    assert (found.phase, found.evaluated, found.message) == ("Running", 1, "1 of 2")
    assert found.evaluations == {"scheduled": 0, "running": 1, "feasible": 1, "infeasible": 0, "failed": 0}
    assert found.candidates[0].spec["backendFramework"] == "vllm"
    file.write(file.latest.failed(SweeperError("it broke")))
    content = read_file(tmp_path)
    assert content is not None
    assert read_snapshot(content).error == "SweeperFailed: it broke"
