"""Lists: all objects of a resource, of one moment, in pages."""

import base64
import binascii
import json
from collections.abc import Callable, Mapping

from dgdr_retune.testing._errors import ApiError, bad_request, expired
from dgdr_retune.testing._json import Json
from dgdr_retune.testing._requests import Request, Target
from dgdr_retune.testing._selectors import field_selector, label_selector
from dgdr_retune.testing._store import Key, Store
from dgdr_retune.testing._watch import Event, Scope, Watch


def list_objects(store: Store, scope: Scope, target: Target, request: Request) -> Json:
    """The list that a request asks for.

    Raises:
        ApiError: 400 for parameters that cannot be read, 410 for a revision that is gone, 504 for one to come.
    """
    query = request.query
    limit = _number(query, "limit")
    revision, start = _moment(store, request)
    found = [
        (key, value)
        for key, value in store.items(scope.resource, scope.namespace, at=revision)
        if key > start and scope.selects(value)
    ]
    page = found[:limit] if limit and query.get("resourceVersion") != "0" else found
    metadata: Json = {"resourceVersion": str(revision), **({"continue": ""} if target.resource.is_custom else {})}
    if len(page) < len(found):
        metadata["continue"] = _token(revision, page[-1][0])
        if not query.get("labelSelector") and not query.get("fieldSelector"):
            metadata["remainingItemCount"] = len(found) - len(page)
    return {
        "apiVersion": target.resource.api_version,
        "kind": f"{target.resource.kind}List",
        "metadata": metadata,
        "items": [_item(scope.shown(value), target) for _, value in page],
    }


def open_watch(store: Store, scope: Scope, target: Target, request: Request) -> Watch:
    """The watch that a request asks for.

    Without a revision, or from revision 0, the present objects come first.

    Raises:
        ApiError: 400 for parameters that cannot be read.
    """
    revision = _number(request.query, "resourceVersion")
    blank = {"apiVersion": target.resource.api_version, "kind": target.resource.kind}
    starts_with_all = request.flag("sendInitialEvents")
    if revision and not starts_with_all:
        return Watch(store, scope, revision, [], blank)
    present = [value for _, value in store.items(scope.resource, scope.namespace) if scope.selects(value)]
    first: list[Event] = [{"type": "ADDED", "object": scope.shown(value)} for value in present]
    watch = Watch(store, scope, store.revision, first, blank)
    if starts_with_all and request.flag("allowWatchBookmarks"):
        first.append(watch.bookmark(ends_initial_events=True))
    return watch


def scope_of(target: Target, request: Request, shown: Callable[[Json], Json]) -> Scope:
    """What a request looks at; ``shown`` is how a stored object looks to a client.

    Raises:
        ApiError: 400, a selector cannot be read.
    """
    labels = label_selector(request.query.get("labelSelector", ""))
    fields = field_selector(request.query.get("fieldSelector", ""))

    def selects(value: Json) -> bool:
        return labels(value) and fields(value) and target.name in ("", value["metadata"]["name"])

    return Scope(target.resource.key, target.namespace, selects, shown)


def _item(value: Json, target: Target) -> Json:
    """An item of a list: those of Kubernetes' own kinds do not repeat what the list says."""
    if target.resource.is_custom:
        return value
    return {name: item for name, item in value.items() if name not in ("apiVersion", "kind")}


def _moment(store: Store, request: Request) -> tuple[int, Key]:
    """The revision to list at, and the key after which to go on."""
    token = request.query.get("continue", "")
    if token:
        revision, start = _read_token(token)
        try:
            store.writes_after(revision)
        except ApiError:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
            ) from None
        return revision, start
    asked = _number(request.query, "resourceVersion")
    if asked > store.revision:
        message = f"Timeout: Too large resource version: {asked}, current: {store.revision}"
        raise ApiError(504, "Timeout", message, details={"retryAfterSeconds": 1})
    if request.query.get("resourceVersionMatch") == "Exact":
        store.writes_after(asked)
        return asked, Key("", "", "")
    return store.revision, Key("", "", "")


def _token(revision: int, key: Key) -> str:
    text = json.dumps({"rv": revision, "start": list(key)})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, Key]:
    try:
        read = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(read["rv"]), Key(*read["start"])
    except (ValueError, TypeError, KeyError, binascii.Error) as error:
        raise bad_request("continue key is not valid") from error


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    try:
        number = int(text)
    except ValueError as error:
        raise bad_request(f'{name}: Invalid value: "{text}": must be a number') from error
    if number < 0:
        raise bad_request(f"{name}: Invalid value: {number}: must not be negative")
    return number
