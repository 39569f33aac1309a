"""The container that evaluates a Run: reads its input, replays, writes snapshots.

`python -m dgdr_retune.sweeper --help` says what it reads. Exit statuses: 0 a final snapshot with candidates was
written; 1 no candidate has a score, or the final snapshot could not be written; 2 refused (arguments, input, trace,
engine or AISimulate not installed); 130 SIGINT; 143 SIGTERM; those of `aisimulate recommend` where the input is handed
to it, with 3 (resource-limited) as 0 where a result was written. Once it has loaded and knows the snapshot's directory,
every end but SIGKILL leaves a final snapshot that names the cause.

This module imports nothing: see `__main__`.
"""
