"""The simulated API server behind this project's own client, in one process and on any event loop."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Final
from urllib.parse import unquote

from attrs import field, frozen

from dgdr_retune.kube import Answer, Call, Stream
from dgdr_retune.testing._errors import ApiError
from dgdr_retune.testing._follow import follow
from dgdr_retune.testing._http import answer, warning_headers
from dgdr_retune.testing._json import encode
from dgdr_retune.testing._requests import Request, Response
from dgdr_retune.testing._server import SimulatedApiServer

_HEADERS: Final = {"content-type": "application/json"}


@frozen
class _Stream:
    """The answer to a watch, or the error instead of it."""

    status: int
    lines: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(factory=lambda: dict(_HEADERS))

    def chunks(self) -> AsyncIterator[bytes]:
        return self.lines

    async def read(self) -> bytes:
        return b"".join([line async for line in self.lines])


class SimulatedTransport:
    """A :class:`~dgdr_retune.kube.Transport`; it takes a turn of the loop each way, and no time.

    Args:
        server: what answers.
    """

    def __init__(self, server: SimulatedApiServer) -> None:
        self._server = server

    async def send(self, call: Call) -> Answer:
        """Answer a call; a watch is answered by :meth:`stream` alone."""
        await asyncio.sleep(0)
        response = answer(self._server, request_of(call))
        await asyncio.sleep(0)
        return answer_of(response)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        """Open a watch; its lines follow the writes."""
        await asyncio.sleep(0)
        request = request_of(call)
        try:
            if not self._server.is_watch(request):
                message = f"{call.method} {call.path} is no watch: send it"
                raise ValueError(message)
            watch = self._server.watch(request)
        except ApiError as error:
            yield _Stream(error.code, _once(encode(error.status())))
            return
        async with aclosing(follow(self._server.store, watch, request)) as lines:
            yield _Stream(200, lines)


def request_of(call: Call) -> Request:
    """A call as the server takes it."""
    return Request(call.method, unquote(call.path), call.query, call.content_type, call.body)


def answer_of(response: Response) -> Answer:
    """What the server says, as it comes back."""
    warnings = ", ".join(text for _, text in warning_headers(response))
    headers = {**_HEADERS, **({"warning": warnings} if warnings else {})}
    return Answer(response.code, headers, encode(response.body))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
