"""For tests against this SDK: an API server that is simulated in the test's own process.

It needs the extra ``testing``.
"""

from dgdr_retune.testing._admission import Admission, Review
from dgdr_retune.testing._errors import ApiError, Cause
from dgdr_retune.testing._http import serve, transport
from dgdr_retune.testing._requests import Request, Response
from dgdr_retune.testing._resources import Resource
from dgdr_retune.testing._schema import UnsupportedSchemaError
from dgdr_retune.testing._server import SimulatedApiServer
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
    "UnsupportedSchemaError",
    "Watch",
    "serve",
    "transport",
]
