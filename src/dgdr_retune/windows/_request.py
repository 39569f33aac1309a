"""What to cut, from where, to where."""

import re
from math import inf
from typing import Final

from attrs import Attribute, field, frozen
from attrs.validators import ge, lt

from dgdr_retune.windows._errors import UnsafePathError
from dgdr_retune.windows._names import components, is_subdomain
from dgdr_retune.windows._window import Window

_UID: Final = re.compile(r"[0-9A-Za-z-]{0,36}", re.ASCII)


def _is_below(_place: "Place", _attribute: "Attribute[str]", below: str) -> None:
    components(below)


def _is_name(_request: "CutRequest", _attribute: "Attribute[str]", name: str) -> None:
    if not is_subdomain(name):
        raise UnsafePathError(f"{name!r} is no DNS-1123 subdomain: use lower-case letters, digits, '-' and '.'")


def _is_uid(_request: "CutRequest", _attribute: "Attribute[str]", uid: str) -> None:
    if _UID.fullmatch(uid) is None:
        raise UnsafePathError(f"{uid!r} is no UID of an object")


@frozen
class Place:
    """A directory on storage that others write to.

    Attributes:
        root: path of a trusted directory (a mount point, or what the user named); it may be a link.
        below: path from there, "" for the root itself: relative, "/" between components, no empty, "." or ".."
            component, no NUL, at most 1024 characters. No component is followed if it is a link.

    Raises:
        UnsafePathError: `below` is not such a path.
    """

    root: str
    below: str = field(default="", validator=_is_below)


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

    Raises:
        UnsafePathError: the name or the UID is none.
        ValueError: a limit is not positive and finite.
    """

    segments: Place
    windows: Place
    name: str = field(validator=_is_name)
    window: Window
    deployment_uid: str = field(default="", validator=_is_uid)
    maximum_rows: int = field(default=1_000_000, validator=ge(1))
    mtime_margin_s: float = field(default=600.0, validator=[ge(0), lt(inf)])
