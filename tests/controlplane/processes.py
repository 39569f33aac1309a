"""Processes of a test session: each in a session of its own, logged to a file, ended by its id."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LAUNCHER = Path(__file__).with_name("until_parent_ends.py")
PATIENCE_S = 10.0


class Process:
    """A program that runs until :meth:`end`, and no longer than this process does."""

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        self.name = Path(command[0]).name
        self.log = log
        launcher = [sys.executable, "-I", str(LAUNCHER), str(os.getpid())]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*launcher, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=log.parent,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is its session's id too."""
        return self._process.pid

    def ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def end(self) -> None:
        """Ask it to end, then make it."""
        if self.stop(PATIENCE_S) is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self, patience_s: float) -> int | None:
        """Ask it to end; its exit status, or None when it did not end in time."""
        if not self.ended():
            os.killpg(self.pid, signal.SIGTERM)
        try:
            return self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return None


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
