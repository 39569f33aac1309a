"""Pass one in several processes: each reads some of the segments, and the result is as if one had read them all."""

import os
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec
from attrs import frozen

from dgdr_retune._process import die_with
from dgdr_retune.windows._errors import CutError, Failure, WindowError
from dgdr_retune.windows._row import Refusal
from dgdr_retune.windows._scan import Damage
from dgdr_retune.windows._segments import Segment
from dgdr_retune.windows._select import Selection
from dgdr_retune.windows._table import PackedTable

WORTH_A_PROCESS: Final = 4 << 20
"""Bytes of segments: fewer are read in the time that it takes to start one and merge its result."""

_READ: Final = 1 << 20


@frozen
class _Share:
    segments: list[Segment]
    table: PackedTable
    censored: int
    valid: int
    refusals: dict[Refusal, int]
    damage: Damage


@frozen
class _Result:
    share: _Share | None = None
    failure: Failure | None = None


def select_with_helpers(
    select: Callable[[Sequence[Segment]], Selection], listed: Sequence[tuple[Segment, int]], *, processes: int
) -> Selection:
    """Do `select` for segments of known lengths, in this process and helpers that are forked from it.

    A process with threads must not fork, and does all of it. Idle ones count: numpy has some, unless its library of
    linear algebra is told not to (OPENBLAS_NUM_THREADS=1).

    Raises:
        CutError: as `select`, and `cut_died` if a helper dies.
    """
    first, *others = _parts(listed, processes if _threads() == 1 else 1)
    with ExitStack() as stack:
        helpers = [_Helper(select, part) for part in others]
        for helper in helpers:
            stack.callback(helper.stop)
        selection = select(first)
        for helper in helpers:
            _merge(selection, helper.result())
    return selection


def _threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def _parts(listed: Sequence[tuple[Segment, int]], processes: int) -> list[list[Segment]]:
    total = sum(length for _, length in listed)
    count = max(1, min(processes, total // WORTH_A_PROCESS))
    parts: list[list[Segment]] = [[] for _ in range(count)]
    before = 0
    for segment, length in listed:
        parts[min(count * (before + length // 2) // max(total, 1), count - 1)].append(segment)
        before += length
    return parts


def _merge(selection: Selection, share: _Share) -> None:
    selection.table.extend(share.table, segments=len(selection.segments))
    selection.segments.extend(share.segments)
    selection.censored += share.censored
    selection.valid += share.valid
    selection.refusals.update(share.refusals)
    selection.damage.merge(share.damage)


class _Helper:
    def __init__(self, select: Callable[[Sequence[Segment]], Selection], part: Sequence[Segment]) -> None:
        self._answers, answers = os.pipe()
        self._reaped = False
        parent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            _help(select, part, parent=parent, answers=answers)
        os.close(answers)

    def result(self) -> _Share:
        answer = bytearray()
        while part := os.read(self._answers, _READ):
            answer += part
        _, status = os.waitpid(self._process, 0)
        self._reaped = True
        if status != 0:
            code = os.waitstatus_to_exitcode(status)
            raise CutError("cut_died", f"a helper of the cut ended with {code}: -9 may be a lack of memory")
        result = msgspec.msgpack.decode(answer, type=_Result)
        if result.share is None:
            raise result.failure.to_error() if result.failure else AssertionError("a helper gave no result")
        return result.share

    def stop(self) -> None:
        os.close(self._answers)
        if not self._reaped:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def _help(
    select: Callable[[Sequence[Segment]], Selection], part: Sequence[Segment], *, parent: int, answers: int
) -> None:
    """All that a helper does; it never returns to what it was forked from."""
    try:
        die_with(parent)
        rest = memoryview(msgspec.msgpack.encode(_result(select, part)))
        while rest:
            rest = rest[os.write(answers, rest) :]
        os._exit(0)
    except BaseException:  # noqa: BLE001  # whatever it is, it must not run the parent's handlers
        traceback.print_exc()
    finally:
        os._exit(1)


def _result(select: Callable[[Sequence[Segment]], Selection], part: Sequence[Segment]) -> _Result:
    try:
        done = select(part)
    except WindowError as error:
        return _Result(failure=Failure.of(error))
    refusals = dict(done.refusals)
    return _Result(_Share(done.segments, done.table.pack(), done.censored, done.valid, refusals, done.damage))
