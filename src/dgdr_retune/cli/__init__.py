"""The `dgdr-retune` command."""
