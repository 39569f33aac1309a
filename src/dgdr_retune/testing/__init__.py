"""For tests against this SDK: an API server that is simulated in the test's own process. Needs the extra ``testing``.

    server = SimulatedApiServer()
    server.install(custom_resource_definition(REQUEST))
    client = httpx.AsyncClient(base_url="http://simulated", transport=transport(server))

For this project's own client, on any event loop: ``Api(SimulatedTransport(server), …)``.

Or, for a client that wants a socket: ``async with serve(server) as url: …``.
"""

from dgdr_retune.testing._admission import Admission, Review
from dgdr_retune.testing._errors import ApiError, Cause
from dgdr_retune.testing._http import serve, transport
from dgdr_retune.testing._requests import Request, Response
from dgdr_retune.testing._resources import Resource
from dgdr_retune.testing._schema import UnsupportedSchemaError
from dgdr_retune.testing._server import SimulatedApiServer
from dgdr_retune.testing._transport import SimulatedTransport
from dgdr_retune.testing._virtual_loop import VirtualLoop, VirtualProcess, VirtualTimeError
from dgdr_retune.testing._watch import Watch

__all__ = [
    "Admission",
    "ApiError",
    "Cause",
    "Request",
    "Resource",
    "Response",
    "Review",
    "SimulatedApiServer",
    "SimulatedTransport",
    "UnsupportedSchemaError",
    "VirtualLoop",
    "VirtualProcess",
    "VirtualTimeError",
    "Watch",
    "serve",
    "transport",
]
