"""The container that projects a sweeper's snapshots into Candidates and the Run's status.

It never writes a Run's phase or conditions: the Run controller judges by the Job, which this process's exit code is a
part of. `python -m dgdr_retune.publisher --help` says what it is told, and its exit codes.

This module imports nothing: see `__main__`.
"""
