"""The verbs of the Kubernetes API on raw JSON, over any transport."""

import json
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Literal

from attrs import frozen

from dgdr_retune.kube._backoff import Backoff
from dgdr_retune.kube._calls import Calls, Observe
from dgdr_retune.kube._decode import decode
from dgdr_retune.kube._errors import GoneError, MaybeAppliedError
from dgdr_retune.kube._resource import Json, Resource, is_stored
from dgdr_retune.kube._watch import watch_events
from dgdr_retune.kube._wire import Call, Transport

PAGE_SIZE: Final = 500
"""Objects in one answer to a list."""

Propagation = Literal["Background", "Foreground", "Orphan"]

_JSON: Final = "application/json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"


@frozen
class Listing:
    """All objects of one moment.

    Attributes:
        items: complete objects, with their kind.
        resource_version: the moment, from which a watch goes on.
    """

    items: tuple[dict[str, Json], ...]
    resource_version: str


class Api:
    """What this project asks of an API server. Reads are never cached.

    Reads are repeated after any failure that may pass, and writes after those alone that say that nothing was done:
    :class:`NotSentError`, 429, and 503 with ``Retry-After``. How long the server asks to wait is honoured up to a cap,
    with jitter, as long as the deadline leaves room. A write that may have been applied is the caller's to look into.

    All methods raise :class:`KubeError`: one of :class:`RefusedError`'s kinds, or :class:`NotSentError` or
    :class:`MaybeAppliedError` once there is no more time.

    Args:
        transport: carries the calls.
        rng: for jitter.
        timeout_s: of one call.
        deadline_s: of one method (of one page of a list), repetitions and waiting included.
        attempts: how often a call is made at most.
        backoff_s: about how long to wait before the second attempt; it doubles from there.
        backoff_cap_s: the longest wait that is not asked for by the server.
        observe: told about each call: its verb (get, list, watch, create, update, patch or delete), its resource, its
            outcome (the HTTP status, ``not_sent``, ``lost`` or ``cancelled``) and how many seconds it took (a watch:
            to begin).
    """

    def __init__(
        self,
        transport: Transport,
        *,
        rng: random.Random,
        timeout_s: float = 15.0,
        deadline_s: float = 60.0,
        attempts: int = 5,
        backoff_s: float = 0.25,
        backoff_cap_s: float = 10.0,
        observe: Observe | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._calls = Calls(
            transport,
            rng=rng,
            deadline_s=deadline_s,
            attempts=attempts,
            backoff=Backoff(backoff_s, backoff_cap_s),
            observe=observe,
        )

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Json]:
        """The object as it is stored now."""
        call = self._call("GET", resource.path(namespace, _named(name)))
        return await self._calls.read("get", resource, call, _object)

    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """All objects as they are stored now; in a namespace, or everywhere.

        It comes in pages of one moment. If that moment is forgotten meanwhile, the list begins again, the third time
        in one piece.
        """
        selectors = _given(labelSelector=label_selector, fieldSelector=field_selector)
        for _ in range(2):
            try:
                return await self._list(resource, namespace, {**selectors, "limit": str(PAGE_SIZE)})
            except GoneError:
                continue
        return await self._list(resource, namespace, selectors)

    async def create(
        self, resource: Resource, namespace: str, body: Mapping[str, Json], *, strict: bool = True
    ) -> dict[str, Json]:
        """Create an object; it comes back as stored.

        With ``strict``, here and elsewhere, unknown and repeated fields are refused; without it they are dropped and
        logged.
        """
        call = self._call("POST", resource.path(namespace), _validation(strict=strict), _JSON, body)
        return await self._calls.write("create", resource, call, _object)

    async def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Mapping[str, Json],
        *,
        subresource: str = "",
        strict: bool = True,
    ) -> dict[str, Json]:
        """Store an object in place of the one that has its ``metadata.resourceVersion``."""
        path = resource.path(namespace, _named(name), subresource)
        call = self._call("PUT", path, _validation(strict=strict), _JSON, body)
        return await self._calls.write("update", resource, call, _object)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Mapping[str, Json],
        *,
        subresource: str = "",
        strict: bool = True,
    ) -> dict[str, Json]:
        """Apply a JSON merge patch; ``metadata.resourceVersion`` in it is the optimistic lock."""
        path = resource.path(namespace, _named(name), subresource)
        call = self._call("PATCH", path, _validation(strict=strict), _MERGE_PATCH, patch)
        return await self._calls.write("patch", resource, call, _object)

    async def json_patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        operations: Sequence[Mapping[str, Json]],
        *,
        subresource: str = "",
        strict: bool = True,
    ) -> dict[str, Json]:
        """Apply a JSON patch; a ``test`` operation is the optimistic lock, and fails as Invalid."""
        path = resource.path(namespace, _named(name), subresource)
        call = self._call("PATCH", path, _validation(strict=strict), _JSON_PATCH, operations)
        return await self._calls.write("patch", resource, call, _object)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete the object that has this UID and, where given, is still as it was at this resource version.

        With finalizers it is only marked. Another object under the name is a :class:`ConflictError`.
        """
        preconditions = {"uid": uid} | ({} if resource_version is None else {"resourceVersion": resource_version})
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": propagation,
        }
        call = self._call("DELETE", resource.path(namespace, _named(name)), {}, _JSON, options)
        await self._calls.write("delete", resource, call, lambda _: None)

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        timeout_s: float = 300.0,
        inactivity_s: float = 70.0,
    ) -> AsyncGenerator[dict[str, Json]]:
        """The changes since a resource version: ADDED, MODIFIED, DELETED and BOOKMARK, each with its ``object``.

        It ends when the server ends it, after ``timeout_s`` at the latest. It is not repeated here. Close it where it
        is left early (``contextlib.aclosing``), so that its connection goes with it.

        Args:
            resource: what to watch.
            namespace: empty for all.
            resource_version: of a list, or of the last event.
            label_selector: as for a list.
            timeout_s: after how long the server is to end it.
            inactivity_s: how long nothing may come, bookmarks included (about one a minute), until it counts as lost.

        Raises:
            GoneError: the resource version is forgotten, whether the server says so at once or in an event.
            MaybeAppliedError: it broke off, fell silent, or says what cannot be understood (reason ``Malformed``).
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout_s))),
            **_given(labelSelector=label_selector),
        }
        call = self._call("GET", resource.path(namespace), query)
        async with aclosing(watch_events(self._calls, resource, call, inactivity_s)) as events:
            async for event in events:
                yield event

    async def _list(self, resource: Resource, namespace: str, query: dict[str, str]) -> Listing:
        items: list[dict[str, Json]] = []
        while True:
            call = self._call("GET", resource.path(namespace), query)
            page = await self._calls.read("list", resource, call, _page)
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            items += ({**head, **item} for item in page["items"])
            metadata = page["metadata"]
            if not metadata.get("continue"):
                return Listing(tuple(items), str(metadata["resourceVersion"]))
            query = {**query, "continue": metadata["continue"]}

    def _call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, content_type: str = "", body: Json = None
    ) -> Call:
        return Call(
            method=method,
            path=path,
            query=query or {},
            content_type=content_type,
            body=b"" if body is None else json.dumps(body, separators=(",", ":"), allow_nan=False).encode(),
            timeout_s=self._timeout_s,
        )


def _named(name: str) -> str:
    if not name:
        raise ValueError("an object is addressed by its name")
    return name


def _given(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _validation(*, strict: bool) -> dict[str, str]:
    return {"fieldValidation": "Strict" if strict else "Warn"}


def _object(body: bytes) -> dict[str, Json]:
    match value := decode(body):
        case {"metadata": {}} if value.get("kind") != "Status":
            return dict(value)
    raise MaybeAppliedError("the answer is no object", reason="Malformed")


def _page(body: bytes) -> dict[str, Json]:
    match value := decode(body):
        case {"kind": str(kind), "metadata": {"resourceVersion": str(version)}} if (
            kind.endswith("List") and version.isdecimal()
        ):
            items = value.get("items") or []
            if isinstance(items, list) and all(map(is_stored, items)):
                return {**value, "items": items}
    raise MaybeAppliedError("the answer is no list", reason="Malformed")
