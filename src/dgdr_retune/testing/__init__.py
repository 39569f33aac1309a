"""For tests against this SDK: an API server that is simulated in the test's own process. Needs the extra ``testing``.

    server = SimulatedApiServer()
    server.install(custom_resource_definition(REQUEST))
    client = httpx.AsyncClient(base_url="http://simulated", transport=transport(server))

For this project's own client, on any event loop: ``Api(SimulatedTransport(server), …)``.

Or, for a client that wants a socket: ``async with serve(server) as url: …``.

And a whole cluster on virtual time, in which the operator's scenarios are played with faults: ``simulate``.
"""

from dgdr_retune.testing._admission import Admission, Review
from dgdr_retune.testing._client import Client
from dgdr_retune.testing._errors import ApiError, Cause
from dgdr_retune.testing._faults import Fault, Faults
from dgdr_retune.testing._http import serve, transport
from dgdr_retune.testing._node import Script, Waiting
from dgdr_retune.testing._observer import Observer, Problem
from dgdr_retune.testing._operators import Operate, operate
from dgdr_retune.testing._part import Access
from dgdr_retune.testing._requests import Request, Response
from dgdr_retune.testing._resources import Resource
from dgdr_retune.testing._scenarios import SCENARIOS, Scenario
from dgdr_retune.testing._schema import UnsupportedSchemaError
from dgdr_retune.testing._server import SimulatedApiServer
from dgdr_retune.testing._simulation import Outcome, simulate, undisturbed
from dgdr_retune.testing._stage import Stage
from dgdr_retune.testing._transport import SimulatedTransport
from dgdr_retune.testing._virtual_loop import VirtualLoop, VirtualProcess, VirtualTimeError
from dgdr_retune.testing._watch import Watch
from dgdr_retune.testing._world import World

__all__ = [
    "SCENARIOS",
    "Access",
    "Admission",
    "ApiError",
    "Cause",
    "Client",
    "Fault",
    "Faults",
    "Observer",
    "Operate",
    "Outcome",
    "Problem",
    "Request",
    "Resource",
    "Response",
    "Review",
    "Scenario",
    "Script",
    "SimulatedApiServer",
    "SimulatedTransport",
    "Stage",
    "UnsupportedSchemaError",
    "VirtualLoop",
    "VirtualProcess",
    "VirtualTimeError",
    "Waiting",
    "Watch",
    "World",
    "operate",
    "serve",
    "simulate",
    "transport",
    "undisturbed",
]
