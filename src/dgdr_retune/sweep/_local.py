"""The executor on this machine: a pool of worker processes that share one trace."""

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Literal, Self

import msgspec
import numpy as np
from attrs import define, field, frozen

from dgdr_retune._process import child_environment, processors
from dgdr_retune.replay import Metrics, ReplayEngine, RequestTimes, RouterParameters, Scenario, Trace, share
from dgdr_retune.sweep._executor import Failure, Job, JobFailed, JobOutcome, Replayed
from dgdr_retune.sweep._worker import LENGTH_BYTES, Answer, Question, frame

MAX_READ = 1 << 16


@define(eq=False)
class LocalExecutor:
    """Replays jobs in worker processes of this machine; an async context manager.

    Workers are started when there are jobs for them, stay for later jobs (compiled code stays warm), are killed with
    all their children when their job is cancelled and at the latest on exit, and die with this process. A worker that
    dies takes its job with it, as that job's failure, and is replaced for the next.

    Attributes:
        replay_engine: replays; a small picklable value.
        trace: the window, shared by all workers.
        scenario: what all replays share.
        processes: how many workers at most; `auto` is one for each core that this process may keep busy.
        timeout_s: seconds that one job may take, the start of its worker included; None is no bound.
    """

    replay_engine: ReplayEngine
    trace: Trace
    scenario: Scenario
    processes: int | Literal["auto"] = "auto"
    timeout_s: float | None = None
    _shared: ExitStack = field(init=False, factory=ExitStack)
    _setup: bytes = field(init=False, default=b"")
    _workers: dict[int, "_Worker"] = field(init=False, factory=dict)

    @property
    def engine(self) -> str:
        """The engine's name."""
        return self.replay_engine.name

    @property
    def paired(self) -> bool:
        """Whether the engine pairs candidates."""
        return self.replay_engine.paired

    @property
    def parallelism(self) -> int:
        """How many workers work at once."""
        return processors() if self.processes == "auto" else self.processes

    async def __aenter__(self) -> Self:
        handle = self._shared.enter_context(share(self.trace))
        self._setup = frame(pickle.dumps((self.replay_engine, self.scenario, handle)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for slot in list(self._workers):
            self._workers.pop(slot).kill()
        self._shared.close()

    async def replay(self, jobs: Sequence[Job], report: Callable[[JobOutcome], None]) -> None:
        """Report an outcome for each job; see `Executor`."""
        waiting = iter(jobs)
        async with asyncio.TaskGroup() as group:
            for slot in range(self.parallelism):
                group.create_task(self._work(slot, waiting, report))

    async def _work(self, slot: int, waiting: Iterator[Job], report: Callable[[JobOutcome], None]) -> None:
        for job in waiting:
            report(await self._outcome(slot, job))

    async def request_times(self, router: RouterParameters, replication: int) -> RequestTimes | None:
        """Latencies of every request in one replay, while no jobs run; None where it fails or takes too long."""
        try:
            async with asyncio.timeout(self.timeout_s):
                answer = await self._ask(0, "request_times", router, replication)
        except (_WorkerDiedError, TimeoutError):
            return None
        if answer.times is None:
            return None
        return RequestTimes(*(np.frombuffer(column, np.float64) for column in answer.times))

    async def _outcome(self, slot: int, job: Job) -> JobOutcome:
        try:
            async with asyncio.timeout(self.timeout_s):
                answer = await self._ask(slot, "replay", job.router, job.replication)
        except _WorkerDiedError as died:
            return JobFailed(job, Failure("worker_died", str(died)))
        except TimeoutError:
            return JobFailed(job, Failure("replay_timeout", f"the replay took longer than {self.timeout_s:g} s"))
        if answer.metrics is None:
            return JobFailed(job, Failure(answer.reason, answer.message))
        return Replayed(job, Metrics(answer.metrics), answer.elapsed_s)

    async def _ask(self, slot: int, question: Question, router: RouterParameters, replication: int) -> Answer:
        worker = self._workers.pop(slot, None)
        if worker is not None and worker.ended():  # while it was idle, which is not this job's doing
            worker.kill()
            worker = None
        try:
            if worker is None:
                worker = _Worker.start()
                await worker.send(self._setup)
            answer = await worker.ask(frame(pickle.dumps((question, router, replication))))
        except BaseException:
            if worker is not None:
                worker.kill()
            raise
        self._workers[slot] = worker
        return answer


class _WorkerDiedError(Exception):
    """The worker process ended before it answered."""


@frozen(eq=False)
class _Worker:
    """A worker process, leader of its own session, and this end of the socket to it."""

    process: subprocess.Popen[bytes]
    channel: socket.socket

    @classmethod
    def start(cls) -> Self:
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _WorkerDiedError(f"a worker process could not be started: {error}") from error
        ours.setblocking(False)
        with theirs:
            try:
                process = subprocess.Popen(  # noqa: S603 -- this interpreter, and arguments that are numbers
                    [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno()), str(os.getpid())],
                    env=child_environment(),
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            except OSError as error:
                ours.close()
                raise _WorkerDiedError(f"a worker process could not be started: {error}") from error
        return cls(process, ours)

    def ended(self) -> bool:
        """Whether it has died, without reaping it."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    async def send(self, message: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self.channel, message)
        except ConnectionError as error:
            raise self._died() from error

    async def ask(self, message: bytes) -> Answer:
        await self.send(message)
        length = int.from_bytes(await self._receive(LENGTH_BYTES), "big")
        return msgspec.msgpack.decode(await self._receive(length), type=Answer)

    async def _receive(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            try:
                part = await asyncio.get_running_loop().sock_recv(self.channel, min(MAX_READ, size - len(content)))
            except ConnectionError as error:
                raise self._died() from error
            if not part:
                raise self._died()
            content += part
        return bytes(content)

    def _died(self) -> _WorkerDiedError:
        status = self.kill()
        cause = f"killed by signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"exit status {status}"
        return _WorkerDiedError(
            f"the worker process died: {cause}; if the system ran out of memory, use fewer `processes`"
        )

    def kill(self) -> int:
        """Kill it and its children; its exit status, which is its own if it had ended before.

        It is not reaped before this, so its process group cannot be another's.
        """
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.channel.close()
        return self.process.wait()


_MODULE = "dgdr_retune.sweep._worker"
