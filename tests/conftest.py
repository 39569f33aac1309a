"""What holds for every test: extras that are missing skip with the cause, and each layer's time is printed."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.fixture import cluster, installation, namespace, node_programs, observer, operator, why_no_node
from tests.controlplane.fixture import control_plane, get_programs, programs

from dgdr_retune.windows import CutRequest, Place, Window, cut

__all__ = [
    "cluster",
    "control_plane",
    "installation",
    "namespace",
    "node_programs",
    "observer",
    "operator",
    "programs",
]

TESTS = Path(__file__).parent

NEEDS = {
    "dynamo": (
        lambda: importlib.util.find_spec("dynamo") is not None,
        "needs the extra `dynamo` (ai-dynamo-runtime)",
    ),
    "fast": (
        lambda: all(importlib.util.find_spec(name) is not None for name in ("isal", "numba")),
        "needs the extra `fast` (isal, numba)",
    ),
    "root": (lambda: os.geteuid() == 0, "needs root"),
}


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The recorded segments: one directory per frontend."""
    return TESTS / "data" / "recorded"


@pytest.fixture(scope="session")
def window(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A window file of 20 recorded seconds, 946 requests."""
    directory = tmp_path_factory.mktemp("windows")
    window = Window.ending_at(1796039460000, interval_s=20, grace_s=60)
    request = CutRequest(segments=Place(str(recorded)), windows=Place(str(directory)), name="shop", window=window)
    path = cut(request).path
    assert path is not None
    return Path(path)


def pytest_configure() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and every child would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-all", action="store_true", help="fail if any test is skipped")
    parser.addoption("--kill-rounds", type=int, default=10, help="how often the operator on a real cluster is killed")
    parser.addoption("--kill-seed", type=int, default=0, help="what a failed test of killed operators printed")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what tests of a real control plane need before the first test: it takes longer than a test may."""
    needed = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if session.config.option.collectonly:
        return
    if "node_programs" in needed and not why_no_node():
        get_programs(session.config, "--node")
    elif "programs" in needed:
        get_programs(session.config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, (met, cause) in NEEDS.items():
        if item.get_closest_marker(marker) is not None and not met():
            pytest.skip(cause)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--require-all") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    seconds: dict[str, float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                layer = report.nodeid.split("/")[1] if report.nodeid.count("/") > 1 else "top"
                seconds[layer] += report.duration
                count[layer] += report.when == "call"
    terminalreporter.section("time of each layer")
    for layer in sorted(seconds, key=lambda name: -seconds[name]):
        terminalreporter.write_line(f"{seconds[layer]:8.1f} s  {count[layer]:5d} tests  tests/{layer}")
    if config.getoption("--require-all") and terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("--require-all: a skipped test is a failure", red=True)


@pytest.fixture(scope="session")
def _compiled_simulator() -> None:
    """The simulator's machine code is in numba's cache, so that short runs do not each begin to compile it."""
    if NEEDS["fast"][0]():
        command = [sys.executable, "-m", "dgdr_retune.replay._simulation._warm_up", str(os.getpid())]
        subprocess.run(command, check=True)
