"""One short window of the recorded segments; worker processes import the cases by name, so they are on the path."""

import sys
from pathlib import Path

import pytest

from dgdr_retune.windows import CutRequest, Place, Window, cut

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def window(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A window file of 20 seconds, 946 requests."""
    directory = tmp_path_factory.mktemp("windows")
    window = Window.ending_at(1796039460000, interval_s=20, grace_s=60)
    request = CutRequest(segments=Place(str(recorded)), windows=Place(str(directory)), name="shop", window=window)
    path = cut(request).path
    assert path is not None
    return Path(path)
