"""The facts in a published window's gzip comment: compact JSON, ASCII, at most 511 bytes."""

from collections.abc import Iterator
from typing import Annotated, Final, TypeAlias

import msgspec
from attrs import asdict, fields, frozen
from msgspec import structs

from dgdr_retune.windows._completeness import Completeness
from dgdr_retune.windows._counts import Counts
from dgdr_retune.windows._gzip import MAXIMUM_COMMENT
from dgdr_retune.windows._window import Window

VERSION: Final = 1
FINGERPRINT_LENGTH: Final = 4

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


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


class _Comment(msgspec.Struct):
    v: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)]
    start: _Count
    end: _Count
    cutoff: _Count
    uid: str
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    rows: _Count
    censored: _Count
    duplicates: _Count
    malformed: _Count
    segments: _Count
    members: _Count
    corrupt_members: _Count
    corrupt_bytes: _Count
    truncated_tails: _Count
    zero_fill_bytes: _Count
    bytes: _Count
    frontends: _Count
    gaps: tuple[_Count, _Count]
    seen: str | msgspec.UnsetType = msgspec.UNSET
    digest: str | msgspec.UnsetType = msgspec.UNSET


def encode_comment(header: WindowHeader) -> str:
    """The comment of a window that was just cut; each frontend stands in it or, if that is too long, their digest.

    Raises:
        ValueError: the header belongs to no cut, or its counts are beyond all reason.
    """
    if header.window is None or header.sha256 is None:
        raise ValueError("only a window that was cut has a comment")
    completeness = header.completeness
    comment = _Comment(
        v=VERSION,
        start=header.window.start_ms,
        end=header.window.end_ms,
        cutoff=header.window.cutoff_ms,
        uid=header.deployment_uid,
        sha256=header.sha256,
        frontends=completeness.frontends,
        gaps=(completeness.gap_count, completeness.gap_ms),
        **asdict(header.counts),
    )
    for frontends in _frontends(completeness):
        if len(text := msgspec.json.encode(structs.replace(comment, **frontends))) <= MAXIMUM_COMMENT:
            return text.decode()
    return msgspec.json.encode(comment).decode()


def decode_comment(comment: bytes) -> WindowHeader | None:
    """What `encode_comment` wrote; None for anything else, another version's comment included."""
    try:
        facts = msgspec.json.decode(comment, type=_Comment)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    counts = Counts(**{field.name: getattr(facts, field.name) for field in fields(Counts)})
    return WindowHeader(
        window=Window(facts.start, facts.end, facts.cutoff),
        deployment_uid=facts.uid,
        sha256=facts.sha256,
        counts=counts,
        completeness=Completeness(
            rows=facts.rows,
            frontends=facts.frontends,
            fingerprints=None if facts.seen is msgspec.UNSET else _fingerprints(facts.seen),
            gap_count=facts.gaps[0],
            gap_ms=facts.gaps[1],
            digest=None if facts.digest is msgspec.UNSET else facts.digest,
        ),
    )


def _frontends(completeness: Completeness) -> Iterator[dict[str, str]]:
    if completeness.fingerprints is not None:
        yield {"seen": "".join(completeness.fingerprints)}
    if completeness.digest is not None:
        yield {"digest": completeness.digest}


def _fingerprints(seen: str) -> tuple[str, ...]:
    return tuple(seen[at : at + FINGERPRINT_LENGTH] for at in range(0, len(seen), FINGERPRINT_LENGTH))
