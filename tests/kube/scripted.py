"""A transport that answers by a script, and keeps what it was asked and when."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from attrs import define, field, frozen

from dgdr_retune.kube import Answer, Call
from dgdr_retune.testing import VirtualLoop

T = TypeVar("T")


def run(scenario: Coroutine[Any, Any, T], *, until_s: float = 100_000) -> T:
    """Run on virtual time."""
    with VirtualLoop() as loop:
        return loop.run(scenario, until_s=until_s)


def answer(status: int, body: Any = None, **headers: str) -> Answer:
    """An answer with a JSON body; names of headers are given with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, b"" if body is None else json.dumps(body).encode())


def status(code: int, reason: str = "", message: str = "no", **details: Any) -> dict[str, Any]:
    """A Status object."""
    said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code}
    return said | ({"reason": reason} if reason else {}) | ({"details": details} if details else {})


def refused(code: int, reason: str = "", **headers: str) -> Answer:
    """An answer that refuses."""
    return answer(code, status(code, reason), **headers)


def thing(name: str, version: int, *, uid: str = "", **metadata: Any) -> dict[str, Any]:
    """A Job."""
    named = {"namespace": "default", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named | metadata}


def page(version: int, *items: dict[str, Any], follows: str = "") -> Answer:
    """A list of Jobs."""
    metadata = {"resourceVersion": str(version)} | ({"continue": follows} if follows else {})
    return answer(200, {"kind": "JobList", "apiVersion": "batch/v1", "metadata": metadata, "items": list(items)})


def event(kind: str, value: Any) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    """A line that says only how far the watch has come."""
    return event("BOOKMARK", {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"resourceVersion": str(version)}})


@frozen
class Flow:
    """A streamed response: bytes are sent, numbers are seconds of silence, exceptions are raised."""

    steps: Sequence[bytes | float | Exception] = ()
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict)

    async def chunks(self) -> AsyncIterator[bytes]:
        for step in self.steps:
            match step:
                case bytes():
                    await asyncio.sleep(0)
                    yield step
                case Exception():
                    raise step
                case _:
                    await asyncio.sleep(step)

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


def flow(*steps: bytes | float | Exception) -> Flow:
    """A watch that begins well."""
    return Flow(steps)


Step = Answer | Flow | Exception | Callable[[Call], Awaitable[Answer]]


@define
class Scripted:
    """Plays its steps in order."""

    steps: list[Step]
    calls: list[Call] = field(factory=list)
    times: list[float] = field(factory=list)
    open_streams: int = 0

    async def send(self, call: Call) -> Answer:
        step = self._next(call)
        if callable(step):
            return await step(call)
        assert isinstance(step, Answer), f"the script has {step} for {call}"
        return step

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Flow]:
        step = self._next(call)
        if isinstance(step, Answer):
            step = Flow((step.body,), step.status, step.headers)
        assert isinstance(step, Flow), f"the script has {step} for {call}"
        self.open_streams += 1
        try:
            yield step
        finally:
            self.open_streams -= 1

    def _next(self, call: Call) -> Answer | Flow | Callable[[Call], Awaitable[Answer]]:
        self.calls.append(call)
        self.times.append(asyncio.get_running_loop().time())
        assert self.steps, f"the script ends before {call}"
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def scripted(*steps: Step) -> Scripted:
    """A transport with these steps."""
    return Scripted(list(steps))
