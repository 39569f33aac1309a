"""Names that may be used below a claim that others write to."""

import re
from typing import Final

from dgdr_retune.windows._errors import UnsafePathError

MAXIMUM_PATH: Final = 1024
_MAXIMUM_SUBDOMAIN: Final = 253
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_SEGMENT: Final = re.compile(r".*\.([0-9]{6,})\.jsonl\.gz", re.ASCII | re.DOTALL)


def is_subdomain(name: str) -> bool:
    """Whether a name is a DNS-1123 subdomain, as the names of pods and deployments are."""
    return len(name) <= _MAXIMUM_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def segment_index(name: str) -> int | None:
    """The index of a segment by its file name `<prefix>.NNNNNN.jsonl.gz` (six digits or more); None for any other."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


def components(path: str) -> list[str]:
    """The components of a path below a claim, [] for "".

    Raises:
        UnsafePathError: it is absolute or longer than `MAXIMUM_PATH`, or has an empty, "." or ".." component or a NUL.
    """
    if not path:
        return []
    parts = path.split("/")
    if len(path) > MAXIMUM_PATH or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise UnsafePathError(
            f"{path!r} is no path below a claim: give a relative one of at most {MAXIMUM_PATH} characters, "
            "without empty, '.' or '..' components"
        )
    return parts
