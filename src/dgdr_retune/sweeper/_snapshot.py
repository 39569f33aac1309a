"""The file that a Run's publisher reads: the whole state that is wanted, replaced as one."""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Final, Literal

import yaml
from attrs import asdict, evolve, frozen

from dgdr_retune.api import SNAPSHOT_FILE, timestamp
from dgdr_retune.sweeper._candidates import Candidate
from dgdr_retune.sweeper._errors import SweeperError
from dgdr_retune.sweeper._input import Json
from dgdr_retune.sweeper._yaml import dump, load

SCHEMA_VERSION: Final = 1
MAX_TEXT: Final = 500
"""Characters of a message."""

_MODE: Final = 0o644

Phase = Literal["Running", "Succeeded", "Failed"]


@frozen(kw_only=True)
class Evaluations:
    """Candidates by what has become of them; each is one evaluation, however often it is replayed.

    Attributes:
        scheduled: not begun.
        running: begun.
        feasible: have a score.
        infeasible: were replayed, and have none.
        failed: ended by an error or by time.
    """

    scheduled: int
    running: int
    feasible: int
    infeasible: int
    failed: int

    @property
    def ended(self) -> int:
        """How many are done."""
        return self.feasible + self.infeasible + self.failed

    def stopped(self) -> "Evaluations":
        """The same once nothing runs any more."""
        return evolve(self, running=0, failed=self.failed + self.running)


@frozen
class Snapshot:
    """What the file says.

    Attributes:
        phase: of the evaluation; all but `Running` are final.
        evaluations: how far it is; None while it is not known what there is to evaluate.
        candidates: best first.
        message: for people.
        error: a reason for programs and the message; a publisher prefers it.
    """

    phase: Phase = "Running"
    evaluations: Evaluations | None = None
    candidates: tuple[Candidate, ...] = ()
    message: str = ""
    error: str = ""

    def failed(self, error: SweeperError) -> "Snapshot":
        """The same, ended by an error."""
        evaluations = self.evaluations and self.evaluations.stopped()
        text = f"{error.reason}: {error}"
        return evolve(self, phase="Failed", evaluations=evaluations, message=str(error), error=text)

    def run_section(self) -> dict[str, Json]:
        """Phase and texts alone."""
        texts = {"message": self.message[:MAX_TEXT], "error": self.error[:MAX_TEXT]}
        return {
            "phase": self.phase,
            "terminal": self.phase != "Running",
            **{name: text for name, text in texts.items() if text},
        }

    def progress_section(self) -> dict[str, Json]:
        """How far it is; there are no rounds."""
        if self.evaluations is None:
            return {"round": 0, "evaluated": 0}
        return {"round": 0, "evaluated": self.evaluations.ended, "evaluations": asdict(self.evaluations)}

    def text(self, now: datetime) -> str:
        """The file's content."""
        head = {
            "schemaVersion": SCHEMA_VERSION,
            "timestamp": timestamp(now),
            "run": self.run_section(),
            "progress": self.progress_section(),
        }
        entries = "".join(candidate.text for candidate in self.candidates)
        return dump(head) + ("candidates:\n" + entries if entries else "candidates: []\n")


class SnapshotFile:
    """The one file of a directory; after a final snapshot it does not change.

    Args:
        directory: made where it is missing.
        now: the wall clock.
    """

    def __init__(self, directory: Path, now: Callable[[], datetime]) -> None:
        self.path = directory / SNAPSHOT_FILE
        self.latest = Snapshot()
        self._now = now
        self._lock = Lock()
        self._ended = False

    def write(self, snapshot: Snapshot) -> None:
        """Replace the file. May be called from any thread; whoever ends it first has the last word.

        Raises:
            OSError: as the system says; the file is what it was.
        """
        with self._lock:
            if not self._ended:
                self.latest = snapshot
                self.replace(snapshot.text(self._now()))
                self._ended = snapshot.phase != "Running"

    def end_foreign(self, error: SweeperError, stop: Callable[[], None] = lambda: None) -> Phase:
        """End what another program has written into the file, unless that program did; its candidates stay.

        Args:
            error: why it ends.
            stop: called first; ends the other program.

        Returns:
            The phase that is in the file now.

        Raises:
            OSError: as `write`.
        """
        with self._lock:
            stop()
            try:
                document = load(self.path.read_text(encoding="utf-8"))
                phase: Phase = document["run"]["phase"]
                if phase in ("Succeeded", "Failed"):
                    return phase
                document |= {"timestamp": timestamp(self._now()), "run": Snapshot().failed(error).run_section()}
                text = dump(document)
            except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):  # it is no snapshot
                text = Snapshot().failed(error).text(self._now())
            self.replace(text)
            return "Failed"

    def replace(self, text: str) -> None:
        """Put a whole text in the file's place.

        Raises:
            OSError: as `write`.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{SNAPSHOT_FILE}.tmp")  # one writer, so that a dead one's is overwritten
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, _MODE)  # whatever the umask
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        temporary.rename(self.path)
