"""A worker process of the local executor: replays one job after another until its parent is gone.

Started as `python -m dgdr_retune.sweep._worker SOCKET PARENT` with the number of an inherited socket and the parent's
process id. Every message on the socket is a frame: four bytes of length, big-endian, then the content. The parent
sends a pickle of (engine, scenario, handle of the shared trace) and then one of (question, router, replication) for
each job. Each job gets one answer, in MessagePack: nothing that a worker sends is unpickled.
"""

import pickle
import socket
import sys
from collections.abc import Callable
from io import BufferedRWPair
from time import perf_counter
from typing import Literal

import msgspec
import numpy as np

from dgdr_retune._process import die_with
from dgdr_retune.replay import Metrics, ReplayEngine, ReplayError, RequestTimes, RouterParameters, Scenario, attach
from dgdr_retune.sweep._executor import Failure

LENGTH_BYTES = 4
MAX_MESSAGE = 500
"""Characters of a failure's message that are passed on; an engine may answer with a page."""

Question = Literal["replay", "request_times"]
Replayer = Callable[[Question, RouterParameters, int], Metrics | RequestTimes]


class Answer(msgspec.Struct):
    """What came of one job after so many seconds: what was asked for, or the reason and message of a failure.

    `times` are the columns of `RequestTimes` in its order, float64 of this machine.
    """

    elapsed_s: float
    metrics: dict[str, float] | None = None
    times: list[bytes] | None = None
    reason: str = ""
    message: str = ""


def frame(content: bytes) -> bytes:
    """The content with its length before it."""
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def main(arguments: list[str]) -> None:
    """Serve the parent on the inherited socket."""
    descriptor, parent = map(int, arguments)
    die_with(parent)
    with socket.socket(fileno=descriptor) as channel, channel.makefile("rwb") as stream:
        channel.set_inheritable(False)  # an engine's own children must not hold it open
        serve(stream)


def serve(stream: BufferedRWPair) -> None:
    """Answer jobs until the stream ends."""
    replay = _replayer(_read(stream))
    while job := _read(stream):
        stream.write(frame(msgspec.msgpack.encode(_answer(replay, job))))
        stream.flush()


def _replayer(setup: bytes) -> Replayer:
    try:
        engine: ReplayEngine
        scenario: Scenario
        engine, scenario, handle = pickle.loads(setup)  # noqa: S301 -- written by our own parent
        trace = attach(handle)
    except Exception as error:  # noqa: BLE001 -- whatever keeps an engine from loading is the result of its jobs
        failure = error

        def refuse(_question: Question, _router: RouterParameters, _replication: int) -> Metrics:
            raise failure

        return refuse

    def replay(question: Question, router: RouterParameters, replication: int) -> Metrics | RequestTimes:
        if question == "request_times":
            return engine.request_times(trace, scenario, router, replication)
        return engine.replay(trace, scenario, router, replication)

    return replay


def _answer(replay: Replayer, job: bytes) -> Answer:
    begun = perf_counter()
    try:
        result = replay(*pickle.loads(job))  # noqa: S301 -- written by our own parent
        if isinstance(result, RequestTimes):
            columns = (result.ttft_ms, result.itl_ms, result.e2e_ms)
            return Answer(perf_counter() - begun, times=[column.astype(np.float64).tobytes() for column in columns])
        values = {str(name): float(value) for name, value in result.values.items()}
    except Exception as error:  # noqa: BLE001 -- an engine's failure is the result of its job
        failure = describe(error)
        return Answer(perf_counter() - begun, reason=failure.reason, message=failure.message)
    return Answer(perf_counter() - begun, metrics=values)


def describe(error: Exception) -> Failure:
    """An engine's error as the failure of its job."""
    if isinstance(error, ReplayError):
        return Failure(error.reason, str(error)[:MAX_MESSAGE])
    return Failure("engine_failed", f"{type(error).__name__}: {error}"[:MAX_MESSAGE])


def _read(stream: BufferedRWPair) -> bytes:
    """The next frame's content; empty when the parent is gone."""
    length = int.from_bytes(stream.read(LENGTH_BYTES), "big")
    return stream.read(length)


if __name__ == "__main__":
    main(sys.argv[1:])
