"""The events of one watch, read off a stream."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from dgdr_retune.kube._calls import Calls
from dgdr_retune.kube._decode import decode
from dgdr_retune.kube._errors import MaybeAppliedError, refusal_of
from dgdr_retune.kube._lines import lines
from dgdr_retune.kube._resource import Json, Resource, is_stored
from dgdr_retune.kube._wire import Call


async def watch_events(
    calls: Calls, resource: Resource, call: Call, inactivity_s: float
) -> AsyncGenerator[dict[str, Json]]:
    """What :meth:`Api.watch` gives and raises."""
    async with calls.stream("watch", resource, call) as stream, aclosing(lines(stream.chunks())) as whole:
        while True:
            try:
                async with asyncio.timeout(inactivity_s):
                    line = await anext(whole)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                message = f"the watch of {resource.plural} was silent for {inactivity_s:g} s"
                raise MaybeAppliedError(message, reason="Silent") from error
            if line.strip():
                yield _event(line)


def _event(line: bytes) -> dict[str, Json]:
    """The event in one line; one that says the watch is over is raised."""
    match event := decode(line):
        case {"type": "ERROR", "object": {"kind": "Status"} as said}:
            raise refusal_of(said)
        case {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}} if version.isdecimal():
            return dict(event)
        case {"type": "ADDED" | "MODIFIED" | "DELETED", "object": found} if is_stored(found):
            return dict(event)
    raise MaybeAppliedError(f"not an event of a watch: {line[:200]!r}", reason="Malformed")
