"""Test modules and the processes they start import the cases by name: their directory is on the path."""

import os
import sys
from pathlib import Path

import pytest

from dgdr_retune.windows import CutRequest, Place, Window, cut

sys.path.append(str(Path(__file__).parent))
os.environ.setdefault("DYN_LOG", "error")  # read when Dynamo's runtime is first used in this process


@pytest.fixture(scope="session")
def recorded_window(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A window file of all that was recorded, 20 minutes."""
    made = cut(
        CutRequest(
            segments=Place(str(recorded)),
            windows=Place(str(tmp_path_factory.mktemp("windows"))),
            name="chat",
            window=Window(start_ms=1_796_038_800_000, end_ms=1_796_040_000_000, cutoff_ms=1_796_040_060_000),
            mtime_margin_s=1e9,
        )
    )
    assert made.path is not None
    return Path(made.path)
