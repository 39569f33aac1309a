"""The container that projects a sweeper's snapshots into Candidates and the Run's status.

It never writes a Run's phase or conditions: the Run controller judges by the Job, which this process's exit code is a
part of.
"""

from dgdr_retune.publisher._act import Cluster
from dgdr_retune.publisher._errors import Exit, HopelessError, PublisherError, SnapshotError, UnsettledError
from dgdr_retune.publisher._file import FILE_NAME
from dgdr_retune.publisher._publisher import Publisher
from dgdr_retune.publisher._rules import RULES, publisher_cluster_role
from dgdr_retune.publisher._snapshot import Snapshot, read_snapshot

__all__ = [
    "FILE_NAME",
    "RULES",
    "Cluster",
    "Exit",
    "HopelessError",
    "Publisher",
    "PublisherError",
    "Snapshot",
    "SnapshotError",
    "UnsettledError",
    "publisher_cluster_role",
    "read_snapshot",
]
