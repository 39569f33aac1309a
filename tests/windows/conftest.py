"""Test modules import `window_cases` by name."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

from window_cases import WINDOW

from dgdr_retune.windows import CutRequest, Place


@pytest.fixture
def write_segments(tmp_path: Path) -> Callable[..., Path]:
    """Write segments as {pod: [bytes, ...]} below a new directory, last written when the window ended."""

    def write(pods: Mapping[str, Iterable[bytes]], *, written_ms: int = WINDOW.end_ms) -> Path:
        for pod, segments in pods.items():
            directory = tmp_path / "segments" / pod
            directory.mkdir(parents=True, exist_ok=True)
            for index, content in enumerate(segments):
                path = directory / f"trace.{index:06}.jsonl.gz"
                path.write_bytes(content)
                os.utime(path, (written_ms / 1000, written_ms / 1000))
        return tmp_path / "segments"

    return write


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., CutRequest]:
    """A request to cut what `write_segments` wrote."""

    def make(**values: Any) -> CutRequest:
        defaults: dict[str, Any] = {
            "segments": Place(str(tmp_path / "segments")),
            "windows": Place(str(tmp_path), "windows"),
            "name": "chat",
            "window": WINDOW,
        }
        return CutRequest(**(defaults | values))

    return make
