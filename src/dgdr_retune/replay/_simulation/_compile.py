"""Marks the functions of the hot loop, and compiles them where numba is installed.

A kernel function stays the plain function that it is; compiling makes copies whose calls go to other compiled copies.
Only the entry's machine code is cached, the functions that it calls become part of it. numba's cache looks at the
entry's own file alone, so the entry is a closure over a digest of all kernel sources, which makes that part of the key.
"""

import hashlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_kernels: list[FunctionType] = []


def kernel(function: Function) -> Function:
    """A function of the hot loop."""
    _kernels.append(cast("FunctionType", function))
    return function


def can_compile() -> bool:
    """Whether numba is installed and not switched off (its own variable NUMBA_DISABLE_JIT)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0") and importlib.util.find_spec("numba") is not None


def compile_kernels(build_entry: Callable[[int], Function]) -> Function:
    """The entry, compiled at its first call or loaded from numba's cache then.

    Nothing in the hot loop allocates, so it does without counting references to the arrays of its state (`_nrt`), which
    would take three quarters of its time. Where no cache can be written, every process compiles for itself.

    Args:
        build_entry: makes the entry, a closure over the number that it is called with.
    """
    import numba  # noqa: PLC0415 -- an extra, and half a second

    inner: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
    entry = cast("FunctionType", build_entry(sources_digest()))
    modules = {function.__module__: dict(function.__globals__) for function in (*_kernels, entry)}
    compiled = {function: numba.njit(**inner)(_copy(function, modules[function.__module__])) for function in _kernels}
    for names in modules.values():
        names.update({name: compiled[value] for name, value in names.items() if _is_kernel(value)})
    copy = _copy(entry, modules[entry.__module__])
    try:
        return cast("Function", numba.njit(cache=True)(copy))
    except RuntimeError:  # neither beside the package nor in the user's cache directory nor in NUMBA_CACHE_DIR
        return cast("Function", numba.njit(copy))


def sources_digest() -> int:
    """A number that changes with any source file of the simulator."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")


def _copy(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)


def _is_kernel(value: Any) -> bool:
    return isinstance(value, FunctionType) and value in _kernels
