"""Calls over HTTP, with it known of each failed one whether it can have reached the server."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Final

import aiohttp
from attrs import define, frozen

from dgdr_retune.kube._errors import MaybeAppliedError, NotSentError
from dgdr_retune.kube._login import Login, Source, found_source, tls_context
from dgdr_retune.kube._wire import Answer, Call, Stream

_UNAUTHORIZED: Final = 401
_SENT_HEADERS: Final = {"Accept": "application/json", "User-Agent": "dgdr-retune"}


@define
class _Progress:
    """How far one request has come."""

    begun: bool = False
    sent: bool = False

    async def once(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Let no second attempt through: aiohttp makes one for each method that HTTP calls idempotent, even PUT."""
        if self.begun:
            raise ConnectionResetError("the connection was lost before an answer came")
        self.begun = True
        return await handler(request)


@frozen
class _HttpStream:
    """A response of aiohttp as a :class:`Stream`."""

    response: aiohttp.ClientResponse
    call: Call

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return _headers(self.response)

    async def chunks(self) -> AsyncIterator[bytes]:
        with _classed(self.call, _Progress(sent=True)):
            async for chunk in self.response.content.iter_any():
                yield chunk

    async def read(self) -> bytes:
        with _classed(self.call, _Progress(sent=True)):
            return await self.response.read()


class HttpTransport:
    """A :class:`Transport` to a real API server; :func:`connect` makes it."""

    def __init__(self, login: Login, session: aiohttp.ClientSession) -> None:
        self._login = login
        self._session = session

    async def send(self, call: Call) -> Answer:
        """Exchange one request for its response."""
        progress = _Progress()
        with _classed(call, progress):
            async with asyncio.timeout(call.timeout_s):
                response = await self._begun(call, progress)
                async with response:
                    return Answer(response.status, _headers(response), await response.read())

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        """The same for a response that is read as it comes."""
        progress = _Progress()
        with _classed(call, progress):
            async with asyncio.timeout(call.timeout_s):
                response = await self._begun(call, progress)
        try:
            yield _HttpStream(response, call)
        finally:
            _abort(response)

    async def _begun(self, call: Call, progress: _Progress) -> aiohttp.ClientResponse:
        """The response once its headers are there; a credential that is refused is renewed once."""
        authorization = await self._login.authorization()
        response = await self._requested(call, authorization, progress)
        if response.status != _UNAUTHORIZED:
            return response
        try:
            renewed = await self._login.authorization_after(authorization)
        except BaseException:
            response.close()
            raise
        if renewed == authorization:
            return response
        response.close()
        progress.begun = progress.sent = False
        return await self._requested(call, renewed, progress)

    async def _requested(self, call: Call, authorization: str, progress: _Progress) -> aiohttp.ClientResponse:
        configuration = self._login.configuration
        headers = dict(_SENT_HEADERS)
        if authorization:
            headers["Authorization"] = authorization
        if call.content_type:
            headers["Content-Type"] = call.content_type
        return await self._session.request(
            call.method,
            f"{configuration.host}{call.path}",
            params=call.query,
            data=call.body or None,
            headers=headers,
            allow_redirects=False,
            proxy=configuration.proxy,
            proxy_headers=configuration.proxy_headers,
            server_hostname=configuration.tls_server_name,
            middlewares=[progress.once],
            trace_request_ctx=progress,
        )


@asynccontextmanager
async def connect(source: Source | None = None) -> AsyncIterator[HttpTransport]:
    """A transport to a cluster, and its connections for as long as the context lasts.

    Args:
        source: :class:`InCluster` or :class:`Kubeconfig`; None for the former in a pod, for the latter elsewhere.

    Raises:
        ConfigurationError: it is not known where the API server is, or who we are.
    """
    login = await Login.from_source(source or found_source())
    tracing = aiohttp.TraceConfig()
    tracing.on_request_headers_sent.append(_note_sent)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls_context(login.configuration), limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        trace_configs=[tracing],
    )
    async with session:
        yield HttpTransport(login, session)


async def _note_sent(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _sent: aiohttp.TraceRequestHeadersSentParams
) -> None:
    context.trace_request_ctx.sent = True


@contextmanager
def _classed(call: Call, progress: _Progress) -> Iterator[None]:
    """Tell failures after the first byte went out from those before."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
        what = f"{call.method} {call.path}: {str(error) or type(error).__name__}"
        if not progress.sent:
            raise NotSentError(f"the API server cannot be reached: {what}") from error
        raise MaybeAppliedError(f"no answer came: {what}") from error


def _abort(response: aiohttp.ClientResponse) -> None:
    """End a response that is still coming, without waiting for a server's goodbye as TLS would, for half a minute."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): ", ".join(response.headers.getall(name)) for name in response.headers}
