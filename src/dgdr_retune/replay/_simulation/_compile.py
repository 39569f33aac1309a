"""Compiles the hot loop where numba is installed; the same functions run unchanged where it is not.

Only the entry has its machine code cached: the functions it calls become part of it. numba's cache looks at the entry's
own file alone, so the entry is a closure over a digest of all kernel sources, which numba makes part of the cache key.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    import numba
except ImportError:
    COMPILED = False
else:
    COMPILED = not bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]  # set from the environment at import


def kernel(function: Function) -> Function:
    """A function of the hot loop: compiled into the entry that calls it, and not callable from Python then.

    Nothing in the hot loop allocates, so it does without counting references to the arrays of its state (`_nrt`),
    which would take three quarters of the time.
    """
    if not COMPILED:
        return function
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
    return cast("Function", numba.njit(**options)(function))


def kernel_entry(function: Function) -> Function:
    """The hot loop's entry: compiled once and cached, or compiled in every process where no cache can be written."""
    if not COMPILED:
        return function
    try:
        return cast("Function", numba.njit(cache=True)(function))
    except RuntimeError:  # neither beside the package nor in a user's cache directory nor in NUMBA_CACHE_DIR
        return cast("Function", numba.njit(function))


def sources_digest() -> int:
    """A number that changes with any source file of the kernel."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")
