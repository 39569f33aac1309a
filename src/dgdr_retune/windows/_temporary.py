"""Names of temporary files that say who owns them, so that the next cut can sweep those of the dead."""

import hashlib
import os
import re
import secrets
from functools import cache
from pathlib import Path
from typing import Final

ABANDONED_AFTER_S: Final = 3600.0
"""A temporary file of an owner that cannot be looked up (another host, another container) is left this long."""

_NAME: Final = re.compile(r"\.[^/\0]+\.([0-9a-f]{8})-([0-9]+)-([0-9]+)-[0-9a-f]{8}\.tmp", re.ASCII)
_START_TIME: Final = 19
"""Of a process, in clock ticks since boot: proc(5) field 22, counted from the one after the command."""


def temporary_name(target: str) -> str:
    """A new name for what will become `target`, in the same directory."""
    process = os.getpid()
    return f".{target}.{_process_space()}-{process}-{_started(process)}-{secrets.token_hex(4)}.tmp"


def is_temporary(name: str) -> bool:
    """Whether a name is one that `temporary_name` gives."""
    return _NAME.fullmatch(name) is not None


def is_orphan(name: str) -> bool:
    """Whether the owner of a temporary file is known to be dead."""
    match = _NAME.fullmatch(name)
    if match is None or match[1] != _process_space():
        return False
    return _started(int(match[2])) != int(match[3])


@cache
def _process_space() -> str:
    # Process ids mean something only within one boot and one PID namespace.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return secrets.token_hex(4)
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:8]


def _started(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return 0
    return int(status.rpartition(b")")[2].split()[_START_TIME])
