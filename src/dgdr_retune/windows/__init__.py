"""Gzip members to valid rows to one published window file."""

from dgdr_retune.windows._window import Window

__all__ = ["Window"]
