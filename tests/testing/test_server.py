"""What the simulated API server does beyond what a real one can be asked (tests/contract asks both)."""

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.judges import definitions, url_of
from tests.contract.row import thing
from tests.contract.spec_rows import STATIC
from tests.contract.widgets import DEFINITION, GROUP, MERGE, OPERATIONS, PLURAL, widget

from dgdr_retune.api import RUN
from dgdr_retune.testing import (
    Admission,
    ApiError,
    Request,
    Response,
    Review,
    SimulatedApiServer,
    UnsupportedSchemaError,
)

Json = Any

URL = f"/apis/{GROUP}/v1/namespaces/default/{PLURAL}"
NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)


def made_server(*admission: Admission) -> SimulatedApiServer:
    server = SimulatedApiServer(now=lambda: NOW, admission=admission)
    server.install(DEFINITION)
    return server


def ask(server: SimulatedApiServer, method: str, path: str = URL, body: Json = None, **query: str) -> Response:
    kind = MERGE if method == "PATCH" else "application/json"
    return server.handle(Request(method, path, query, kind, b"" if body is None else json.dumps(body).encode()))


def test_equal_requests_give_equal_answers() -> None:
    def history() -> list[Response]:
        server = made_server()
        return [
            ask(server, "POST", body=widget(finalizers=["a/b"])),
            ask(server, "POST", body={**widget(), "metadata": {"generateName": "g-"}}),
            ask(server, "PATCH", f"{URL}/w", {"spec": {"size": 4}}),
            ask(server, "DELETE", f"{URL}/w"),
            ask(server, "GET"),
        ]

    assert history() == history()


def test_a_long_text_with_a_nul_is_judged_like_any_other() -> None:
    server = SimulatedApiServer()
    for definition in definitions():
        server.install(definition)
    url = url_of(RUN)
    stored = ask(server, "POST", url, thing(RUN, STATIC)).body
    for length in (5000, 12000):
        changed = stored | {"status": {"message": "\0" + "m" * length}}
        stored = ask(server, "PUT", f"{url}/{stored['metadata']['name']}/status", changed).body
        assert len(stored["status"]["message"]) == length + 1


def test_the_clock_is_the_callers() -> None:
    ticks = (NOW + timedelta(seconds=number) for number in range(100))
    server = SimulatedApiServer(now=lambda: next(ticks))
    server.install(DEFINITION)
    first = ask(server, "POST", body=widget("a")).body["metadata"]["creationTimestamp"]
    second = ask(server, "POST", body=widget("b")).body["metadata"]["creationTimestamp"]
    assert (first, second) == ("2026-10-01T12:00:03Z", "2026-10-01T12:00:04Z")


def test_answers_share_nothing_with_what_is_stored() -> None:
    server = made_server()
    made = ask(server, "POST", body=widget(spec={"tags": ["a"]})).body
    made["spec"]["tags"].append("b")
    ask(server, "GET", f"{URL}/w").body["spec"]["tags"].append("c")
    ask(server, "GET").body["items"][0]["spec"]["tags"].append("d")
    assert ask(server, "GET", f"{URL}/w").body["spec"]["tags"] == ["a"]


def test_a_new_definition_shows_in_objects_that_were_stored_before() -> None:
    server = made_server()
    ask(server, "POST", body=widget(spec={"name": "a"}))
    changed = copy.deepcopy(DEFINITION)
    spec = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del spec["name"]
    spec["color"] = {"type": "string", "default": "red"}
    server.install(changed)
    assert ask(server, "GET", f"{URL}/w").body["spec"] == {"size": 3, "color": "red"}
    assert ask(server, "GET").body["items"][0]["spec"] == {"size": 3, "color": "red"}


def test_a_definition_that_goes_takes_its_objects_with_it() -> None:
    server = made_server()
    ask(server, "POST", body=widget())
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert ask(server, "DELETE", f"{definitions}/{PLURAL}.{GROUP}").code == 200
    assert ask(server, "GET").code == 404
    assert ask(server, "POST", definitions, DEFINITION).code == 201
    assert ask(server, "GET").body["items"] == []


@pytest.mark.parametrize(
    ("addition", "path"),
    [
        ({"oneOf": []}, "spec"),
        ({"x-kubernetes-validations": [{"rule": "self.size() ==", "message": "m"}]}, "spec"),
        ({"x-kubernetes-validations": [{"rule": "self.isSorted()", "message": "m"}]}, "spec"),
        ({"x-kubernetes-validations": [{"rule": "true", "messageExpression": "'m'"}]}, "spec"),
        ({"properties": {"a": {"type": "string", "format": "uuid"}}}, "spec.a"),
        ({"properties": {"a": {"type": "object", "additionalProperties": True}}}, "spec.a"),
    ],
)
def test_a_schema_that_it_cannot_judge_is_refused(addition: Json, path: str) -> None:
    definition = copy.deepcopy(DEFINITION)
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] |= addition
    with pytest.raises(UnsupportedSchemaError, match="ask a real one") as caught:
        SimulatedApiServer().install(definition)
    assert caught.value.path.removeprefix(".") == path
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert ask(SimulatedApiServer(), "POST", definitions, definition).body["reason"] == "Invalid"


