"""Print the directory that holds the programs of a Kubernetes, after getting there what is missing.

    python tools/controlplane/get.py           # etcd, kube-apiserver, kubectl
    python tools/controlplane/get.py --node    # and what makes it run pods: controllers, scheduler, kubelet, containerd

In this order: the directory named by KUBEBUILDER_ASSETS (the convention of envtest); the cache,
``$XDG_CACHE_HOME/dgdr-retune/controlplane``, one directory per recipe, every program checked against the SHA-256 noted
when it was built; a build from the pinned Go modules with the machine's Go, or with the Go of PyPI. A build needs a
network, about 2 GB of memory and 5 minutes of two cores (8 with ``--node``), once; nothing needs root. Progress goes to
the standard error output.

Exit status: 0, and the directory on the standard output; 1, and on the standard error output what to do.
"""

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECIPE = ("programs.toml", "go.mod", "go.sum", "pause/main.go", "containerd/go.mod", "containerd/go.sum")
CHECKSUMS = "checksums.json"
REPORT_EVERY_S = 10.0


class GetError(Exception):
    """The programs cannot be had; the message says what to do."""


def say(message: str) -> None:
    """One line of progress."""
    print(message, file=sys.stderr, flush=True)


def cache_directory() -> Path:
    """This recipe's directory: another version, platform or set of modules gets another one."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dgdr-retune" / "controlplane"
    recipe = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in RECIPE)).hexdigest()[:12]
    version = tomllib.loads((HERE / RECIPE[0]).read_text())["kubernetes"]
    return root / f"kubernetes-{version}-{platform.system()}-{platform.machine()}-{recipe}".lower()


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def given(directory: Path, names: Sequence[str]) -> Path:
    """The directory that KUBEBUILDER_ASSETS names, if all programs are in it."""
    missing = [name for name in names if not os.access(directory / name, os.X_OK)]
    if missing:
        raise GetError(
            f"KUBEBUILDER_ASSETS={directory} lacks {', '.join(missing)}: "
            f"add what is missing, or unset the variable to use the cache of this project"
        )
    return directory


def intact(directory: Path, names: Sequence[str]) -> list[str]:
    """Those of ``names`` whose cached file is what its build left there."""
    noted = json.loads((directory / CHECKSUMS).read_text()) if (directory / CHECKSUMS).exists() else {}
    good = []
    for name in names:
        if name not in noted or not (directory / name).is_file():
            continue
        if digest(directory / name) == noted[name]:
            good.append(name)
        else:
            say(f"{directory / name} has changed since it was built: it is built again")
    return good


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold the directory's lock, so that two test sessions do not build at once."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process builds the control plane: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_go(oldest: str, wheel: str, directory: Path) -> str:
    """A Go that is new enough: the machine's, or the one of PyPI beside the cache."""
    on_path = shutil.which("go")
    if on_path:
        shown = subprocess.run([on_path, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
        version = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", shown)
        if version and tuple(int(each or 0) for each in version.groups()) >= tuple(map(int, oldest.split("."))):
            return on_path
        say(f"{on_path} is {shown.strip() or 'not usable'}, older than {oldest}")
    target = directory.parent / wheel.replace("==", "-")
    go = target / "go" / "bin" / "go"
    if not go.exists():
        say(f"installing {wheel} into {target}")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), wheel]
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
            raise GetError(
                f"there is no Go {oldest} or newer on PATH, and `pip install {wheel}` failed: "
                "install Go, or point KUBEBUILDER_ASSETS at a directory with the programs"
            )
    return str(go)


def collect(stream: Iterable[str] | None, lines: list[str]) -> None:
    """Gather what a build says, one package a line."""
    lines.extend(line.rstrip() for line in stream or ())


@dataclass(frozen=True)
class Program:
    """One program of ``programs.toml``; ``module`` is the directory of the go.mod that pins it."""

    package: str
    module: str = "."
    tags: tuple[str, ...] = ()
    node: bool = False


def build(name: str, program: Program, version: str, go: str, directory: Path) -> None:
    """Build one program into the cache and note its checksum; a build that is cut short leaves nothing."""
    major, minor, _ = version.split(".")
    stamp = "k8s.io/component-base/version"
    flags = (
        f"-s -w -X {stamp}.gitVersion=v{version} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor} "
        f"-X k8s.io/client-go/pkg/version.gitVersion=v{version}"
    )
    unfinished = directory / f".{name}.unfinished"
    command = [go, "build", "-v", "-trimpath", "-buildvcs=false", "-tags", ",".join(program.tags), "-ldflags", flags]
    command += ["-o", str(unfinished), program.package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
    say(f"building {name} (the first build takes minutes)")
    started = time.monotonic()
    lines: list[str] = []
    try:
        where = HERE / program.module
        with subprocess.Popen(command, cwd=where, env=environment, stderr=subprocess.PIPE, text=True) as process:
            reader = threading.Thread(target=collect, args=(process.stderr, lines), daemon=True)
            reader.start()
            while reader.is_alive():
                reader.join(REPORT_EVERY_S)
                seconds = time.monotonic() - started
                say(
                    f"  {name}: {seconds:4.0f} s, {len(lines)} packages, {lines[-1] if lines else 'looking at modules'}"
                )
        if process.returncode != 0:
            raise GetError("\n".join([*lines[-20:], f"{name} cannot be built: is there a network and a Go proxy?"]))
        checksums = directory / CHECKSUMS
        noted = json.loads(checksums.read_text()) if checksums.exists() else {}
        noted[name] = digest(unfinished)
        unfinished.replace(directory / name)
        fresh = directory / f".{CHECKSUMS}"
        fresh.write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n")
        fresh.replace(checksums)
    finally:
        unfinished.unlink(missing_ok=True)
    say(f"  {name}: done after {time.monotonic() - started:.0f} s, sha256 {noted[name]}")


def get(*, node: bool) -> Path:
    """The directory with the programs of ``programs.toml``: with those of a node, or without."""
    recipe = tomllib.loads((HERE / RECIPE[0]).read_text())
    listed = {name: Program(**fields) for name, fields in recipe["programs"].items()}
    programs = {name: program for name, program in listed.items() if node or not program.node}
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return given(Path(assets), list(programs))
    directory = cache_directory()
    with alone(directory):
        good = intact(directory, list(programs))
        missing = [name for name in programs if name not in good]
        if missing:
            go = find_go(recipe["go"], recipe["go_wheel"], directory)
            for name in missing:
                build(name, programs[name], recipe["kubernetes"], go, directory)
    return directory


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Print the directory that holds the programs of a Kubernetes.")
    parser.add_argument("--node", action="store_true", help="also the programs that make it run pods")
    try:
        print(get(node=parser.parse_args().node))
    except GetError as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
