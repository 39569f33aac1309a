"""The facts in a published window's gzip comment."""

from attrs import frozen

from dgdr_retune.windows._completeness import Completeness
from dgdr_retune.windows._counts import Counts
from dgdr_retune.windows._window import Window


@frozen(kw_only=True)
class WindowHeader:
    """What a published window says about itself.

    Attributes:
        window: the span and cutoff it was cut for; None for a file that says nothing (it is not ours, or of another
            version), whose counts were then taken by reading it.
        deployment_uid: UID of the deployment, "" if unknown.
        sha256: hex digest of the decompressed rows; None as for `window`.
        counts: of the cut that published it.
        completeness: of the window.
    """

    window: Window | None
    deployment_uid: str
    sha256: str | None
    counts: Counts
    completeness: Completeness
