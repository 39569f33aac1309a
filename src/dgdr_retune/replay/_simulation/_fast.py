"""The compiled hot loop, as soon as there is one: the first results do not wait for the compiler.

Compiling takes some twenty seconds, once for a version of the sources, of numba and of the machine. Meanwhile CPython
runs the hot loop, with the same numbers, and a child process compiles into numba's cache, where later processes find
the machine code at once. Of several children at a time one compiles, and the others wait for it.
"""

import atexit
import hashlib
import os
import platform
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import define

from dgdr_retune._process import child_environment
from dgdr_retune.replay._simulation._compile import can_compile, compile_kernels, sources_digest
from dgdr_retune.replay._simulation._simulate import Run, build_entry

_WARM_UP = "dgdr_retune.replay._simulation._warm_up"


@define(eq=False)
class _Compilation:
    """How far this process is on its way to compiled code."""

    entry: Any = None
    ready: bool = False
    failed: bool = False
    child: "subprocess.Popen[bytes] | None" = None


_compilation = _Compilation()


def compiled_run() -> Run | None:
    """The compiled hot loop, or None while there is none yet or where there can be none."""
    if _compilation.failed or not can_compile():
        return None
    if _compilation.entry is None:
        _begin()
    if not _compilation.ready:
        _look()
    run: Run | None = _compilation.entry if _compilation.ready else None
    return run


def _begin() -> None:
    _compilation.entry = compile_kernels(build_entry)
    marker = marker_of(_compilation.entry)
    _compilation.ready = marker is None or marker.exists()
    if _compilation.ready:
        return
    _compilation.child = subprocess.Popen(  # noqa: S603 -- this interpreter, and a number
        [sys.executable, "-P", "-m", _WARM_UP, str(os.getpid())],
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(_end)


def _look() -> None:
    status = _compilation.child.poll() if _compilation.child is not None else None
    if status is not None:
        _compilation.ready = status == 0
        _compilation.failed = status != 0


def _end() -> None:
    if _compilation.child is not None:
        _compilation.child.kill()
        _compilation.child.wait()


def marker_of(entry: Any) -> Path | None:
    """The file that says that the cache has the entry; None where nothing can be cached."""
    directory = entry.stats.cache_path
    if directory is None:
        return None
    import numba  # noqa: PLC0415 -- loaded by now

    processor = import_module("llvmlite.binding").get_host_cpu_name()
    version = f"{sources_digest()} {numba.__version__} {platform.python_version()} {processor}"
    return Path(directory) / f"dgdr-retune-{hashlib.sha256(version.encode()).hexdigest()[:16]}.compiled"
