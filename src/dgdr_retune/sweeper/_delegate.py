"""Handing an input to AISimulate, whose own adapter `dgdr_run` writes the snapshots."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self

from attrs import define, field

from dgdr_retune.sweeper._errors import DelegateFailedError, ExitStatus
from dgdr_retune.sweeper._input import OUTPUT_SECTION, Json
from dgdr_retune.sweeper._snapshot import SnapshotFile
from dgdr_retune.sweeper._yaml import dump

PROGRAM: Final = "aisimulate"

_LAST_WORDS: Final = 400
_READ: Final = 1 << 16


def installed() -> str | None:
    """Where AISimulate is, None where it is not."""
    return shutil.which(PROGRAM)


@define
class Delegate:
    """AISimulate at work on one input.

    Attributes:
        process: of the program.
        workspace: its input and output.
        last_words: the end of what it wrote to standard error, which is passed on too.
    """

    process: subprocess.Popen[bytes]
    workspace: tempfile.TemporaryDirectory[str]
    last_words: bytes = b""
    _echo: threading.Thread = field(init=False)

    @classmethod
    def start(cls, program: str, document: Mapping[str, Json], directory: Path) -> Self:
        """Start it, with its snapshots in `directory`.

        Errors: `DelegateFailedError`.
        """
        try:
            workspace = tempfile.TemporaryDirectory(prefix="dgdr-run-", ignore_cleanup_errors=True)
            config = Path(workspace.name, "input.yaml")
            section = {**document[OUTPUT_SECTION], "snapshot_dir": str(directory.absolute())}
            config.write_text(dump({**document, OUTPUT_SECTION: section}), encoding="utf-8")
            process = subprocess.Popen(  # noqa: S603 -- the program that is installed here, and our own paths
                [
                    *(program, "recommend", "--stack", "dynamo", "--config", str(config)),
                    *("--output", OUTPUT_SECTION, "--output-dir", str(config.with_name("output"))),
                ],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise DelegateFailedError(f"{PROGRAM} could not be started: {error}") from error
        delegate = cls(process, workspace)
        delegate._echo = threading.Thread(target=delegate._pass_on, args=(process.stderr,), daemon=True)
        delegate._echo.start()
        return delegate

    def finish(self, file: SnapshotFile) -> int:
        """Wait for its end; its exit status, but success where it ran out of resources after it had a result.

        Raises:
            OSError: the final snapshot, which it had left out, could not be written.
        """
        status = self.process.wait()
        self._echo.join(timeout=1.0)  # a child of it may hold the stream open
        self.workspace.cleanup()
        if status < 0:
            status = 128 - status
        words = self.last_words.decode(errors="replace").strip() or "it said nothing"
        phase = file.end_foreign(DelegateFailedError(f"{PROGRAM} ended with exit status {status}: {words}"))
        if status == ExitStatus.RESOURCE_LIMITED and phase == "Succeeded":
            return ExitStatus.SUCCEEDED
        return status

    def kill(self) -> None:
        """Kill it and all that it has started, in whatever session."""
        for process in (self.process.pid, *_descendants(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _pass_on(self, stream: IO[bytes]) -> None:
        while part := os.read(stream.fileno(), _READ):
            self.last_words = (self.last_words + part)[-_LAST_WORDS:]
            sys.stderr.buffer.write(part)
            sys.stderr.buffer.flush()


def _descendants(process: int) -> Iterator[int]:
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text(encoding="ascii").split():
                yield int(child)
                yield from _descendants(int(child))
