"""Where the input comes from, and what is refused of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from sweeper_cases import document

from dgdr_retune.api import INPUT_VARIABLE, MAX_DEPTH, REPLICATIONS_VARIABLE
from dgdr_retune.sweeper._errors import InputError
from dgdr_retune.sweeper._input import (
    output_section,
    read_document,
    replications,
)


def test_a_file_is_read_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_text("traffic: {}\n")
    environment = {INPUT_VARIABLE: json.dumps(document())}
    assert read_document(environment, file) == {"traffic": {}}
    assert read_document(environment, None) == document()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no input: set DGDR_RETUNE_INPUT, or give --config"),
        ("{", "not JSON"),
        ('{"a": NaN}', "not JSON"),
        ("\udcff", "not JSON"),
        ("[]", "no mapping"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_an_environment_without_a_document_is_refused(text: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_document({} if text is None else {INPUT_VARIABLE: text}, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: [", "not YAML"),
        (b"a: !!python/object:os.system {}", "not YAML"),
        (b"- 1", "no mapping"),
        (b"\xff\xfe\x00", "not YAML"),
        (b"[" * 10_000, "not YAML"),
        (b"a: " + b"x" * (1 << 20), "over 1048576 bytes"),
    ],
)
def test_a_file_without_a_document_is_refused(text: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_bytes(text)
    with pytest.raises(InputError, match=message):
        read_document({}, file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_document({}, tmp_path / "input.yaml")


def test_the_output_section_has_the_adapters_defaults() -> None:
    output = output_section(document())
    assert (output.max_candidates, output.snapshot_interval_seconds) == (5, 5.0)
    assert output_section(document(dgdr_run={"generator": None})).generator == "aic"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "^dgdr_run: missing"),
        ({"name": "Shop"}, r"^dgdr_run\.name: "),
        ({"generator": "helm"}, r"^dgdr_run\.generator: "),
        ({"runtime_image": "registry.example:5000/mine"}, "tag of runtime_image must be a version"),
        ({"runtime_image": "registry.example/mine:1.6.1-dev"}, "tag of runtime_image must be a version"),
        ({"runtime_version_override": "latest"}, r"^dgdr_run\.runtime_version_override: "),
        ({"num_gpus_per_node": 0}, r"^dgdr_run\.num_gpus_per_node: "),
        ({"max_candidates": 0}, r"^dgdr_run\.max_candidates: "),
        ({"max_candidates": True}, r"^dgdr_run\.max_candidates: "),
        ({"snapshot_interval_seconds": -1}, r"^dgdr_run\.snapshot_interval_seconds: "),
        ({"unknown": 1}, r"^dgdr_run\.unknown: "),
        ({"name": "Shop", "max_candidates": 0}, r"name: .*; dgdr_run\.max_candidates: "),
    ],
)
def test_a_fault_of_the_output_section_is_named(change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        output_section(document(dgdr_run=change))


def test_a_digest_may_follow_the_version() -> None:
    image = "registry.example/mine:1.6.1@sha256:" + "0" * 64
    assert output_section(document(dgdr_run={"runtime_image": image})).runtime_image == image


def test_replications_are_one_unless_said() -> None:
    assert replications({}) == 1
    assert replications({REPLICATIONS_VARIABLE: "1000"}) == 1000


@pytest.mark.parametrize("text", ["", "0", "-1", "1.0", "1001", " 3", "٣", "three", "9" * 5000])
def test_other_replications_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^DGDR_RETUNE_REPLICATIONS: .* no whole number from 1 to 1000"):
        replications({REPLICATIONS_VARIABLE: text})


def test_the_deepest_document_of_an_api_server_is_read() -> None:
    nested: Any = 1
    for _ in range(MAX_DEPTH):
        nested = [nested]
    assert read_document({INPUT_VARIABLE: json.dumps({"traffic": nested})}, None) == {"traffic": nested}
