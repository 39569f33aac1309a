"""The files of a retune, each absent or whole."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard
from attrs import asdict

from dgdr_retune import __version__
from dgdr_retune.planner._errors import OutputError
from dgdr_retune.report import RetuneRecord, build_page, render
from dgdr_retune.sweep import decision_document, sweep_document

DECISION, SWEEP, REPORT = "decision.json", "sweep.json.zst", "report.html"


def write_results(directory: Path, record: RetuneRecord) -> None:
    """Write all files and then put them in place; `decision.json` goes first and comes last.

    So where a decision stands the others belong to it, and what cannot be written leaves the old files.

    Raises:
        OutputError: the directory cannot be made or written.
    """
    files = {REPORT: render(build_page(record)).encode(), DECISION: _json(_decision(record), indent=2)}
    if record.sweep is not None:
        files = {SWEEP: zstandard.compress(_json(sweep_document(record.sweep)), level=9), **files}
    write_files(directory, files, outdated=(DECISION, SWEEP))


def write_files(directory: Path, files: Mapping[str, bytes], *, outdated: Sequence[str] = ()) -> None:
    """Write all files, then remove those that are outdated, then put the new ones in place in their order.

    Raises:
        OutputError: the directory cannot be made or written; then nothing has changed, or what is there is whole.
    """
    written: dict[str, Path] = {}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            for name, content in files.items():
                written[name] = directory / f".{name}.{os.getpid()}.tmp"
                _write(written[name], content)
            for name in outdated:
                (directory / name).unlink(missing_ok=True)
            for name, temporary in written.items():
                temporary.replace(directory / name)
        finally:
            for temporary in written.values():
                temporary.unlink(missing_ok=True)
    except OSError as error:
        at = error.filename or directory
        raise OutputError(f"{at}: {error.strerror}; give another `output` directory or make room") from error


def _decision(record: RetuneRecord) -> dict[str, Any]:
    """The decision with the deployment and window that it is on."""
    cut, window = record.cut, record.window
    return {
        **decision_document(record.decision),
        "version": __version__,
        "deployment": record.name,
        "recording": {
            "window": asdict(window) if window else None,
            "file": cut.path if cut else None,
            "sha256": cut.sha256 if cut else None,
            "counts": asdict(cut.counts) if cut else None,
            "malformed": dict(cut.malformed) if cut else {},
        },
    }


def _json(document: dict[str, Any], *, indent: int | None = None) -> bytes:
    return json.dumps(document, allow_nan=False, ensure_ascii=True, indent=indent).encode() + b"\n"


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
