"""The judges of the contract table: an API server, real or simulated, and `validate()`."""

import copy
import itertools
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml
from attrs import frozen
from tests.contract.row import Row

from dgdr_retune.api import KINDS, Kind, validate
from dgdr_retune.testing._json import decode, stored

Json = Any

DEFINITIONS = Path(__file__).parents[2] / "deploy" / "crds"
DEFINITIONS_URL = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
IN_FORCE_WITHIN_S = 60.0
LOOK_EVERY_S = 0.05
LOOK_AGAIN_EVERY_S = 0.5
SENT_BY_US = ("name", "namespace", "labels", "annotations")


@frozen
class Answer:
    """What a judge says.

    Attributes:
        accepted: whether the object may be stored.
        message: why not.
        causes: the faults, as (path, message).
        object: as it would be stored, without what a server writes; None from a judge that does not say.
    """

    accepted: bool
    message: str = ""
    causes: frozenset[tuple[str, str]] = frozenset()
    object: Json = None

    @property
    def fields(self) -> set[str]:
        """The paths of the faults."""
        return {path for path, _ in self.causes}


def definitions() -> list[Json]:
    """The CustomResourceDefinitions that are shipped."""
    return [yaml.safe_load(path.read_text()) for path in sorted(DEFINITIONS.glob("*.yaml"))]


def loosened(definition: Json) -> Json:
    """The definition as it would be if none of its rules had been made yet."""
    loose = copy.deepcopy(definition)
    for version in loose["spec"]["versions"]:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"]["openAPIV3Schema"] = schema
    return loose


def holds_whole_float(value: Json) -> bool:
    """Whether a number is written like 1.0: a client in Go sends it as 1."""
    match value:
        case dict():
            return any(map(holds_whole_float, value.values()))
        case list():
            return any(map(holds_whole_float, value))
    return isinstance(value, float) and value.is_integer()


def remove_definitions(client: httpx.Client) -> None:
    """Delete every definition and wait until they are gone.

    The server that deletes their objects first may find its storage busy, and would then take minutes to look again if
    nothing changed.
    """
    names = [each["metadata"]["name"] for each in client.get(DEFINITIONS_URL).json()["items"]]
    for name in names:
        client.delete(f"{DEFINITIONS_URL}/{name}")
    deadline = time.monotonic() + IN_FORCE_WITHIN_S
    headers = {"Content-Type": "application/merge-patch+json"}
    for name in names:
        for attempt in itertools.count():
            nudge = {"metadata": {"annotations": {"look-again": str(attempt)}}}
            answer = client.patch(f"{DEFINITIONS_URL}/{name}", json=nudge, headers=headers)
            if answer.status_code == httpx.codes.NOT_FOUND:
                break
            assert time.monotonic() < deadline, f"{name} is still there"
            time.sleep(LOOK_AGAIN_EVERY_S)


def url_of(kind: Kind, name: str = "", *, subresource: str = "") -> str:
    """The path of the kind's objects, or of one."""
    return "/".join(
        part for part in ("/apis/nvidia.com/v1beta2/namespaces/default", kind.plural, name, subresource) if part
    )


