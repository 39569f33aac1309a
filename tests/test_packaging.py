"""What the checkout promises about itself."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dgdr_retune.cli._app import app

ROOT = Path(__file__).parent.parent


def test_constraints_pin_exact_versions_and_name_no_address() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+", line)] == []


def test_quickstart_data_is_at_most_one_megabyte() -> None:
    files = [path for path in (ROOT / "examples" / "quickstart").rglob("*.gz") if "windows" not in path.parts]
    assert files
    assert sum(path.stat().st_size for path in files) <= 1_000_000


@pytest.mark.usefixtures("_compiled_simulator")
def test_the_readme_shows_what_the_quickstart_prints() -> None:
    result = CliRunner().invoke(app, ["retune", str(ROOT / "examples" / "quickstart" / "retune.yaml")])
    assert result.exit_code == 0, result.output
    printed = [line.rstrip() for line in result.stdout.splitlines() if not line.startswith("Report:")]
    readme = (ROOT / "README.md").read_text().splitlines()
    begin = readme.index(printed[0])
    assert readme[begin : begin + len(printed)] == printed
