"""The `dgdr-retune` command."""

from dgdr_retune.cli._app import main

__all__ = ["main"]
