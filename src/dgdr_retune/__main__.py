"""`python -m dgdr_retune` is the `dgdr-retune` command."""

from dgdr_retune.cli import main

main()
