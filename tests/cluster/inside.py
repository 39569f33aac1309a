"""python inside.py PLAN.json SOCKET: the first process in the cluster's own namespaces (network, mounts, processes).

It builds the node's network, starts the programs of the plan and carries connections from SOCKET, a listening socket
that the host left open for it, to the API server. It ends when one of the programs does. When it ends, or is killed,
the kernel ends every process that is in here, takes down the network and undoes the mounts: nothing else cleans up.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

NODE_ADDRESS = "192.0.2.10"
API_ADDRESS = "203.0.113.1"
API_PORT = 443
SYSCTLS = {  # what kubelet wants to find; the machine's own values are not the test's to change
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
HIDDEN = ("/run", "/var/lib", "/var/log")  # containerd, CNI and kubelet leave files here whatever they are told


def command(*words: str) -> None:
    """Run to completion; a failure ends this process, and with it the cluster."""
    subprocess.run(words, check=True)


def build_network() -> None:
    """Loopback with the API server's in-cluster address, and an interface that leads nowhere for kubelet to find."""
    command("ip", "link", "set", "lo", "up")
    command("ip", "address", "add", f"{API_ADDRESS}/32", "dev", "lo")
    command("ip", "link", "add", "node", "type", "veth", "peer", "name", "nowhere")
    command("ip", "address", "add", f"{NODE_ADDRESS}/24", "dev", "node")
    for name in ("node", "nowhere"):
        command("ip", "link", "set", name, "up")
    command("ip", "route", "add", "default", "dev", "node")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # of this network namespace


def hide_the_machine(directory: Path) -> None:
    """Give the programs directories and sysctls of their own under the names that they insist on, all in memory."""
    command("mount", "--make-rshared", "/")
    for path in HIDDEN:
        command("mount", "-t", "tmpfs", "-o", "mode=0755", "cluster", path)
    fakes = directory / "sysctls"
    fakes.mkdir()
    for name, value in SYSCTLS.items():
        path = Path("/proc/sys", name)
        if path.exists():
            fake = fakes / path.name
            fake.write_text(f"{value}\n")
            command("mount", "--bind", str(fake), str(path))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way until either side ends."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # a connection that broke is closed like one that ended
    finally:
        writer.close()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection from the host to the API server."""
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", API_PORT)
    except OSError:
        writer.close()  # the API server does not listen yet
        return
    await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))


async def carry_all(listening: socket.socket) -> None:
    """Serve the host for ever."""
    server = await asyncio.start_server(carry, sock=listening)
    await server.serve_forever()


def start(plan: dict[str, Any], logs: Path) -> dict[int, str]:
    """Start the programs; their names by process id."""
    names = {}
    for program in plan["programs"]:
        with (logs / f"{program['name']}.log").open("wb") as log:
            process = subprocess.Popen(
                program["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=logs,
                env=os.environ | program["environment"],
            )
        names[process.pid] = program["name"]
        process.returncode = 0  # this process waits for all children itself, those that others left to it too
    return names


def main() -> int:
    """Run the cluster until one of its programs ends."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    directory = Path(plan["directory"])
    hide_the_machine(directory)
    build_network()
    listening = socket.socket(fileno=int(sys.argv[2]))
    threading.Thread(target=asyncio.run, args=(carry_all(listening),), daemon=True).start()
    names = start(plan, directory / "logs")
    while True:
        pid, status = os.wait()
        if pid in names:
            sys.stderr.write(f"{names[pid]} ended: {os.waitstatus_to_exitcode(status)}\n")
            return 1


if __name__ == "__main__":
    sys.exit(main())
