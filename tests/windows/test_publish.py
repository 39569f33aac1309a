"""A window appears whole or not at all, whatever storage does and whenever the cutter dies."""

import errno
import gzip
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from window_cases import START_MS, Unsynced, member, published_rows, row

from dgdr_retune.windows import CutError, CutRequest, WindowCorruptError, cut, load_window, read_header
from dgdr_retune.windows._filesystem import Filesystem
from dgdr_retune.windows._temporary import temporary_name

Make = Callable[..., CutRequest]
Write = Callable[..., Path]

CANNOT = [
    *(errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO, errno.EXDEV, errno.EMLINK, errno.EINVAL),
    *(errno.EBUSY, errno.ETIMEDOUT),
]
FULL_OR_FORBIDDEN = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES]
NAMES = errno.errorcode


def named(number: int) -> str:
    return NAMES[number]


class Faulty(Filesystem):
    """Storage whose calls fail as told: {call: errno}, or {call: function that raises or passes}."""

    def __init__(self, **faults: Any) -> None:
        self.calls: list[str] = []
        for name in ("open", "write", "write_at", "sync", "close", "change_mode", "link", "rename", "remove", "stat"):
            self._guard(name, faults.get(name))
        self._guard("rename_unless_exists", faults.get("rename_unless_exists"))
        for name in ("make_directory", "fstat", "read", "list"):
            self._guard(name, faults.get(name))

    def _guard(self, name: str, fault: Any) -> None:
        real = getattr(self, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append(name)
            if callable(fault):
                fault(*arguments, **options)
            elif fault is not None:
                raise OSError(fault, os.strerror(fault))
            return real(*arguments, **options)

        setattr(self, name, call)


def failing(number: int, when: Callable[..., bool]) -> Callable[..., None]:
    def fault(*arguments: Any, **options: Any) -> None:
        if when(*arguments, **options):
            raise OSError(number, os.strerror(number))

    return fault


def is_directory(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


@pytest.fixture
def request_(write_segments: Write, request_for: Make) -> CutRequest:
    write_segments({"f": [member(row("a"), row("b", received_ms=START_MS + 5))]})
    return request_for()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "windows" / "chat"


def the_window(directory: Path) -> Path:
    (path,) = directory.iterdir()
    assert gzip.decompress(path.read_bytes()).count(b"\n") == 2
    assert load_window(path).header.counts.rows == 2
    return path


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_window_and_its_directories_can_be_read_by_everyone(
    request_: CutRequest, directory: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        cut(request_)
    finally:
        os.umask(before)
    assert stat.S_IMODE(the_window(directory).stat().st_mode) == 0o644
    for made in (directory, directory.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o755


def test_a_directory_that_a_crash_left_closed_is_opened(request_: CutRequest, directory: Path) -> None:
    directory.mkdir(parents=True)
    directory.chmod(0o700)
    cut(request_)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755


def test_the_file_is_on_storage_before_it_has_its_name_and_closed_before_it_is_renamed(request_: CutRequest) -> None:
    storage = Faulty(link=errno.EPERM)
    cut(request_, filesystem=storage)
    calls = [call for call in storage.calls if call in ("change_mode", "sync", "close", "link", "rename_unless_exists")]
    start = calls.index("link")
    assert calls[start - 3 : start + 3] == ["change_mode", "sync", "close", "link", "rename_unless_exists", "sync"]


def test_a_published_window_is_used_and_its_segments_are_not_read(request_: CutRequest, directory: Path) -> None:
    first = cut(request_)
    written = the_window(directory).read_bytes()
    for path in Path(request_.segments.root).rglob("*.gz"):
        path.unlink()
    again = cut(request_)
    assert again.outcome == "reused"
    assert (again.path, again.sha256, again.counts) == (first.path, first.sha256, first.counts)
    assert again.completeness.fingerprints == first.completeness.fingerprints
    assert (again.completeness.names, again.completeness.gaps) == (None, None)
    assert the_window(directory).read_bytes() == written


def test_a_window_of_another_span_under_the_same_name_is_never_replaced(
    request_: CutRequest, request_for: Make, directory: Path
) -> None:
    cut(request_)
    written = the_window(directory).read_bytes()
    for other in (evolve(request_.window, start_ms=START_MS - 60_000), evolve(request_.window, cutoff_ms=START_MS + 1)):
        with pytest.raises(CutError, match="never replaced") as raised:
            cut(request_for(window=other))
        assert raised.value.reason == "window_mismatch"
    assert the_window(directory).read_bytes() == written


LADDER = {
    "no links": {"link": None},
    "no links, no renameat2": {"link": None, "rename_unless_exists": None},
}


@pytest.mark.parametrize("calls", LADDER.values(), ids=LADDER.keys())
@pytest.mark.parametrize("number", CANNOT, ids=named)
def test_a_file_system_that_cannot_do_one_thing_is_asked_for_the_next(
    request_: CutRequest, directory: Path, calls: dict[str, None], number: int
) -> None:
    storage = Faulty(**dict.fromkeys(calls, number))
    done = cut(request_, filesystem=storage)
    assert done.outcome == "published"
    assert len(published_rows(done)) == 2
    the_window(directory)
    assert ("rename" in storage.calls) is (len(calls) == 2)


@pytest.mark.parametrize("number", CANNOT, ids=named)
def test_a_file_system_that_can_do_none_of_them_is_said(request_: CutRequest, directory: Path, number: int) -> None:
    with pytest.raises(CutError, match="put the windows on one that can") as raised:
        cut(request_, filesystem=Faulty(link=number, rename_unless_exists=number, rename=number))
    assert raised.value.reason == "publish_unsupported"
    assert not list(directory.iterdir())


@pytest.mark.parametrize("number", [*FULL_OR_FORBIDDEN, errno.EIO], ids=named)
@pytest.mark.parametrize("call", ["write", "write_at", "sync", "close"])
def test_an_error_of_storage_while_writing_ends_in_one_clear_failure(
    request_: CutRequest, directory: Path, call: str, number: int
) -> None:
    temporary: list[int] = []

    def fault(descriptor: int, *_: Any) -> None:
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if name.endswith(".tmp") and not (call == "close" and temporary):
            temporary.append(descriptor)
            if call == "close":
                os.close(descriptor)
            raise OSError(number, os.strerror(number))

    with pytest.raises(CutError, match=NAMES[number]) as raised:
        cut(request_, filesystem=Faulty(**{call: fault}))
    assert raised.value.reason == "storage_failed"
    assert temporary
    assert not list(directory.iterdir())


@pytest.mark.parametrize("number", FULL_OR_FORBIDDEN, ids=named)
@pytest.mark.parametrize("call", ["link", "rename_unless_exists", "rename", "make_directory"])
def test_nor_does_one_while_publishing_leave_anything(
    request_: CutRequest, directory: Path, call: str, number: int
) -> None:
    faults: dict[str, Any] = {"link": errno.EPERM, "rename_unless_exists": errno.ENOSYS} | {call: number}
    with pytest.raises(CutError, match=NAMES[number]) as raised:
        cut(request_, filesystem=Faulty(**faults))
    assert raised.value.reason == "storage_failed"
    assert not directory.exists() or not list(directory.iterdir())


def test_a_short_write_is_continued(request_: CutRequest, directory: Path) -> None:
    class Short(Unsynced):
        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            return super().write(descriptor, memoryview(data)[:7])

        def write_at(self, descriptor: int, data: bytes, offset: int) -> int:
            return super().write_at(descriptor, data[:3], offset)

    cut(request_, filesystem=Short())
    the_window(directory)


SYNC = [errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EPERM, errno.ENOSYS, errno.EACCES, errno.EISDIR]


@pytest.mark.parametrize("number", SYNC, ids=named)
def test_a_directory_that_cannot_be_synced_is_noted_once(request_: CutRequest, directory: Path, number: int) -> None:
    done = cut(request_, filesystem=Faulty(sync=failing(number, is_directory)))
    assert done.outcome == "published"
    assert done.notes == ("the file system cannot sync a directory",)
    the_window(directory)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=named)
def test_a_directory_whose_sync_fails_is_no_success_though_the_window_is_whole(
    request_: CutRequest, directory: Path, number: int
) -> None:
    with pytest.raises(CutError, match=NAMES[number]) as raised:
        cut(request_, filesystem=Faulty(sync=failing(number, is_directory)))
    assert raised.value.reason == "storage_failed"
    the_window(directory)


@pytest.mark.parametrize("number", SYNC, ids=named)
def test_a_file_that_cannot_be_synced_is_not_published(request_: CutRequest, directory: Path, number: int) -> None:
    with pytest.raises(CutError, match=NAMES[number]):
        cut(request_, filesystem=Faulty(sync=failing(number, lambda descriptor: not is_directory(descriptor))))
    assert not list(directory.iterdir())


def test_a_mode_that_the_mount_decides_on_need_only_suffice(request_: CutRequest, directory: Path) -> None:
    before = os.umask(0o022)
    try:
        cut(request_, filesystem=Faulty(change_mode=errno.EPERM))
        the_window(directory).unlink()
        os.umask(0o077)
        with pytest.raises(CutError, match="EPERM"):
            cut(request_, filesystem=Faulty(change_mode=errno.EPERM))
    finally:
        os.umask(before)


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO, errno.ETIMEDOUT], ids=named)
@pytest.mark.parametrize("call", ["link", "rename_unless_exists", "rename"])
def test_a_call_that_was_done_though_its_reply_was_lost_counts_as_done(
    request_: CutRequest, directory: Path, call: str, number: int
) -> None:
    class Lost(Unsynced):
        def link(self, source: str, target: str, *, directory: int) -> None:
            self.answer("link", Filesystem.link, source, target, directory)

        def rename_unless_exists(self, source: str, target: str, *, directory: int) -> None:
            self.answer("rename_unless_exists", Filesystem.rename_unless_exists, source, target, directory)

        def rename(self, source: str, target: str, *, directory: int) -> None:
            self.answer("rename", Filesystem.rename, source, target, directory)

        def answer(self, name: str, do: Any, source: str, target: str, directory: int) -> None:
            if name != call:
                raise OSError(errno.ENOSYS, "cannot")
            do(self, source, target, directory=directory)
            raise OSError(number, "lost")

    done = cut(request_, filesystem=Lost())
    assert done.outcome == "published"
    the_window(directory)


@pytest.mark.parametrize(
    "cannot", [{}, {"link": errno.EPERM}, {"link": errno.EPERM, "rename_unless_exists": errno.EINVAL}]
)
def test_whoever_publishes_first_wins_and_the_other_uses_it(
    request_: CutRequest, directory: Path, cannot: dict[str, int]
) -> None:
    published: list[Path] = []

    def other(*_: Any, **__: Any) -> None:
        if not published:
            published.append(Path(str(cut(request_, filesystem=Unsynced()).path)))

    done = cut(request_, filesystem=Faulty(write_at=other, **cannot))
    assert done.outcome == "reused"
    assert the_window(directory) == published[0]


def test_a_window_that_storage_shows_late_is_found_by_listing_or_left_to_the_next_cut(
    request_: CutRequest, directory: Path
) -> None:
    cut(request_, filesystem=Unsynced())

    class Negative(Unsynced):
        """Storage that has cached that the window is absent."""

        def __init__(self, *, listing_helps: bool) -> None:
            self.hidden = True
            self.was_refused = False
            self.listing_helps = listing_helps

        def open(self, name: str, flags: int, **options: Any) -> int:
            if self.hidden and name.endswith("0.jsonl.gz") and name[0].isdigit():
                raise FileNotFoundError(errno.ENOENT, "cached")
            return super().open(name, flags, **options)

        def stat(self, name: str, *, directory: int) -> os.stat_result:
            if self.hidden and name[0].isdigit():
                raise OSError(errno.ESTALE, "cached")
            return super().stat(name, directory=directory)

        def list(self, directory: int) -> list[str]:
            self.hidden = self.hidden and not (self.listing_helps and self.was_refused)
            return super().list(directory)

        def link(self, source: str, target: str, *, directory: int) -> None:
            self.was_refused = True
            super().link(source, target, directory=directory)

    assert cut(request_, filesystem=Negative(listing_helps=True)).outcome == "reused"
    with pytest.raises(CutError, match="cut again") as raised:
        cut(request_, filesystem=Negative(listing_helps=False))
    assert raised.value.reason == "publish_contended"
    the_window(directory)


def test_a_claim_is_respected_until_it_is_abandoned(request_: CutRequest, directory: Path) -> None:
    directory.mkdir(parents=True)
    claim = directory / f".{request_.window.end_ms}.jsonl.gz.claim"
    claim.touch()
    storage = Faulty(link=errno.ENOSYS, rename_unless_exists=errno.ENOSYS)
    with pytest.raises(CutError, match="cut again") as raised:
        cut(request_, filesystem=storage)
    assert raised.value.reason == "publish_contended"
    assert [path.name for path in directory.iterdir()] == [claim.name]
    os.utime(claim, (claim.stat().st_mtime - 301,) * 2)
    assert cut(request_, filesystem=storage).outcome == "published"
    the_window(directory)


NO_ATOMIC_CALL = {"link": errno.EPERM, "rename_unless_exists": errno.EINVAL}


@pytest.mark.parametrize("call", ["stat", "rename"])
def test_a_cutter_that_was_suspended_with_its_claim_replaces_no_window(
    request_: CutRequest, directory: Path, call: str
) -> None:
    others: list[Path] = []

    def suspended(*_: Any, **__: Any) -> None:
        claims = [*directory.glob(".*.claim")]
        if claims and not others:
            os.utime(claims[0], (claims[0].stat().st_mtime - 400,) * 2)
            others.append(Path(str(cut(request_, filesystem=Faulty(**NO_ATOMIC_CALL)).path)))
            written.append(others[0].read_bytes())
            if call == "rename":
                # As storage that shows the other's window late: nothing but the fence is left to stop this cutter.
                others[0].rename(directory.parent / "hidden")

    written: list[bytes] = []
    faults: dict[str, Any] = {**NO_ATOMIC_CALL, call: suspended}
    if call == "rename":
        with pytest.raises(CutError, match="cut again") as raised:
            cut(request_, filesystem=Faulty(**faults))
        assert raised.value.reason == "publish_contended"
        assert not list(directory.iterdir())
        return
    assert cut(request_, filesystem=Faulty(**faults)).outcome == "reused"
    assert the_window(directory).read_bytes() == written[0]


def test_a_claim_is_told_from_its_successor_by_what_it_says(request_: CutRequest, directory: Path) -> None:
    class Succeeded(Faulty):
        """Another cutter has the claim now, in a file with the number of the first."""

        def stat(self, name: str, *, directory: int) -> os.stat_result:
            for claim in Path(f"/proc/self/fd/{directory}").glob(".*.claim"):
                claim.write_text("another")
            return super().stat(name, directory=directory)

    storage = Succeeded(**NO_ATOMIC_CALL)
    storage.stat = Succeeded.stat.__get__(storage)  # type: ignore[method-assign]
    with pytest.raises(CutError, match="cut again") as raised:
        cut(request_, filesystem=storage)
    assert raised.value.reason == "publish_contended"
    assert [path.read_text() for path in directory.iterdir()] == ["another"]


def test_a_window_that_took_the_place_of_the_renamed_one_is_reported_as_anothers(
    request_: CutRequest, directory: Path
) -> None:
    class Replaced(Unsynced):
        def link(self, *_: Any, **__: Any) -> None:
            raise OSError(errno.EPERM, "cannot")

        rename_unless_exists = link

        def rename(self, source: str, target: str, *, directory: int) -> None:
            super().rename(source, target, directory=directory)
            window = Path(f"/proc/self/fd/{directory}", target).resolve()
            other = window.with_name("other")
            other.write_bytes(window.read_bytes())
            other.rename(window)

    assert cut(request_, filesystem=Replaced()).outcome == "reused"
    the_window(directory)


def test_abandoned_claims_are_swept_with_the_file_of_their_holder_and_nothing_else(
    request_: CutRequest, directory: Path
) -> None:
    directory.mkdir(parents=True)
    held = {name: directory / temporary_name("1.jsonl.gz") for name in ("old", "young")}
    for path in held.values():
        path.touch()
    outside = directory.parent / temporary_name("1.jsonl.gz")
    outside.touch()
    said = {
        ".1.jsonl.gz.claim": held["old"].name,
        ".2.jsonl.gz.claim": held["young"].name,
        ".3.jsonl.gz.claim": f".x/../../{outside.name}",
        ".4.jsonl.gz.claim": f"../{outside.name}",
        ".5.jsonl.gz.claim": "",
    }
    (directory / ".x").mkdir()
    for name, text in said.items():
        (directory / name).write_text(text)
        if name != ".2.jsonl.gz.claim":
            os.utime(directory / name, (held["old"].stat().st_mtime - 301,) * 2)
    done = cut(request_)
    left = {held["young"].name, ".2.jsonl.gz.claim", ".x", Path(str(done.path)).name}
    assert {path.name for path in directory.iterdir()} == left
    assert outside.exists()


@pytest.mark.parametrize("first_listed", [True, False])
def test_what_cannot_be_swept_does_not_keep_the_rest_from_it(
    request_: CutRequest, directory: Path, *, first_listed: bool
) -> None:
    directory.mkdir(parents=True)
    names = [temporary_name(f"{number}.jsonl.gz") for number in range(3)]
    stuck = names[0] if first_listed else names[2]
    for name in names:
        if name == stuck:
            (directory / name).mkdir()
        else:
            (directory / name).touch()
        os.utime(directory / name, (1, 1))

    class Sorted(Unsynced):
        def list(self, directory: int) -> list[str]:
            return sorted(super().list(directory))

    done = cut(request_, filesystem=Sorted())
    assert {path.name for path in directory.iterdir()} == {stuck, Path(str(done.path)).name}


def test_temporary_files_of_the_dead_are_swept_and_those_of_the_living_are_not(
    request_: CutRequest, directory: Path
) -> None:
    directory.mkdir(parents=True)
    mine = directory / temporary_name("1.jsonl.gz")
    order = "from dgdr_retune.windows._temporary import temporary_name; print(temporary_name('1.jsonl.gz'))"
    dead = (
        directory
        / subprocess.run([sys.executable, "-c", order], capture_output=True, check=True, text=True).stdout[:-1]
    )
    space, *process = dead.name.split(".")[-2].split("-")
    elsewhere, abandoned = (
        directory / ".".join((".1.jsonl.gz", "-".join((other, *process)), "tmp")) for other in ("0" * 8, "1" * 8)
    )
    assert space not in ("0" * 8, "1" * 8)
    foreign = directory / ".1.jsonl.gz.tmp"
    for path in (mine, dead, elsewhere, abandoned, foreign):
        path.touch()
    os.utime(abandoned, (abandoned.stat().st_mtime - 3700,) * 2)
    done = cut(request_)
    assert {path.name for path in directory.iterdir()} == {
        mine.name,
        elsewhere.name,
        foreign.name,
        Path(str(done.path)).name,
    }


def test_the_directory_that_vanishes_meanwhile_ends_in_one_clear_failure(request_: CutRequest, directory: Path) -> None:
    def vanish(*_: Any, **__: Any) -> None:
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()

    with pytest.raises(CutError, match="ENOENT") as raised:
        cut(request_, filesystem=Faulty(link=vanish))
    assert raised.value.reason == "storage_failed"


def test_a_target_that_is_a_link_is_neither_followed_nor_replaced(
    request_: CutRequest, directory: Path, tmp_path: Path
) -> None:
    directory.mkdir(parents=True)
    target = directory / f"{request_.window.end_ms}.jsonl.gz"
    for points_at in (tmp_path / "nowhere", tmp_path / "segments" / "f" / "trace.000000.jsonl.gz"):
        target.symlink_to(points_at)
        with pytest.raises(WindowCorruptError, match="link"):
            cut(request_)
        assert target.is_symlink()
        assert not (tmp_path / "nowhere").exists()
        target.unlink()


class Killed(BaseException):
    """The process is gone: nothing it would do later happens."""


class Dying(Filesystem):
    """Storage of a process that is killed before its n-th change of storage."""

    CHANGES = (
        *("write", "write_at", "sync", "change_mode", "make_directory", "link", "rename_unless_exists", "rename"),
        "remove",
    )

    def __init__(self, survives: int, cannot: dict[str, int]) -> None:
        self.left = survives
        self.cannot = cannot
        for name in (*self.CHANGES, "open"):
            self._guard(name)

    def _guard(self, name: str) -> None:
        real = getattr(self, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT and self.left >= 0:
                return real(*arguments, **options)
            self.left -= 1
            if self.left < 0:
                raise Killed
            if name in self.cannot:
                raise OSError(self.cannot[name], "cannot")
            return real(*arguments, **options)

        setattr(self, name, call)


@pytest.mark.parametrize(
    "cannot", [{}, {"link": errno.EPERM}, {"link": errno.EPERM, "rename_unless_exists": errno.EINVAL}]
)
def test_a_cutter_that_dies_at_any_step_leaves_the_window_absent_or_whole(
    request_: CutRequest, directory: Path, cannot: dict[str, int]
) -> None:
    seen = set()
    for survives in range(100):
        try:
            cut(request_, filesystem=Dying(survives, cannot))
        except Killed:
            died = True
        else:
            died = False
        window = directory / f"{request_.window.end_ms}.jsonl.gz"
        seen.add(window.exists())
        if window.exists():
            assert load_window(window).header.counts.rows == 2
        # The next cutter: the dead one's claim, if it left one, is as old as it takes.
        for claim in directory.glob(".*.claim"):
            os.utime(claim, (claim.stat().st_mtime - 400,) * 2)
        assert len(published_rows(cut(request_))) == 2
        if not died:
            break
        for path in [*directory.iterdir()]:
            path.unlink()
        directory.rmdir()
        directory.parent.rmdir()
    assert not died
    assert seen == {False, True}


@pytest.mark.parametrize("call", ["open", "fstat", "read", "list"])
@pytest.mark.parametrize("times", [1, 99], ids=["once", "for good"])
def test_a_stale_segment_is_opened_again_once_and_else_counts_as_gone(
    write_segments: Write, request_for: Make, call: str, times: int
) -> None:
    write_segments({"f": [member(row("a"))], "g": [member(row("b")), member(row("c"))]})
    left = [times]

    class Stale(Unsynced):
        def strike(self, name: str, descriptor_or_name: int | str) -> None:
            path = str(descriptor_or_name)
            if isinstance(descriptor_or_name, int):
                path = str(Path(f"/proc/self/fd/{descriptor_or_name}").readlink())
            wanted = "/g" if name == "list" else "trace.000001.jsonl.gz"
            if name == call and path.endswith(wanted) and left[0]:
                left[0] -= 1
                raise OSError(errno.ESTALE, "stale")

        def open(self, name: str, flags: int, **options: Any) -> int:
            self.strike("open", name)
            return super().open(name, flags, **options)

        def fstat(self, descriptor: int) -> os.stat_result:
            self.strike("fstat", descriptor)
            return super().fstat(descriptor)

        def read(self, descriptor: int, size: int, offset: int) -> bytes:
            self.strike("read", descriptor)
            return super().read(descriptor, size, offset)

        def list(self, directory: int) -> list[str]:
            self.strike("list", directory)
            return super().list(directory)

    done = cut(request_for(), filesystem=Stale())
    found = [one.split(b'"request_id":"')[1][:1] for one in published_rows(done)]
    if times == 1 and call in ("read", "list"):
        assert found == [b"a", b"b", b"c"]
    elif call == "list":
        assert found == [b"a"]
    else:
        assert found == [b"a", b"b"]
    assert done.counts.malformed == done.counts.corrupt_members == 0


def test_a_stale_segment_that_was_replaced_is_not_read_on(write_segments: Write, request_for: Make) -> None:
    path = write_segments({"f": [member(row("a"))]}) / "f" / "trace.000000.jsonl.gz"

    class Replaced(Unsynced):
        def read(self, descriptor: int, size: int, offset: int) -> bytes:
            if not (path.parent / "other").exists():
                (path.parent / "other").write_bytes(member(row("b")))
                (path.parent / "new").write_bytes(member(row("b")))
                (path.parent / "new").rename(path)
                raise OSError(errno.ESTALE, "stale")
            return super().read(descriptor, size, offset)

    with pytest.raises(CutError, match="replaced") as raised:
        cut(request_for(), filesystem=Replaced())
    assert raised.value.reason == "segments_changed"


def test_nothing_of_a_segment_that_vanishes_while_it_is_read_is_used(write_segments: Write, request_for: Make) -> None:
    many = [row("gone" * 100 + f"{number}") for number in range(3000)]
    whole = b"".join(gzip.compress(one + b"\n", 0) for one in many)
    path = write_segments({"f": [whole, member(row("left"))]}) / "f" / "trace.000000.jsonl.gz"
    assert len(whole) > 2 << 20

    class Vanishing(Unsynced):
        def read(self, descriptor: int, size: int, offset: int) -> bytes:
            if offset > 1 << 20:
                path.unlink(missing_ok=True)
                raise OSError(errno.ESTALE, "stale")
            return super().read(descriptor, size, offset)

    done = cut(request_for(), filesystem=Vanishing())
    assert [one.split(b'"request_id":"')[1][:4] for one in published_rows(done)] == [b"left"]
    assert (done.counts.rows, done.counts.segments, done.counts.members) == (1, 1, 1)


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES], ids=named)
@pytest.mark.parametrize("call", ["open", "read"])
def test_a_segment_that_cannot_be_read_fails_the_cut(
    request_: CutRequest, directory: Path, call: str, number: int
) -> None:
    class Unreadable(Unsynced):
        def open(self, name: str, flags: int, **options: Any) -> int:
            if call == "open" and name.startswith("trace"):
                raise OSError(number, os.strerror(number))
            return super().open(name, flags, **options)

        def read(self, descriptor: int, size: int, offset: int) -> bytes:
            if call == "read":
                raise OSError(number, os.strerror(number))
            return super().read(descriptor, size, offset)

    with pytest.raises(CutError, match=r"trace\.000000") as raised:
        cut(request_, filesystem=Unreadable())
    assert raised.value.reason == "segments_unreadable"
    assert not directory.exists()


def test_no_descriptor_is_left_open(request_: CutRequest) -> None:
    def opened() -> set[str]:
        return {path.name for path in Path("/proc/self/fd").iterdir()}

    before = opened()
    window = Path(str(cut(request_).path))
    cut(request_)
    read_header(window)
    for call in ("write", "sync", "link", "stat", "fstat", "read", "list"):
        window.unlink(missing_ok=True)
        with suppress(CutError):
            cut(request_, filesystem=Faulty(**{"link": errno.EIO, "rename_unless_exists": errno.EIO, call: errno.EIO}))
    assert opened() == before
