"""A call of the operator and what the server answered, as the rest of the simulation speaks of it."""

from typing import Final

from attrs import frozen

from dgdr_retune.kube import Call
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._part import CLAIMS, EVENTS, LEASES
from dgdr_retune.testing._requests import Response, find_target
from dgdr_retune.testing._server import SimulatedApiServer

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
_FIRST_REFUSAL: Final = 400


@frozen
class Action:
    """What a call does to what.

    Attributes:
        verb: create, update, patch, delete, or get, also for lists and watches.
        resource: such as ``batch/jobs``.
        namespace: of the object.
        name: of the object, also of one that is created.
        subresource: ``status`` or empty.
    """

    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str

    @property
    def kind(self) -> str:
        """What is done to what, whichever object it is."""
        plural = self.resource.rpartition("/")[2]
        return f"{self.verb} {plural}/{self.subresource}" if self.subresource else f"{self.verb} {plural}"

    @property
    def is_write(self) -> bool:
        """Whether it may change something."""
        return self.verb != "get"

    @property
    def is_bookkeeping(self) -> bool:
        """Whether it is about a Lease or an Event, which no invariant is about."""
        return self.resource in (LEASES, EVENTS)

    @property
    def may_be_invalid(self) -> bool:
        """Whether the server may find it invalid without its content being to blame for good."""
        return self.verb == "patch" and (self.subresource == "status" or self.resource == CLAIMS)


@frozen
class Exchange:
    """A call that reached the server.

    Attributes:
        client: whose call.
        action: what it does.
        body: what it sends.
        answer: what the server says to it.
    """

    client: str
    action: Action
    body: Json
    answer: Response

    @property
    def is_done(self) -> bool:
        """Whether the server did it."""
        return self.answer.code < _FIRST_REFUSAL


def action_of(server: SimulatedApiServer, call: Call, body: Json) -> Action:
    """What a call with this body does."""
    target = find_target(server.resources(), call.path)
    name = body["metadata"].get("name", "") if call.method == "POST" else target.name
    return Action(_VERBS[call.method], target.resource.key, target.namespace, name, target.subresource)