class ServerJudge:
    """An API server behind an HTTP client. Objects to be updated are stored first, by :meth:`prepare`."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self._names: dict[bytes, tuple[str, str]] = {}
        self._stored: dict[str, tuple[str, str]] = {}

    def prepare(self, rows: Iterable[Row], ours: Sequence[Json]) -> None:
        """Store what the rows update, under looser definitions where ours would refuse it; leave ours in force."""
        rows = [row for row in rows if row.old is not None]
        for definition in ours:
            self.install(loosened(definition))
        self.wait_until(refuses_nonsense=False)
        self._store(row for row in rows if row.loose)
        for definition in ours:
            self.install(definition)
        self.wait_until(refuses_nonsense=True)
        self._store(row for row in rows if not row.loose)

    def install(self, definition: Json) -> None:
        """Create or replace a definition."""
        url = f"{DEFINITIONS_URL}/{definition['metadata']['name']}"
        present = self.client.get(url)
        if present.status_code == httpx.codes.NOT_FOUND:
            self._checked(self.client.post(DEFINITIONS_URL, json=definition))
            return
        replacement = copy.deepcopy(definition)
        replacement["metadata"]["resourceVersion"] = present.json()["metadata"]["resourceVersion"]
        self._checked(self.client.put(url, json=replacement))

    def wait_until(self, *, refuses_nonsense: bool) -> None:
        """Wait until the definitions that were installed last are in force."""
        deadline = time.monotonic() + IN_FORCE_WITHIN_S
        expected = httpx.codes.UNPROCESSABLE_ENTITY if refuses_nonsense else httpx.codes.CREATED
        for kind in KINDS:
            nonsense = {"apiVersion": "nvidia.com/v1beta2", "kind": kind.name, "metadata": {"name": "nonsense"}}
            while self._post(kind, nonsense | {"spec": {}}, strict=False).status_code != expected:
                assert time.monotonic() < deadline, f"the definition of {kind.name} is not in force"
                time.sleep(LOOK_EVERY_S)

    def ask(self, row: Row) -> Answer:
        """The answer to a row; nothing is stored."""
        return self.ask_about(row.kind, row.object, row_id=row.id, operation=row.operation, strict=row.strict)

    def ask_about(
        self, kind: Kind, thing: Json, *, row_id: str = "", operation: str = "create", strict: bool = True
    ) -> Answer:
        """The answer to an object."""
        if operation == "create":
            return self._answer(self._post(kind, thing, strict=strict))
        name, revision = self._stored[row_id]
        sent = thing | {"metadata": thing["metadata"] | {"name": name, "resourceVersion": revision}}
        url = url_of(kind, name, subresource="status" if operation == "update status" else "")
        return self._answer(self.client.put(url, params=_parameters(strict=strict), content=_text(sent)))

    def stored_name(self, row: Row) -> str:
        """Under which name the old object of a row is stored."""
        return self._stored[row.id][0]

    def _store(self, rows: Iterable[Row]) -> None:
        """Store the old objects, equal ones once."""
        for row in rows:
            content = _text(row.old)
            if content not in self._names:
                self._names[content] = self._stored_as(row, f"stored-{len(self._names)}")
            self._stored[row.id] = self._names[content]

    def _stored_as(self, row: Row, name: str) -> tuple[str, str]:
        old = row.old | {"metadata": row.old["metadata"] | {"name": name}}
        made = self._checked(self.client.post(url_of(row.kind), content=_text(old)))
        if "status" in old:
            old["metadata"] |= {"resourceVersion": made["metadata"]["resourceVersion"]}
            url = url_of(row.kind, name, subresource="status")
            made = self._checked(self.client.put(url, content=_text(old)))
        return name, made["metadata"]["resourceVersion"]

    def _post(self, kind: Kind, thing: Json, *, strict: bool) -> httpx.Response:
        return self.client.post(url_of(kind), params=_parameters(strict=strict), content=_text(thing))

    @staticmethod
    def _checked(response: httpx.Response) -> Json:
        assert response.is_success, response.text
        return response.json()

    @staticmethod
    def _answer(response: httpx.Response) -> Answer:
        body, _ = decode(response.text)
        if not response.is_success:
            causes = body.get("details", {}).get("causes", ())
            return Answer(
                accepted=False,
                message=body["message"],
                causes=frozenset((cause["field"], cause["message"]) for cause in causes),
            )
        metadata = {name: value for name, value in body["metadata"].items() if name in SENT_BY_US}
        return Answer(accepted=True, object=body | {"metadata": metadata})


class PythonJudge:
    """`validate()`."""

    def ask(self, row: Row) -> Answer:
        """The answer to a row."""
        subresource = "status" if row.operation == "update status" else ""
        verdict = validate(row.object, stored(row.old), subresource=subresource, strict=row.strict)
        return Answer(
            accepted=not verdict.errors,
            message="; ".join(map(str, verdict.errors)) or "; ".join(verdict.warnings),
            causes=frozenset((fault.path, fault.detail) for fault in verdict.errors),
        )


def _parameters(*, strict: bool) -> Mapping[str, str]:
    return {"dryRun": "All", "fieldValidation": "Strict" if strict else "Ignore"}


def _text(value: Json) -> bytes:
    """As a client writes JSON: 1.0 stays 1.0."""
    return json.dumps(value).encode()