def test_admission_mutates_before_the_schema_judges_and_validates_after() -> None:
    asked: list[tuple[str, str, int]] = []

    def grow(review: Review) -> Json:
        asked.append(("mutate", review.operation, review.new["spec"]["size"]))
        return {**review.new, "spec": {**review.new["spec"], "size": review.new["spec"]["size"] + 1}}

    def look(review: Review) -> list[str]:
        asked.append(("validate", review.operation, (review.new or review.old)["spec"]["size"]))
        return ["it has grown"]

    server = made_server(Admission(mutate=grow, validate=look))
    made = ask(server, "POST", body=widget(spec={"size": 0}))
    assert (made.code, made.body["spec"]["size"], made.warnings) == (201, 1, ("it has grown",))
    assert ask(server, "POST", body=widget(spec={"size": -1})).code == 422
    ask(server, "DELETE", f"{URL}/w")
    assert asked == [
        ("mutate", "CREATE", 0),
        ("validate", "CREATE", 1),
        ("mutate", "CREATE", -1),
        ("validate", "DELETE", 1),
    ]


def test_admission_can_refuse() -> None:
    def refuse(_: Review) -> list[str]:
        raise ApiError(403, "Forbidden", "not today")

    server = made_server(Admission(validate=refuse))
    assert ask(server, "POST", body=widget()).body["message"] == "not today"
    assert ask(server, "GET").body["items"] == []


def test_a_list_that_was_overtaken_by_a_compaction_has_to_start_again() -> None:
    server = made_server()
    for name in "abc":
        ask(server, "POST", body=widget(name))
    token = ask(server, "GET", limit="1").body["metadata"]["continue"]
    ask(server, "POST", body=widget("d"))
    server.compact()
    answer = ask(server, "GET", limit="1", **{"continue": token})
    assert (answer.code, answer.body["reason"]) == (410, "Expired")


def test_kubernetes_own_objects_are_replaced_without_a_resource_version() -> None:
    server = made_server()
    path = "/api/v1/namespaces/default/configmaps"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    assert ask(server, "POST", path, config).code == 201
    changed = ask(server, "PUT", f"{path}/c", config | {"data": {"a": "2"}})
    assert (changed.code, changed.body["data"]) == (200, {"a": "2"})
    assert "apiVersion" not in ask(server, "GET", path).body["items"][0]


def test_a_job_is_orphaned_unless_a_deletion_says_otherwise() -> None:
    server = made_server()
    path = "/apis/batch/v1/namespaces/default/jobs"
    ask(server, "POST", path, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}})
    assert ask(server, "DELETE", f"{path}/j").body["metadata"]["finalizers"] == ["orphan"]


def test_what_is_too_large_is_refused() -> None:
    server = made_server()
    assert ask(server, "POST", body=widget(annotations={"a": "x" * 3_200_000})).code == 413


@pytest.mark.parametrize("depth", [190, 250, 100_000])
def test_deep_nesting_has_an_answer_too(depth: int) -> None:
    text = json.dumps(widget(spec={"limits": "deep"})).replace('"deep"', '{"a":' * depth + "1" + "}" * depth)
    assert made_server().handle(Request("POST", URL, body=text.encode())).code in (400, 422)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
KEYS = st.sampled_from(
    ["apiVersion", "kind", "metadata", "spec", "status", "name", "labels", "finalizers", "size", "op", "path"]
)
PARAMETERS = st.sampled_from(
    ["continue", "dryRun", "fieldSelector", "fieldValidation", "labelSelector", "limit", "watch"]
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5))


@settings(deadline=None, max_examples=300)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    path=st.sampled_from([URL, f"{URL}/w", f"{URL}/w/status", "/api/v1/namespaces/default/pods", "/apis/x"]),
    kind=st.sampled_from(["application/json", MERGE, OPERATIONS]),
    body=VALUES.map(lambda value: json.dumps(value).encode())
    | VALUES.map(lambda value: json.dumps(widget() | {"spec": value}).encode())
    | VALUES.map(lambda value: json.dumps(widget() | {"metadata": value}).encode())
    | st.binary(max_size=20),
    query=st.dictionaries(PARAMETERS, st.text(max_size=5)),
)
def test_every_request_has_an_answer(method: str, path: str, kind: str, body: bytes, query: dict[str, str]) -> None:
    server = made_server()
    ask(server, "POST", body=widget())
    answer = server.handle(Request(method, path, query, kind, body))
    assert 200 <= answer.code < 600
    json.dumps(answer.body)
