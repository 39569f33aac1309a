"""What to cut, from where, to where."""

from attrs import frozen

from dgdr_retune.windows._window import Window


@frozen
class Place:
    """A directory on storage that others write to.

    Attributes:
        root: path of a trusted directory (a mount point, or what the user named); it may be a link.
        below: path from there, "" for the root itself: relative, "/" between components, no empty, "." or ".."
            component, no NUL, at most 1024 characters. No component is followed if it is a link.
    """

    root: str
    below: str = ""


@frozen(kw_only=True)
class CutRequest:
    """One window to cut.

    Attributes:
        segments: where each frontend pod has a directory of segments.
        windows: where windows are published, as `<windows>/<name>/<window end>.jsonl.gz`.
        name: of the deployment, a DNS-1123 subdomain.
        window: what to cut.
        deployment_uid: UID of the deployment, kept in the window's header.
        maximum_rows: a window with more rows fails as `window_too_large`.
        mtime_margin_s: a segment last written more than this before the window's start is not read; it covers the
            difference between the clocks of writer and storage.
    """

    segments: Place
    windows: Place
    name: str
    window: Window
    deployment_uid: str = ""
    maximum_rows: int = 1_000_000
    mtime_margin_s: float = 600.0
