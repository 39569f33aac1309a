"""docs/replay-a-trace.md shows the example as it is and what it really becomes."""

import re
from pathlib import Path

import pytest
import yaml
from tests.contract.row import put, thing
from tests.contract.spec_rows import CLAIM, TRACE

from dgdr_retune.api import REQUEST, validate
from dgdr_retune.lowering import lower

ROOT = Path(__file__).parents[2]
EXAMPLE = yaml.safe_load((ROOT / "examples" / "requests" / "trace.yaml").read_text())


@pytest.fixture(scope="module")
def blocks() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "replay-a-trace.md").read_text()
    return re.findall(r"```(\w+)\n(.*?)\n```", text, re.DOTALL)


def test_the_request_of_the_guide_is_the_example(blocks: list[tuple[str, str]]) -> None:
    request, _ = (text for language, text in blocks if language == "yaml")
    assert yaml.safe_load(request) == EXAMPLE


def test_the_input_of_the_guide_is_what_the_example_is_lowered_to(blocks: list[tuple[str, str]]) -> None:
    _, document = (text for language, text in blocks if language == "yaml")
    assert yaml.safe_load(document) == lower(EXAMPLE).document


def test_the_fault_of_the_guide_reads_like_that(blocks: list[tuple[str, str]]) -> None:
    (shown,) = (text for language, text in blocks if language == "text")
    assert shown in {str(fault) for fault in validate(thing(REQUEST, put(TRACE, f"{CLAIM}.subPath", "/a"))).errors}
