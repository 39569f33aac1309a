"""One file pins a planner's Request and the input that it is lowered to."""

import json
from pathlib import Path
from typing import Any

import pytest

from dgdr_retune.api import (
    DGD_LABEL,
    SPEC_DIGEST_ANNOTATION,
    WINDOW_END_ANNOTATION,
    planner_request_name,
    spec_digest,
    validate,
)
from dgdr_retune.lowering import first_difference, lower

GOLDEN = Path(__file__).parents[1] / "data" / "trace_request_lowering.golden.json"


@pytest.fixture(scope="module")
def golden() -> Any:
    return json.loads(GOLDEN.read_text())


def check(golden: Any, path: Path) -> None:
    """Compare, and on a difference write the new pair beside the file."""
    lowered = lower(golden["request"]).document
    if lowered == golden["input"]:
        return
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(golden | {"input": lowered}, indent=2) + "\n")
    difference = first_difference(golden["input"], lowered) or first_difference(lowered, golden["input"])
    pytest.fail(f"{difference}; if that is meant, accept it with: mv {new} {path}")


def test_a_planners_request_is_lowered_to_the_input_of_the_golden_file(golden: Any) -> None:
    check(golden, GOLDEN)


def test_a_difference_is_written_beside_the_golden_file(golden: Any, tmp_path: Path) -> None:
    path = tmp_path / "lowering.golden.json"
    changed = golden | {"input": golden["input"] | {"optimizer": {"seed": 7}}}
    with pytest.raises(pytest.fail.Exception, match=r"optimizer\.seed: expected 7, found 42; .* mv .*\.new "):
        check(changed, path)
    written = json.loads((tmp_path / "lowering.golden.json.new").read_text())
    assert written == golden


def test_the_golden_request_is_named_and_admitted_as_a_planners_request_is(golden: Any) -> None:
    metadata, spec = golden["request"]["metadata"], golden["request"]["spec"]
    window_end = int(metadata["annotations"][WINDOW_END_ANNOTATION])
    assert metadata["name"] == planner_request_name(metadata["labels"][DGD_LABEL], window_end, "s0", spec)
    assert metadata["annotations"][SPEC_DIGEST_ANNOTATION] == spec_digest(spec)
    verdict = validate(golden["request"])
    assert (verdict.errors, verdict.warnings) == ((), ())
