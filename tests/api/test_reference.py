"""The reference of the API is what the models say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_committed_reference_is_the_generated_one() -> None:
    spec = importlib.util.spec_from_file_location("api_reference", ROOT / "tools" / "api_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.reference(), "run: python tools/api_reference.py"
