"""What goes out and what comes back: the protocol between :class:`Api` and whatever carries its calls."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from attrs import field, frozen


@frozen(kw_only=True)
class Call:
    """One HTTP request.

    Attributes:
        method: GET, POST, PUT, PATCH or DELETE.
        path: escaped, without the query.
        query: one value for a name.
        content_type: of the body; empty without one.
        body: empty for none.
        timeout_s: for the whole exchange; for a stream, until its headers are there.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(factory=dict)
    content_type: str = ""
    body: bytes = b""
    timeout_s: float


@frozen
class Answer:
    """One HTTP response that is complete.

    Attributes:
        status: HTTP's.
        headers: names in lower case; a header that came several times is joined with commas.
        body: as received, decompressed.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """One HTTP response whose body is still coming."""

    @property
    def status(self) -> int:
        """HTTP's."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces, as they come; it waits without a deadline.

        Raises:
            MaybeAppliedError: it broke off.
        """
        ...

    async def read(self) -> bytes:
        """The rest of the body at once, for a response that is an error; it waits without a deadline.

        Raises:
            MaybeAppliedError: it broke off.
        """
        ...


class Transport(Protocol):
    """Carries calls to an API server. An HTTP status is an answer, never an exception."""

    async def send(self, call: Call) -> Answer:
        """Exchange one request for its response; it is sent once.

        Raises:
            NotSentError: nothing reached the server.
            MaybeAppliedError: the request may have reached it, and there is no response.
        """
        ...

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        """The same for a response that is read as it comes; leaving the context ends it."""
        ...
