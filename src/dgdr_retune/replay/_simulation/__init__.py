"""The built-in simulator: a KV router in front of vLLM-like workers, as plain functions over arrays.

The modules of the hot loop (from `_random` to `_loop`) are written in the subset of Python that numba compiles, and use
only integers below 2**63 and float64 arithmetic without `**`, so that CPython and compiled code give the same numbers
bit for bit. CPython gets lists, compiled code numpy arrays.
"""

from dgdr_retune.replay._simulation._fast import compiled_run
from dgdr_retune.replay._simulation._simulate import simulate

__all__ = ["compiled_run", "simulate"]
