"""python keeper.py PLAN.json: run a cluster for as long as the standard input is open, and leave nothing behind.

It prints one line of JSON, the port of 127.0.0.1 that leads to the API server and the id of the cluster's first
process, and ends when its starter closes the pipe or is killed, or when the cluster ends by itself (exit status 1). The
cluster lives in namespaces of its own, so that the death of its first process is the death of all: what the kernel does
not undo is done here, the control groups and the directory. The logs stay.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

INSIDE = Path(__file__).with_name("inside.py")
LAUNCHER = Path(__file__).parents[1] / "controlplane" / "until_parent_ends.py"
CONTROL_GROUPS = Path("/sys/fs/cgroup")
PATIENCE_S = 20.0


def control_groups(name: str) -> list[Path]:
    """The control group ``name`` in every hierarchy that the machine has."""
    if (CONTROL_GROUPS / "cgroup.controllers").exists():
        return [CONTROL_GROUPS / name]
    hierarchies = (path for path in CONTROL_GROUPS.iterdir() if path.is_dir() and not path.is_symlink())
    return [path / name for path in sorted(hierarchies) if os.path.ismount(path)]


def remove_control_group(group: Path) -> None:
    """Remove a control group and those below it, waiting for the last processes to be gone."""
    deadline = time.monotonic() + PATIENCE_S
    while group.exists():
        for path, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(path).rmdir()
        if group.exists():
            if time.monotonic() > deadline:
                sys.stderr.write(f"{group} is still in use\n")
                return
            time.sleep(0.05)


def remove_all_but_logs(directory: Path) -> None:
    """Remove what the cluster wrote; its data was in memory and is gone already."""
    for path in directory.iterdir():
        if path.name == "logs":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def first_process(unshare: subprocess.Popen[bytes]) -> int:
    """The id of the cluster's first process: the one child of ``unshare``."""
    children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
    while unshare.poll() is None:
        with contextlib.suppress(OSError):
            if found := children.read_text().split():
                return int(found[0])
        time.sleep(0.01)
    sys.exit("unshare failed: these tests need the right to make namespaces")


def end(unshare: subprocess.Popen[bytes], first: int | None) -> None:
    """End ``unshare``, with it its child, and with its child all that is inside; wait until the child is gone."""
    unshare.kill()
    unshare.wait()
    deadline = time.monotonic() + PATIENCE_S
    while first is not None and Path(f"/proc/{first}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def keep(plan: Path, logs: Path) -> int:
    """Run the cluster until it ends, or the standard input does; the exit status."""
    namespaces = ("--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child=SIGKILL", "--mount-proc")
    with (logs / "inside.log").open("wb") as log, socket.create_server(("127.0.0.1", 0)) as listening:
        inside = [sys.executable, "-I", str(INSIDE), str(plan), str(listening.fileno())]
        unshare = subprocess.Popen(
            [sys.executable, "-I", str(LAUNCHER), str(os.getpid()), str(shutil.which("unshare")), *namespaces, *inside],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[listening.fileno()],
        )
        port = listening.getsockname()[1]
    first = None
    try:
        first = first_process(unshare)
        sys.stdout.write(json.dumps({"port": port, "first_process": first}) + "\n")
        sys.stdout.flush()
        while unshare.poll() is None:
            if select.select([sys.stdin], [], [], 0.2)[0] and not sys.stdin.read(1):
                return 0
        return 1
    finally:
        end(unshare, first)


def main() -> int:
    """Keep the cluster."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the pipe says when to end, however its other end goes
    plan = Path(sys.argv[1])
    content = json.loads(plan.read_text())
    directory = Path(content["directory"])
    groups = control_groups(content["control_group"])
    for group in groups:
        group.mkdir()
    try:
        return keep(plan, directory / "logs")
    finally:
        for group in groups:
            remove_control_group(group)
        remove_all_but_logs(directory)


if __name__ == "__main__":
    sys.exit(main())
