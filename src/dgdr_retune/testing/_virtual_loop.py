"""An asyncio event loop on virtual time: hours pass in milliseconds, and each run of the same code is the same run.

with VirtualLoop() as loop:
    loop.run(scenario(), until_s=3600)
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from itertools import count
from types import TracebackType
from typing import Any, Final, Literal, NoReturn, Self, TypeVar, TypeVarTuple, Unpack
from weakref import WeakValueDictionary

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
SPIN_LIMIT: Final = 1_000_000  # callbacks at one instant: no scenario of this project comes near it
CLEANUP_S: Final = 3600.0  # how long cancelled tasks may take to end
_SHOWN_TASKS: Final = 20
_CANCELLED_TIMERS: Final = 100  # as many may lie in the heap before it is cleared of them

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class VirtualTimeError(Exception):
    """The scenario cannot go on.

    ``reason`` is ``Deadlock`` (nothing is ready and no timer is set), ``Spinning`` (time stands still while callbacks
    run without end) or ``OutOfTime`` (``until_s`` is reached).
    """

    def __init__(self, reason: Literal["Deadlock", "Spinning", "OutOfTime"], message: str) -> None:
        super().__init__(message)
        self.reason = reason


class VirtualProcess:
    """What would be one operating system process: it has a wall clock of its own and can be stopped like by SIGSTOP.

    To it belong the tasks of ``spawn``, what these start, and their timers. ``clock_offset_s`` is how far its wall
    clock is off; change it at any time for a jump of the clock.
    """

    def __init__(self, loop: "VirtualLoop", name: str, clock_offset_s: float = 0.0) -> None:
        self.name = name
        self.clock_offset_s = clock_offset_s
        self.frozen = False
        self.held: list[asyncio.Handle] = []
        self._loop = loop
        self._context = copy_context()
        self._context.run(_PROCESS.set, self)

    def spawn(self, coroutine: Coroutine[Any, Any, _T], *, name: str | None = None) -> asyncio.Task[_T]:
        """Start a task in this process."""
        return self._loop.create_task(coroutine, name=name, context=self._context.copy())

    def now(self) -> datetime:
        """Its wall clock."""
        return self._loop.now() + timedelta(seconds=self.clock_offset_s)

    def freeze(self) -> None:
        """Run none of its callbacks until ``thaw``. Time goes on; what others do for it waits."""
        self.frozen = True

    def thaw(self) -> None:
        """Go on: what came from others first, its own timers that have run out after that, as in a stopped process."""
        self.frozen = False
        held, self.held = self.held, []
        for handle in sorted(held, key=lambda handle: isinstance(handle, asyncio.TimerHandle)):
            self._loop.resume(handle, self)


_PROCESS: ContextVar[VirtualProcess | None] = ContextVar("_PROCESS", default=None)


class _Task(asyncio.Task[_T]):
    """A task whose place in a set does not depend on its address: asyncio cancels the tasks of a set in its order."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        *,
        serial: int,
        process: VirtualProcess | None,
        **options: Any,
    ) -> None:
        self._serial = serial  # first: the base class puts the task into a set
        self.process = process
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._serial


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose ``time()`` jumps to the next timer as soon as nothing is ready.

    Callbacks run in the order in which they became ready; timers of one instant in the order in which they were set.
    Running takes no time. There are no threads, sockets, signals or subprocesses: asking for one is an error.
    ``wall_offset_s`` moves the wall clock of all (``now``); a ``VirtualProcess`` has an offset of its own on top.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wall_offset_s = 0.0
        self._time_s = 0.0
        self._until_s: float | None = None
        self._turns = 0
        self._serials = count(1)
        self._due: deque[tuple[asyncio.Handle, VirtualProcess | None]] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle, VirtualProcess | None]] = []
        self._cancelled_timers = 0
        self._processes: list[VirtualProcess] = []
        self._all_tasks: WeakValueDictionary[int, _Task[Any]] = WeakValueDictionary()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, coroutine: Coroutine[Any, Any, _T], *, until_s: float | None = None) -> _T:
        """Run to the end of a coroutine, then cancel what tasks are left, like ``asyncio.run``. May be called again.

        Frozen processes are thawed for that.

        Args:
            coroutine: What to run.
            until_s: The ``time()`` at which patience ends.

        Raises:
            VirtualTimeError: See there.
        """
        main = self.create_task(coroutine)
        self._until_s = until_s
        try:
            return self.run_until_complete(main)
        finally:
            self._until_s = self._time_s + CLEANUP_S
            try:
                self._cancel_tasks()
                self.run_until_complete(self.shutdown_asyncgens())
            finally:
                self._until_s = None

    def process(self, name: str, *, clock_offset_s: float = 0.0) -> VirtualProcess:
        """A new process on this loop."""
        process = VirtualProcess(self, name, clock_offset_s)
        self._processes.append(process)
        return process

    def now(self) -> datetime:
        """The wall clock (UTC)."""
        return EPOCH + timedelta(seconds=self._time_s + self.wall_offset_s)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._time_s

    def call_soon(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As in asyncio."""
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append((handle, _process(context)))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As ``call_soon``: there is one thread. asyncio itself finishes asynchronous generators through it."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[_Ts]], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio."""
        return self.call_at(self._time_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in asyncio."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._serials), handle, _process(context)))
        return handle

    def create_task(
        self,
        coro: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[_T]:
        """As in asyncio; names and hashes are the same in each run."""
        serial = next(self._serials)
        process = _process(context)
        task = _Task(coro, serial=serial, process=process, loop=self, name=name or f"task-{serial}", context=context)
        self._all_tasks[serial] = task
        return task

    def run_in_executor(self, *_: object) -> NoReturn:
        """There are no threads.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError("a virtual loop has no threads: inject what would run in one")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """As in asyncio, but for a callback that failed: nobody waits for it, and what it was to do is not done.

        Raises:
            BaseException: What the callback failed with; it ends the run.
        """
        if "handle" in context:
            raise context["exception"]
        super().call_exception_handler(context)

    def resume(self, handle: asyncio.Handle, process: VirtualProcess) -> None:
        """Make a callback ready again that a frozen process held."""
        self._due.append((handle, process))

    def _run_once(self) -> None:
        """The loop's one step, which the base class calls until it is stopped."""
        if not self._due:
            self._advance()
        if self._turns >= SPIN_LIMIT:
            self._turns = 0
            raise VirtualTimeError(
                "Spinning", f"{SPIN_LIMIT} callbacks ran at {self._time_s} s without end: {self._shown_tasks()}"
            )
        self._turns += 1
        handle, process = self._due.popleft()
        if handle.cancelled():
            return
        if process is not None and process.frozen:
            process.held.append(handle)
        else:
            handle._run()  # noqa: SLF001 - a handle is its loop's to run

    def _advance(self) -> None:
        """Jump to the next timer and make ready all that are due then."""
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
            self._cancelled_timers -= 1
        if not self._timers:
            raise VirtualTimeError(
                "Deadlock", f"nothing is ready and no timer is set at {self._time_s} s: {self._shown_tasks()}"
            )
        when = self._timers[0][0]
        if self._until_s is not None and when > self._until_s:
            self._time_s = max(self._time_s, self._until_s)
            raise VirtualTimeError("OutOfTime", f"not done at {self._time_s} s: {self._shown_tasks()}")
        if when > self._time_s:
            self._time_s = when
            self._turns = 0
        while self._timers and self._timers[0][0] <= self._time_s:
            _, _, handle, process = heapq.heappop(self._timers)
            if handle.cancelled():
                self._cancelled_timers -= 1
            else:
                self._due.append((handle, process))

    def _timer_handle_cancelled(self, _: asyncio.TimerHandle) -> None:
        """A hook of the base class: most timers are timeouts that did not happen, which must not pile up."""
        self._cancelled_timers += 1
        if self._cancelled_timers > _CANCELLED_TIMERS and 2 * self._cancelled_timers > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def _cancel_tasks(self) -> None:
        for process in self._processes:
            process.thaw()
        tasks = self._tasks_left()
        for task in tasks:
            task.cancel()
        if tasks:
            self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for task in tasks:
            if not task.cancelled() and task.exception() is not None:
                self.call_exception_handler(
                    {"message": "a task failed while it was cancelled", "exception": task.exception(), "task": task}
                )

    def _tasks_left(self) -> list[_Task[Any]]:
        return [task for _, task in sorted(self._all_tasks.items()) if not task.done()]

    def _shown_tasks(self) -> str:
        tasks = self._tasks_left()
        shown = [f"{task.get_name()}{_where(task)}" for task in tasks[:_SHOWN_TASKS]]
        more = [f"and {len(tasks) - len(shown)} more"] if len(tasks) > len(shown) else []
        return f"{len(tasks)} tasks wait: " + "; ".join(shown + more)


def _process(context: Context | None) -> VirtualProcess | None:
    return _PROCESS.get() if context is None else context.get(_PROCESS)


def _where(task: _Task[Any]) -> str:
    frozen = " (frozen)" if task.process is not None and task.process.frozen else ""
    frames = task.get_stack(limit=1)
    return f" in {frames[0].f_code.co_qualname}:{frames[0].f_lineno}{frozen}" if frames else frozen
