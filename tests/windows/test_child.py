"""A cut in a process of its own: stopped at any moment without harm."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from attrs import evolve
from window_cases import RECORDED, Unsynced, member, row

from dgdr_retune.windows import (
    Cut,
    CutError,
    CutRequest,
    Place,
    UnsafePathError,
    Window,
    WindowCorruptError,
    cut,
    cut_in_child,
    load_window,
)

Make = Callable[..., CutRequest]
Write = Callable[..., Path]

WAITS_S = 20.0


@pytest.fixture
def request_(tmp_path: Path) -> CutRequest:
    return CutRequest(
        segments=Place(str(RECORDED)),
        windows=Place(str(tmp_path), "windows"),
        name="chat",
        window=Window(start_ms=1_796_038_800_000, end_ms=1_796_040_000_000, cutoff_ms=1_796_040_060_000),
        mtime_margin_s=1e9,
    )


@pytest.fixture
def stuck(tmp_path: Path, write_segments: Write, request_for: Make) -> CutRequest:
    """A cut that does not end: its segment would take minutes."""
    tiny = member(row("a", input_length=1))
    segment = tiny * 40
    write_segments({"f": [segment] * 3})
    path = tmp_path / "segments" / "f" / "trace.000003.jsonl.gz"
    with path.open("wb") as file:
        for _ in range(400):
            file.write(tiny * 1000)
    return request_for()


def children(process: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


def cutting() -> list[int]:
    """The children that cut: a test run has others, such as its control plane."""
    command = b"dgdr_retune.windows._child_main"
    return [child for child in children(os.getpid()) if command in Path(f"/proc/{child}/cmdline").read_bytes()]


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAITS_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


async def started_child() -> int:
    await asyncio.to_thread(wait_until, lambda: bool(cutting()))
    (child,) = cutting()
    return child


def run(request: CutRequest, deadline_s: float = WAITS_S) -> Cut:
    return asyncio.run(cut_in_child(request, deadline_s=deadline_s))


def test_a_child_cuts_what_the_process_itself_would(request_: CutRequest, tmp_path: Path) -> None:
    done = run(request_)
    here = cut(evolve(request_, windows=Place(str(tmp_path), "here")), filesystem=Unsynced())
    assert evolve(here, path=None) == evolve(done, path=None)
    assert load_window(done.path).header.counts.rows == 8862


def test_a_child_fails_with_the_error_of_the_cut(request_: CutRequest, tmp_path: Path) -> None:
    with pytest.raises(CutError, match="more than 10 requests") as raised:
        run(evolve(request_, maximum_rows=10))
    assert raised.value.reason == "window_too_large"
    (tmp_path / "link").symlink_to(RECORDED)
    with pytest.raises(UnsafePathError):
        run(evolve(request_, segments=Place(str(tmp_path), "link")))
    target = tmp_path / "windows" / "chat"
    target.mkdir(parents=True)
    (target / f"{request_.window.end_ms}.jsonl.gz").write_bytes(b"x")
    with pytest.raises(WindowCorruptError):
        run(request_)


def test_a_child_is_niced_in_a_session_of_its_own_and_gets_nothing_by_the_command_line(stuck: CutRequest) -> None:
    async def look() -> tuple[int, int, bytes]:
        task = asyncio.create_task(cut_in_child(stuck, deadline_s=WAITS_S))
        try:
            child = await started_child()
            await asyncio.to_thread(wait_until, lambda: os.getpriority(os.PRIO_PROCESS, child) == 10)
            return child, os.getsid(child), await asyncio.to_thread(Path(f"/proc/{child}/cmdline").read_bytes)
        finally:
            task.cancel()
            await asyncio.wait([task])

    child, session, command = asyncio.run(look())
    assert session == child
    assert command.split(b"\0")[1:-1] == [b"-P", b"-m", b"dgdr_retune.windows._child_main"]
    assert not is_alive(child)


def test_a_child_is_killed_at_its_deadline(stuck: CutRequest) -> None:
    started = time.monotonic()
    with pytest.raises(CutError, match="allow more") as raised:
        run(stuck, deadline_s=0.7)
    assert raised.value.reason == "cut_deadline"
    assert time.monotonic() - started < 10
    assert not cutting()


def test_a_child_is_killed_on_cancellation_and_the_cancellation_goes_on(stuck: CutRequest) -> None:
    async def cancel() -> int:
        task = asyncio.create_task(cut_in_child(stuck, deadline_s=WAITS_S))
        child = await started_child()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return child

    child = asyncio.run(cancel())
    assert not is_alive(child)


@pytest.mark.parametrize("turns", range(12))
def test_a_cut_that_is_cancelled_while_its_child_starts_ends_at_once(stuck: CutRequest, turns: int) -> None:
    async def fail() -> None:
        async with asyncio.timeout(WAITS_S):
            task = asyncio.create_task(cut_in_child(stuck, deadline_s=WAITS_S))
            for _ in range(turns):
                await asyncio.sleep(0)
            assert not task.done()
            raise LookupError  # asyncio.run cancels what is left

    with pytest.raises(LookupError):
        asyncio.run(fail())
    assert not cutting()


def test_a_child_that_dies_is_said_to_and_its_helpers_die_with_it(stuck: CutRequest) -> None:
    helpers: list[int] = []

    async def kill() -> None:
        task = asyncio.create_task(cut_in_child(stuck, deadline_s=WAITS_S))
        child = await started_child()
        if len(os.sched_getaffinity(0)) > 1:
            await asyncio.to_thread(wait_until, lambda: bool(children(child)))
            helpers.extend(children(child))
        os.kill(child, signal.SIGKILL)
        await task

    with pytest.raises(CutError, match="-9") as raised:
        asyncio.run(kill())
    assert raised.value.reason == "cut_died"
    for helper in helpers:
        wait_until(lambda helper=helper: not is_alive(helper))


PARENT = """
import asyncio, sys
from dgdr_retune.windows import CutRequest, Place, Window, cut_in_child
segments, windows = sys.argv[1:]
request = CutRequest(
    segments=Place(segments), windows=Place(windows), name="chat", window=Window(0, 2**60, 2**61), maximum_rows=10**9
)
asyncio.run(cut_in_child(request, deadline_s=60))
"""


def test_a_child_dies_with_its_parent(stuck: CutRequest, tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, stuck.segments.root, str(tmp_path)])
    try:
        wait_until(lambda: bool(children(parent.pid)))
        (child,) = children(parent.pid)
        wait_until(lambda: os.getpriority(os.PRIO_PROCESS, child) == 10)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not is_alive(child))


def test_a_child_whose_parent_is_gone_before_it_starts_does_nothing(request_: CutRequest) -> None:
    order = msgspec.json.encode({"parent": 1, "request": msgspec.to_builtins(request_)})
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "dgdr_retune.windows._child_main"], input=order, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert not Path(request_.windows.root, "windows").exists()


def test_a_child_that_is_killed_at_any_moment_leaves_the_window_absent_or_whole(
    request_: CutRequest, tmp_path: Path
) -> None:
    chance = random.Random(11)  # noqa: S311  # not for secrets
    window = tmp_path / "windows" / "chat" / f"{request_.window.end_ms}.jsonl.gz"
    started = time.monotonic()
    run(request_)
    whole_s = time.monotonic() - started
    content = load_window(window).header.sha256
    ended: set[str] = set()

    async def interrupted() -> str:
        task = asyncio.create_task(cut_in_child(request_, deadline_s=WAITS_S))
        child = await started_child()
        await asyncio.sleep(chance.uniform(0.3, 1.1) * whole_s)
        for process in (child, *children(child)):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            await task
        except CutError as error:
            return error.reason
        return "done"

    for _ in range(15):
        window.unlink(missing_ok=True)
        ended.add(asyncio.run(interrupted()))
        if window.exists():
            assert load_window(window).header.sha256 == content
    assert "cut_died" in ended
    run(request_)
    assert load_window(window).header.sha256 == content
    assert [path.name for path in window.parent.iterdir()] == [window.name], "what the dead left is swept"
