"""Cutting a window: from the segments of every frontend to one published file."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from attrs import evolve, field, frozen

from dgdr_retune.windows._backend import Backend
from dgdr_retune.windows._completeness import Completeness, completeness_of
from dgdr_retune.windows._counts import Counts
from dgdr_retune.windows._directories import let_pass, make_directory, open_directory, open_place
from dgdr_retune.windows._errors import CutError
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._gather import Gatherer
from dgdr_retune.windows._header import WindowHeader, encode_comment
from dgdr_retune.windows._helpers import select_with_helpers
from dgdr_retune.windows._load import header_of, open_window
from dgdr_retune.windows._member import Limits
from dgdr_retune.windows._publish import publish, sweep
from dgdr_retune.windows._request import CutRequest
from dgdr_retune.windows._row import Refusal
from dgdr_retune.windows._segments import VANISHED, list_segments, open_recordings
from dgdr_retune.windows._select import Selection, check_size, recent, select
from dgdr_retune.windows._storage import storing
from dgdr_retune.windows._table import Order, agents, publication
from dgdr_retune.windows._window_file import write_window


@frozen(kw_only=True)
class Cut:
    """How a cut ended; a cut that fails raises instead.

    Attributes:
        outcome: `published`: the file is this cut's. `reused`: it was there, or another cutter was first; then the
            counts are those of its header. `no_traffic`: no request arrived in the window and ended by its
            cutoff, and there is no file.
        path: of the window file; None without one.
        sha256: hex digest of its decompressed rows; None without a file, or for one that says nothing.
        counts: of the cut that made the window.
        completeness: of the window.
        malformed: refused rows by reason, for a cut that read segments.
        other_events: rows that record something else than the end of a request, for a cut that read segments.
        notes: what an operator may want to know about the storage.
    """

    outcome: Literal["published", "reused", "no_traffic"]
    path: str | None
    sha256: str | None
    counts: Counts
    completeness: Completeness
    malformed: Mapping[str, int] = field(factory=dict)
    other_events: int = 0
    notes: tuple[str, ...] = ()


def cut(
    request: CutRequest,
    *,
    processes: int = 1,
    filesystem: Filesystem | None = None,
    backend: Backend | None = None,
    limits: Limits | None = None,
) -> Cut:
    """Publish a window, unless it is published already.

    Two passes over the segments: the first finds the window's rows and keeps 45 bytes of each (up to 100 are needed
    while they are put in order), the second copies them in order.

    The rows and their order are a function of the segments' content and the window alone.

    Args:
        request: what to cut, from where, to where.
        processes: how many may read segments at once in the first pass; more than one are forked, and only from a
            process without other threads.
        filesystem: what reaches storage.
        backend: what inflates and deflates; the fastest that is installed by default.
        limits: what bounds memory and work.

    Raises:
        CutError: why there is no window.
        WindowCorruptError: the published window is damaged.
        UnsafePathError: a name or path of the request must not be used, or leads over a link.
    """
    cutter = _Cutter(request, filesystem or Filesystem(), backend or Backend.fastest(), limits or Limits())
    return cutter.run(processes)


@frozen
class _Cutter:
    request: CutRequest
    filesystem: Filesystem
    backend: Backend
    limits: Limits

    @property
    def _file(self) -> str:
        return f"{self.request.window.end_ms}.jsonl.gz"

    @property
    def _path(self) -> Path:
        windows = self.request.windows
        return Path(windows.root, windows.below, self.request.name, self._file)

    def run(self, processes: int) -> Cut:
        if reused := self._reuse():
            return reused
        with open_recordings(self.filesystem, self.request.segments) as segments:
            selection = self._select(segments, processes)
            if selection.damage.mostly_corrupt():
                raise _mostly_corrupt(selection)
            header, order = self._header(selection)
            if not len(order):
                _check_refusals(selection)
                return self._ended("no_traffic", header, selection)
            _check_rows(selection, order)
            gatherer = Gatherer(
                filesystem=self.filesystem,
                segments=segments,
                selection=selection,
                backend=self.backend,
                limits=self.limits,
            )
            return self._publish(header, gatherer, gatherer.by_request_id(order), selection)

    def _select(self, segments: int, processes: int) -> Selection:
        since_s = self.request.window.start_ms / 1000 - self.request.mtime_margin_s
        listing = list_segments(self.filesystem, segments)
        listed = recent(self.filesystem, listing.segments, segments=segments, since_s=since_s)
        selection = select_with_helpers(
            lambda part: select(
                self.filesystem,
                part,
                segments=segments,
                request=self.request,
                backend=self.backend,
                limits=self.limits,
            ),
            listed,
            processes=processes,
        )
        check_size(selection.table, self.request)
        return selection

    def _reuse(self) -> Cut | None:
        with storing(f"looking for {self._file}"):
            try:
                with (
                    open_place(self.filesystem, self.request.windows) as windows,
                    open_directory(self.filesystem, self.request.name, within=windows) as directory,
                ):
                    sweep(self.filesystem, directory=directory)
                    header = self._published(directory)
            except OSError as error:
                if error.errno in VANISHED:
                    return None
                raise
        if header.window not in (None, self.request.window):
            raise CutError(
                "window_mismatch",
                f"{self._path} was cut for {header.window}, not for {self.request.window}: "
                "a published window is never replaced, so remove it or publish under another name",
            )
        return Cut(
            outcome="reused",
            path=str(self._path),
            sha256=header.sha256,
            counts=header.counts,
            completeness=header.completeness,
        )

    def _published(self, directory: int) -> WindowHeader:
        with open_window(self._path, filesystem=self.filesystem, name=self._file, directory=directory) as source:
            return header_of(source, path=self._path)

    def _header(self, selection: Selection) -> tuple[WindowHeader, Order]:
        rows = selection.table.rows()
        published = publication(rows)
        damage = selection.damage
        counts = Counts(
            rows=len(published.order),
            censored=selection.censored,
            duplicates=published.duplicates,
            malformed=sum(selection.malformed.values()),
            segments=len(selection.segments),
            members=damage.members,
            corrupt_members=damage.corrupt_members,
            corrupt_bytes=damage.corrupt_bytes,
            truncated_tails=damage.truncated_tails,
            zero_fill_bytes=damage.zero_fill_bytes,
            bytes=damage.bytes,
        )
        completeness = completeness_of(selection.arrivals(), rows=counts.rows, window=self.request.window)
        header = WindowHeader(
            window=self.request.window,
            deployment_uid=self.request.deployment_uid,
            sha256=None,
            counts=counts,
            completeness=completeness,
        )
        return header, published.order

    def _publish(self, header: WindowHeader, gatherer: Gatherer, order: Order, selection: Selection) -> Cut:
        def write(descriptor: int) -> None:
            nonlocal header
            digest = write_window(
                self.filesystem,
                descriptor,
                gatherer.batches(order),
                comment=lambda sha256: encode_comment(evolve(header, sha256=sha256)),
                backend=self.backend,
            )
            header = evolve(header, sha256=digest)

        with storing(f"publishing {self._file}"), ExitStack() as stack:
            windows = stack.enter_context(open_place(self.filesystem, self.request.windows, make=True))
            make_directory(self.filesystem, self.request.name, within=windows)
            directory = stack.enter_context(open_directory(self.filesystem, self.request.name, within=windows))
            let_pass(self.filesystem, directory)
            published = publish(self.filesystem, self._file, directory=directory, write=write)
        if published.won:
            notes = () if published.directory_synced else ("the file system cannot sync a directory",)
            return self._ended("published", header, selection, notes)
        if reused := self._reuse():
            return reused
        raise CutError("publish_contended", f"{self._path} was published by another cutter and is gone: cut again")

    def _ended(
        self,
        outcome: Literal["published", "no_traffic"],
        header: WindowHeader,
        selection: Selection,
        notes: tuple[str, ...] = (),
    ) -> Cut:
        return Cut(
            outcome=outcome,
            path=str(self._path) if outcome == "published" else None,
            sha256=header.sha256,
            counts=header.counts,
            completeness=header.completeness,
            malformed=selection.malformed,
            other_events=selection.refusals[Refusal.OTHER_EVENT],
            notes=notes,
        )


def _mostly_corrupt(selection: Selection) -> CutError:
    damage = selection.damage
    return CutError(
        "trace_corrupt",
        f"{damage.corrupt_members} of {damage.members} members and {damage.corrupt_bytes + damage.zero_fill_bytes} of "
        f"{damage.bytes} bytes of the segments are damaged: what is left says too little; check the claim's storage",
    )


def _check_refusals(selection: Selection) -> None:
    """A malformed row has no time of arrival: where most are malformed, that no row is left does not mean silence."""
    malformed = sum(selection.malformed.values())
    if malformed <= selection.valid:
        return
    reasons = ", ".join(f"{reason}: {count}" for reason, count in selection.malformed.items())
    raise CutError(
        "rows_refused",
        f"no row of the window is left, and {malformed} of the {malformed + selection.valid} rows that were read are "
        f"malformed ({reasons}): check which version of the trace the frontends write",
    )


def _check_rows(selection: Selection, order: Order) -> None:
    flags = selection.table.rows()["flags"][order]
    if mixed := selection.table.mixed_block_sizes(flags):
        raise CutError(
            "mixed_block_size",
            f"the window's rows have {mixed}: one deployment has one model, recorded with one block size",
        )
    in_sessions = agents(flags)
    if in_sessions == len(order):
        raise CutError(
            "agent_traffic",
            "every request of the window belongs to an agent's session: arrivals alone do not replay it",
        )
    if in_sessions:
        raise CutError(
            "mixed_agent_context",
            f"{in_sessions} of the window's {len(order)} requests belong to an agent's session: no replay takes both",
        )
