"""Make the image of the operator, the sweeper and the publisher without Docker, as one archive in OCI layout.

    python tools/cluster/image.py dgdr-retune.tar
    ctr -n k8s.io images import dgdr-retune.tar    # or: kind load image-archive, podman load, skopeo copy oci-archive:…

Three layers: Debian 12's Python without a shell, by mmdebstrap; the project's dependencies in the versions of
constraints.txt; the project. The first two are kept in ``$XDG_CACHE_HOME/dgdr-retune/image`` under a digest of what
they are made from. Needs Linux, mmdebstrap and, to unpack packages with their owners, root.

Exit status: 0; 1, and on the standard error output what to do.
"""

import argparse
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAME = "dgdr-retune.invalid/dgdr-retune:test"
SUITE = "bookworm"
PACKAGES = (
    "python3.11-minimal,libpython3.11-stdlib,zlib1g,libssl3,libffi8,libexpat1,liblzma5,libbz2-1.0,libstdc++6,libgcc-s1,"
    "ca-certificates,netbase,tzdata"
)
SITE = "usr/local/lib/python3.11/dist-packages"  # where Debian's Python looks for what apt did not install
USER = "65532:65532"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
LAYER = "application/vnd.oci.image.layer.v1.tar"


class ImageError(Exception):
    """The image cannot be made; the message says what to do."""


def cache_directory() -> Path:
    """Where the layers that seldom change are kept."""
    directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dgdr-retune" / "image"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def run(command: Sequence[str], failure: str) -> None:
    """Run a command; ``failure`` says what it means when it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise ImageError(f"{failure}; `{' '.join(command)}` says:\n{said}")


def kept(name: str, made_from: str, make: Callable[[Path], None]) -> Path:
    """The cached layer ``name``, made unless one made from the same is there."""
    layer = cache_directory() / f"{name}-{hashlib.sha256(made_from.encode()).hexdigest()[:16]}.tar"
    if not layer.exists():
        with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
            unfinished = Path(scratch) / f"{name}.tar"
            print(f"making the image's layer {name}", file=sys.stderr, flush=True)
            make(unfinished)
            unfinished.replace(layer)
    return layer


def make_base(layer: Path) -> None:
    """Debian's Python, its libraries and the authorities' certificates."""
    if shutil.which("mmdebstrap") is None:
        raise ImageError("there is no mmdebstrap: apt-get install mmdebstrap")
    include = f"--include={PACKAGES}"
    run(
        ["mmdebstrap", "--quiet", "--variant=extract", include, SUITE, str(layer)],
        "Debian's packages cannot be unpacked: is there a network, and are you root?",
    )


def pack(layer: Path, trees: Mapping[str, Path], links: Mapping[str, str]) -> None:
    """A layer of directory trees by their path in the image, and of symbolic links; root owns all of it."""

    def owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as archive:
        for path, tree in trees.items():
            archive.add(tree, path, filter=owned_by_root)
        for path, target in links.items():
            link = tarfile.TarInfo(path)
            link.type = tarfile.SYMTYPE
            link.linkname = target
            archive.addfile(link)


def install(layer: Path, *what: str) -> None:
    """A layer of what pip installs for the image's Python, whichever Python runs this."""
    with tempfile.TemporaryDirectory() as scratch:
        site = Path(scratch) / "site"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--target", str(site)]
        run([*command, *what], "the project and its dependencies cannot be installed: is there a network?")
        pack(layer, {SITE: site}, {"usr/bin/python": "python3.11", "usr/bin/python3": "python3.11"})


def named_dependencies() -> list[str]:
    """What pyproject.toml asks for."""
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return found


def make_dependencies(layer: Path) -> None:
    """The project's dependencies in the versions of constraints.txt."""
    wheels = ("--python-version", "3.11", "--only-binary=:all:")
    install(layer, *wheels, "--constraint", str(ROOT / "constraints.txt"), *named_dependencies())


def make_project(layer: Path) -> None:
    """The project itself."""
    install(layer, "--no-deps", str(ROOT))


def write_archive(destination: Path, name: str, layers: Sequence[Path], config: Mapping[str, Any]) -> None:
    """An image archive in OCI layout whose layers are tar files."""

    def add(archive: tarfile.TarFile, content: bytes) -> dict[str, Any]:
        found = hashlib.sha256(content).hexdigest()
        member = tarfile.TarInfo(f"blobs/sha256/{found}")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
        return {"digest": f"sha256:{found}", "size": len(content)}

    with tarfile.open(destination, "w") as archive:
        blobs = []
        for layer in layers:
            with layer.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            archive.add(layer, f"blobs/sha256/{found}")
            blobs.append({"mediaType": LAYER, "digest": f"sha256:{found}", "size": layer.stat().st_size})
        document = {
            "architecture": MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [blob["digest"] for blob in blobs]},
        }
        kind = "application/vnd.oci.image"
        described = {"mediaType": f"{kind}.config.v1+json", **add(archive, json.dumps(document).encode())}
        manifest = {"schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json", "config": described, "layers": blobs}
        listed = {
            "mediaType": manifest["mediaType"],
            **add(archive, json.dumps(manifest).encode()),
            "annotations": {
                "io.containerd.image.name": name,
                "org.opencontainers.image.ref.name": name.rpartition(":")[2],
            },
        }
        for path, text in (
            ("oci-layout", {"imageLayoutVersion": "1.0.0"}),
            ("index.json", {"schemaVersion": 2, "manifests": [listed]}),
        ):
            content = json.dumps(text).encode()
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_project_image(destination: Path, name: str = NAME) -> None:
    """The image of the operator, the sweeper and the publisher.

    Raises:
        ImageError: a program or the network is missing.
    """
    base = kept("base", f"{SUITE} {PACKAGES} {platform.machine()}", make_base)
    pinned = f"{named_dependencies()} {(ROOT / 'constraints.txt').read_text()} {SITE} {platform.machine()}"
    dependencies = kept("dependencies", pinned, make_dependencies)
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project.tar"
        make_project(project)
        config = {"User": USER, "Env": ["PATH=/usr/bin", "PYTHONUNBUFFERED=1"], "WorkingDir": "/"}
        write_archive(destination, name, (base, dependencies, project), config)


def write_program_image(destination: Path, name: str, program: Path) -> None:
    """An image that holds one static program, which it runs."""
    with tempfile.TemporaryDirectory() as scratch:
        layer = Path(scratch) / "layer.tar"
        pack(layer, {program.name: program}, {})
        write_archive(destination, name, (layer,), {"User": USER, "Entrypoint": [f"/{program.name}"]})


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Make the image of the operator, the sweeper and the publisher.")
    parser.add_argument("archive", type=Path, help="the file to write")
    parser.add_argument("--name", default=NAME, help="the image's name (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        write_project_image(arguments.archive, arguments.name)
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
