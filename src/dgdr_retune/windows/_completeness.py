"""How complete a window is, and why an incomplete one must not be applied."""

import base64
import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from dgdr_retune.windows._window import Window

GAP_MS: Final = 10_000
"""The shortest time without an arrival at a frontend that counts as a gap in the recording."""


def fingerprint(frontend: str) -> str:
    """Four characters (24 bits) that stand for a frontend's name where there is no room for the name."""
    return base64.urlsafe_b64encode(hashlib.sha256(frontend.encode()).digest()[:3]).decode()


def digest(frontends: Iterable[str]) -> str:
    """Sixteen characters (96 bits) that stand for a set of frontends where there is no room for a fingerprint of each.

    Of the SHA-256 of their names, sorted, each with a NUL behind it.
    """
    names = "".join(f"{name}\0" for name in sorted(set(frontends)))
    return base64.urlsafe_b64encode(hashlib.sha256(names.encode()).digest()[:12]).decode()


@frozen
class Gap:
    """No request arrived at `frontend` in [start_ms, end_ms), unix milliseconds, `GAP_MS` or longer."""

    frontend: str
    start_ms: int
    end_ms: int


@frozen
class Shortfall:
    """One reason why a window must not be applied: for machines, and in words."""

    reason: Literal["below_minimum_rows", "missing_frontend", "frontends_unknown"]
    message: str


@frozen(kw_only=True)
class Completeness:
    """What a window rests on.

    Attributes:
        rows: rows of the window.
        frontends: frontends with at least one row in the window.
        fingerprints: one per frontend seen, sorted; None where the window does not say (its header had no room for all
            of them, or the file is not ours).
        digest: of the frontends seen; None for a reused window that has their fingerprints or says nothing.
        gap_count: gaps of `GAP_MS` or more, over all frontends seen, the window's edges included.
        gap_ms: their total length.
        gaps: the gaps themselves, by frontend and time; None for a reused window, whose header keeps the totals only.
        names: the frontends seen, sorted; None for a reused window.
    """

    rows: int
    frontends: int
    fingerprints: tuple[str, ...] | None
    gap_count: int
    gap_ms: int
    gaps: tuple[Gap, ...] | None = None
    names: tuple[str, ...] | None = None
    digest: str | None = None

    def shortfalls(self, *, expected: Collection[str] | None = None, minimum_rows: int = 0) -> tuple[Shortfall, ...]:
        """Why the window must not be applied; empty if it may be.

        Gaps are no shortfall: a frontend with little traffic has them too.

        Args:
            expected: the frontends that must have recorded; None if that is not known, and then not judged.
            minimum_rows: the fewest rows that a decision may rest on.
        """
        shortfalls = []
        if self.rows < minimum_rows:
            message = f"the window has {self.rows} rows, fewer than the {minimum_rows} that a decision needs"
            shortfalls.append(Shortfall("below_minimum_rows", message))
        if not expected:
            return tuple(shortfalls)
        if self.names is not None:
            missing = sorted(set(expected) - set(self.names))
        elif self.fingerprints is not None:
            missing = sorted(name for name in expected if fingerprint(name) not in self.fingerprints)
        elif self.digest == digest(expected):
            missing = []
        else:
            message = (
                f"the window does not name its {self.frontends} frontends, and they are not exactly the "
                f"{len(set(expected))} expected ones, so whether all of those recorded is unknown"
            )
            return (*shortfalls, Shortfall("frontends_unknown", message))
        shortfalls += [Shortfall("missing_frontend", f"frontend {name} has no row in the window") for name in missing]
        return tuple(shortfalls)


def completeness_of(arrivals: Mapping[str, NDArray[np.uint64]], *, rows: int, window: Window) -> Completeness:
    """From the arrivals at each frontend, unix milliseconds in any order; those without one do not count as seen."""
    seen = sorted(name for name, times in arrivals.items() if len(times))
    gaps = tuple(gap for name in seen for gap in _gaps(name, arrivals[name], window))
    return Completeness(
        rows=rows,
        frontends=len(seen),
        fingerprints=tuple(sorted(map(fingerprint, seen))),
        gap_count=len(gaps),
        gap_ms=sum(gap.end_ms - gap.start_ms for gap in gaps),
        gaps=gaps,
        names=tuple(seen),
        digest=digest(seen),
    )


def _gaps(frontend: str, arrivals: NDArray[np.uint64], window: Window) -> list[Gap]:
    edges = np.concatenate(([window.start_ms], np.sort(arrivals).astype(np.int64), [window.end_ms]))
    before = np.flatnonzero(np.diff(edges) >= GAP_MS)
    return [Gap(frontend, int(edges[at]), int(edges[at + 1])) for at in before]
