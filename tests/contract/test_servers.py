"""What a client relies on, asked of the simulated API server and of a real one."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from attrs import frozen
from tests.contract.widgets import DEFINITION, OPERATIONS, Json, Widgets, names, widget
from tests.controlplane.control_plane import ControlPlane

from dgdr_retune.testing import SimulatedApiServer, transport

DEFINITIONS_URL = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVED_WITHIN_S = 30.0
_numbers = itertools.count()


@frozen
class Server:
    """An API server that serves widgets. ``forget`` compacts its past, where that can be done."""

    client: httpx.Client
    forget: Callable[[], None]


@contextmanager
def simulated() -> Iterator[Server]:
    server = SimulatedApiServer()
    with httpx.Client(base_url="http://simulated", transport=transport(server)) as client:
        yield Server(client, server.compact)


@contextmanager
def real(plane: ControlPlane) -> Iterator[Server]:
    with plane.client() as client:
        yield Server(client, lambda: None)  # it has forgotten the time before it started


@pytest.fixture(scope="module", params=["simulated", "real"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    opened = simulated() if request.param == "simulated" else real(request.getfixturevalue("control_plane"))
    with opened as server:
        server.client.headers["Content-Type"] = "application/json"
        assert server.client.post(DEFINITIONS_URL, json=DEFINITION).status_code == 201
        deadline = time.monotonic() + SERVED_WITHIN_S
        while server.client.get(Widgets(server.client, "default").url()).status_code != 200:
            assert time.monotonic() < deadline
        yield server


@pytest.fixture
def widgets(server: Server) -> Widgets:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"space-{next(_numbers)}"}}
    made = server.client.post("/api/v1/namespaces", json=namespace)
    assert made.status_code == 201, made.text
    return Widgets(server.client, namespace["metadata"]["name"])


def refused(response: httpx.Response, code: int, reason: str) -> str:
    body = response.json()
    assert (response.status_code, body["kind"], body["reason"]) == (code, "Status", reason), body
    return str(body["message"])


def causes(response: httpx.Response) -> list[tuple[str, str]]:
    refused(response, 422, "Invalid")
    return sorted((each["field"], each["message"]) for each in response.json()["details"]["causes"])


# create and get


def test_a_created_object_gets_what_a_server_writes(widgets: Widgets) -> None:
    made = widgets.made(widget())
    metadata = made["metadata"]
    assert metadata["namespace"] == widgets.namespace
    assert metadata["generation"] == 1
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert made["spec"] == {"size": 3}
    assert widgets.get().json() == made


def test_a_name_is_taken_once(widgets: Widgets) -> None:
    widgets.made(widget())
    message = refused(widgets.create(widget()), 409, "AlreadyExists")
    assert message == 'widgets.test.example.com "w" already exists'


def test_an_invalid_object_is_judged_before_its_name(widgets: Widgets) -> None:
    widgets.made(widget())
    assert causes(widgets.create(widget(spec={"size": 0})))


def test_a_generated_name_is_completed(widgets: Widgets) -> None:
    unnamed = widget()
    unnamed["metadata"] = {"generateName": "w-"}
    first, second = widgets.made(unnamed), widgets.made(unnamed)
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["metadata"]["name"].startswith("w-")


def test_what_is_not_there_is_not_found(widgets: Widgets) -> None:
    message = refused(widgets.get(), 404, "NotFound")
    assert message == 'widgets.test.example.com "w" not found'
    assert widgets.get().json()["details"] == {"name": "w", "group": "test.example.com", "kind": "widgets"}


def test_a_namespace_must_exist(widgets: Widgets) -> None:
    elsewhere = Widgets(widgets.client, "nowhere")
    assert refused(elsewhere.create(widget()), 404, "NotFound") == 'namespaces "nowhere" not found'


def test_an_object_of_another_namespace_or_kind_is_a_bad_request(widgets: Widgets) -> None:
    refused(widgets.create(widget(namespace="default")), 400, "BadRequest")
    assert causes(widgets.create(widget() | {"kind": "Gadget"})) == [
        ("kind", 'Invalid value: "Gadget": must be Widget')
    ]
    refused(widgets.create(widget() | {"kind": ""}), 400, "BadRequest")
    refused(widgets.create(widget() | {"apiVersion": "test.example.com/v2"}), 400, "BadRequest")
    refused(widgets.create("{"), 400, "BadRequest")


def test_a_dry_run_stores_nothing(widgets: Widgets) -> None:
    assert widgets.create(widget(), dryRun="All").status_code == 201
    refused(widgets.get(), 404, "NotFound")


@pytest.mark.parametrize("name", ["W", "-w", "w_", "w.", "a" * 254, "é"])
def test_names_are_subdomains(widgets: Widgets, name: str) -> None:
    assert [field for field, _ in causes(widgets.create(widget(name)))] == ["metadata.name"]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a b": "c"}}, "metadata.labels"),
        ({"labels": {"a": "c" * 64}}, "metadata.labels"),
        ({"labels": {"a": "-"}}, "metadata.labels"),
        ({"labels": {"/a": "b"}}, "metadata.labels"),
        ({"annotations": {"a b": "c"}}, "metadata.annotations"),
        ({"annotations": {"a": "c" * 262144}}, "metadata.annotations"),
        ({"finalizers": ["a b"]}, "metadata.finalizers"),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]},
            "metadata.ownerReferences.uid",
        ),
    ],
)
def test_metadata_is_judged(widgets: Widgets, metadata: Json, field: str) -> None:
    assert field in dict(causes(widgets.create(widget(**metadata))))


# fields


def test_unknown_and_repeated_fields_are_refused_when_strict(widgets: Widgets) -> None:
    unknown = widget(spec={"sise": 1, "parts": [{"id": "a", "wait": 1}]}) | {"stats": {}}
    message = refused(widgets.create(unknown, fieldValidation="Strict"), 400, "BadRequest")
    for path in ("spec.sise", "spec.parts[0].wait", "stats"):
        assert f'unknown field "{path}"' in message
    repeated = '{"apiVersion":"test.example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1,"size":2}}'
    message = refused(widgets.create(repeated, fieldValidation="Strict"), 400, "BadRequest")
    assert 'duplicate field "spec.size"' in message


def test_unknown_fields_are_dropped_with_a_warning_by_default(widgets: Widgets) -> None:
    made = widgets.create(widget(spec={"sise": 1}))
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.sise\\""'
    assert made.json()["spec"] == {"size": 3}
    ignored = widgets.create(widget("v", {"sise": 1}), fieldValidation="Ignore")
    assert "Warning" not in ignored.headers


def test_nulls_are_dropped_or_defaulted_where_they_are_not_allowed(widgets: Widgets) -> None:
    made = widgets.made(widget(spec={"size": None, "name": None, "parts": [{"id": "a", "weight": None}]}))
    assert made["spec"] == {"size": 3, "parts": [{"id": "a", "weight": None}]}


def test_whole_floats_come_back_as_integers(widgets: Widgets) -> None:
    widgets.made(widget(spec={"size": 2.0, "parts": [{"id": "a", "weight": 1.0}]}))
    assert '"size":2' in widgets.get().text.replace(" ", "")
    assert '"weight":1}' in widgets.get().text.replace(" ", "")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"size": 2147483648}, "<nil>"),
        ({"size": 1.5}, "spec.size"),
        ({"name": "axa"}, "spec.name"),
        ({"name": "a\0x"}, "spec.name"),
        ({"name": "é" * 21}, "spec.name"),
        ({"since": "yesterday"}, "spec.since"),
        ({"since": "2026-02-30T00:00:00Z"}, "spec.since"),
        ({"since": "2026-02-20T24:00:00Z"}, "spec.since"),
        ({"since": 1}, "spec.since"),
        ({"parts": [{"weight": 1}]}, "spec.parts[0].id"),
        ({"parts": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}, "spec.parts[2]"),
        ({"tags": ["a", "b", "a", "a"]}, "spec.tags[2]"),
        ({"limits": {"a": 1, "b": 2, "c": 3}}, "spec.limits"),
        ({"limits": {"a": 1.5}}, "spec.limits.a"),
        ({"limits": {"a": True}}, "spec.limits.a"),
    ],
)
def test_a_fault_names_its_field(widgets: Widgets, spec: Json, field: str) -> None:
    assert field in dict(causes(widgets.create(widget(spec=spec))))


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "é" * 20},
        {"name": "a\0"},
        {"since": "2026-02-20T23:59:59.123456789+02:00"},
        {"since": "2026-02-20t23:59:59z"},
        {"since": []},
        {"limits": {"a": 1, "b": "2%"}},
        {"tags": []},
        {"parts": [{"id": "a", "weight": None}]},
    ],
)
def test_what_upstream_lets_pass_passes(widgets: Widgets, spec: Json) -> None:
    assert widgets.create(widget(spec=spec)).status_code == 201


# update


def test_an_update_needs_the_resource_version_that_is_stored(widgets: Widgets) -> None:
    made = widgets.made(widget())
    assert "metadata.resourceVersion" in dict(causes(widgets.replace(widget(spec={"size": 4}))))
    changed = widgets.replace(made | {"spec": {"size": 4}})
    assert changed.json()["metadata"]["generation"] == 2
    message = refused(widgets.replace(made | {"spec": {"size": 5}}), 409, "Conflict")
    assert "the object has been modified" in message


def test_an_update_that_changes_nothing_is_no_write(widgets: Widgets) -> None:
    made = widgets.made(widget())
    assert widgets.replace(made).json()["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert widgets.patch({"spec": {"size": 3}}).json() == made


def test_metadata_alone_does_not_make_a_generation(widgets: Widgets) -> None:
    made = widgets.made(widget())
    changed = widgets.patch({"metadata": {"labels": {"a": "b"}}}).json()
    assert changed["metadata"]["generation"] == 1
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


def test_a_uid_is_a_precondition(widgets: Widgets) -> None:
    made = widgets.made(widget())
    other = made | {"metadata": made["metadata"] | {"uid": "other"}}
    assert "UID in precondition: other" in refused(widgets.replace(other), 409, "Conflict")


def test_the_name_in_the_body_is_that_of_the_path(widgets: Widgets) -> None:
    made = widgets.made(widget())
    other = made | {"metadata": made["metadata"] | {"name": "v"}}
    response = widgets.client.put(widgets.url("w"), json=other)
    refused(response, 400, "BadRequest")


def test_an_item_of_a_list_map_is_compared_with_the_stored_one_of_its_key(widgets: Widgets) -> None:
    made = widgets.made(widget(spec={"parts": [{"id": "a", "weight": 1}, {"id": "b", "weight": 2}]}))
    swapped = made | {"spec": {"parts": [{"id": "b", "weight": 3}, {"id": "a", "weight": 1}, {"id": "c", "weight": 0}]}}
    assert widgets.replace(swapped, dryRun="All").status_code == 200
    lighter = made | {"spec": {"parts": [{"id": "b", "weight": 1}, {"id": "a", "weight": 1}]}}
    assert causes(widgets.replace(lighter)) == [
        ("spec.parts[0]", "Invalid value: a part does not lose weight"),
    ]


# patches


def test_a_merge_patch_sets_deletes_and_replaces(widgets: Widgets) -> None:
    widgets.made(widget(spec={"name": "a", "tags": ["a", "b"]}, labels={"a": "1", "b": "2"}))
    patch = {"metadata": {"labels": {"a": None, "c": "3"}}, "spec": {"name": None, "tags": ["c"]}}
    patched = widgets.patch(patch).json()
    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert patched["spec"] == {"size": 3, "tags": ["c"]}


def test_a_merge_patch_with_an_old_resource_version_conflicts(widgets: Widgets) -> None:
    made = widgets.made(widget())
    widgets.patch({"spec": {"size": 4}})
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "finalizers": ["a/b"]}}
    refused(widgets.patch(stale), 409, "Conflict")


def test_a_json_patch_applies_all_or_nothing(widgets: Widgets) -> None:
    widgets.made(widget(spec={"tags": ["a"]}, finalizers=["a/b"]))
    good = [
        {"op": "test", "path": "/metadata/finalizers", "value": ["a/b"]},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "c/d"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/a~1b", "value": "x"},
        {"op": "replace", "path": "/spec/size", "value": 5},
        {"op": "copy", "from": "/spec/tags/0", "path": "/spec/name"},
        {"op": "move", "from": "/spec/tags/0", "path": "/spec/tags/0"},
    ]
    patched = widgets.patch(good, kind=OPERATIONS).json()
    assert patched["metadata"]["finalizers"] == ["a/b", "c/d"]
    assert patched["metadata"]["annotations"] == {"a/b": "x"}
    assert patched["spec"] == {"size": 5, "name": "a", "tags": ["a"]}
    bad = [
        {"op": "replace", "path": "/spec/size", "value": 6},
        {"op": "test", "path": "/metadata/finalizers", "value": ["a/b"]},
    ]
    refused(widgets.patch(bad, kind=OPERATIONS), 422, "Invalid")
    refused(widgets.patch([{"op": "remove", "path": "/spec/name/x"}], kind=OPERATIONS), 422, "Invalid")
    assert widgets.get().json()["spec"]["size"] == 5


def test_a_patch_of_an_unknown_kind_is_refused(widgets: Widgets) -> None:
    widgets.made(widget())
    response = widgets.patch({}, kind="application/strategic-merge-patch+json")
    assert response.status_code == 415


def test_a_patch_is_judged_like_an_update(widgets: Widgets) -> None:
    widgets.made(widget())
    assert causes(widgets.patch({"spec": {"size": 0}}))
    refused(widgets.patch({"spec": {"sise": 1}}, fieldValidation="Strict"), 422, "Invalid")
    refused(widgets.patch({"spec": {"size": 1}}, name="v"), 404, "NotFound")


# status


def test_the_status_is_written_through_its_subresource_alone(widgets: Widgets) -> None:
    made = widgets.made(widget() | {"status": {"ready": True}})
    assert "status" not in made
    changed = widgets.patch(
        {"status": {"ready": True}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}}, "status"
    ).json()
    assert changed["status"] == {"ready": True}
    assert changed["spec"] == {"size": 3}
    assert "labels" not in changed["metadata"]
    assert changed["metadata"]["generation"] == 1
    kept = widgets.patch({"status": {"ready": False}, "spec": {"size": 4}}).json()
    assert kept["status"] == {"ready": True}
    assert kept["metadata"]["generation"] == 2


def test_a_status_is_judged_too(widgets: Widgets) -> None:
    widgets.made(widget())
    assert "status.ready" in dict(causes(widgets.patch({"status": {"ready": "yes"}}, "status")))


# deletion


def test_a_deleted_object_is_gone_and_the_answer_names_its_uid(widgets: Widgets) -> None:
    made = widgets.made(widget())
    answer = widgets.delete().json()
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"]["uid"] == made["metadata"]["uid"]
    refused(widgets.get(), 404, "NotFound")
    refused(widgets.delete(), 404, "NotFound")


def test_a_finalizer_holds_a_deleted_object_until_it_is_removed(widgets: Widgets) -> None:
    widgets.made(widget(finalizers=["a/b", "c/d"]))
    going = widgets.delete().json()
    assert going["metadata"]["deletionTimestamp"]
    assert going["metadata"]["generation"] == 2
    again = widgets.delete().json()
    assert again["metadata"]["resourceVersion"] == going["metadata"]["resourceVersion"]
    message = dict(causes(widgets.patch({"metadata": {"finalizers": ["a/b", "c/d", "e/f"]}})))
    assert "no new finalizers can be added if the object is being deleted" in message["metadata.finalizers"]
    refused(widgets.create(widget()), 409, "AlreadyExists")
    assert widgets.patch({"metadata": {"finalizers": ["c/d"]}}).status_code == 200
    assert widgets.patch({"metadata": {"finalizers": None}}).status_code == 200
    refused(widgets.get(), 404, "NotFound")


def test_preconditions_guard_a_deletion(widgets: Widgets) -> None:
    made = widgets.made(widget())
    for name, value in (("uid", "other"), ("resourceVersion", "1")):
        message = refused(widgets.delete(options={"preconditions": {name: value}}), 409, "Conflict")
        assert f"in the precondition ({value}) does not match" in message
    good = {name: made["metadata"][name] for name in ("uid", "resourceVersion")}
    assert widgets.delete(options={"preconditions": good}).status_code == 200


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])],
)
def test_a_propagation_policy_becomes_a_finalizer_for_the_garbage_collector(
    widgets: Widgets, policy: str, finalizers: list[str]
) -> None:
    widgets.made(widget())
    going = widgets.delete(options={"propagationPolicy": policy}).json()
    assert going["metadata"]["finalizers"] == finalizers
    assert going["metadata"]["deletionTimestamp"]
    again = widgets.delete(options={"propagationPolicy": policy}).json()
    assert again["metadata"]["resourceVersion"] == going["metadata"]["resourceVersion"]
    assert widgets.delete(options={"propagationPolicy": "Background"}).status_code == 200
    refused(widgets.get(), 404, "NotFound")


def test_a_collection_is_deleted_by_selector(widgets: Widgets) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        widgets.made(widget(name, labels={"l": label}))
    assert widgets.client.request("DELETE", widgets.url(), params={"labelSelector": "l=x"}).status_code == 200
    assert names(widgets.page().json()) == ["b"]


# list


def test_a_list_is_of_one_moment_whatever_is_written_between_its_pages(widgets: Widgets) -> None:
    for name in "abcde":
        widgets.made(widget(name))
    first = widgets.page(limit="2").json()
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    widgets.delete("c")
    widgets.made(widget("bb"))
    second = widgets.page(limit="2", **{"continue": first["metadata"]["continue"]}).json()
    assert names(second) == ["c", "d"]
    third = widgets.page(limit="2", **{"continue": second["metadata"]["continue"]}).json()
    assert names(third) == ["e"]
    assert third["metadata"]["continue"] == ""
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_list_can_be_of_an_earlier_or_an_impossible_revision(widgets: Widgets) -> None:
    widgets.made(widget("a"))
    then = widgets.page().json()["metadata"]["resourceVersion"]
    widgets.made(widget("b"))
    exact = widgets.page(resourceVersion=then, resourceVersionMatch="Exact").json()
    assert names(exact) == ["a"]
    later = widgets.page(resourceVersion=then, resourceVersionMatch="NotOlderThan").json()
    assert names(later) == ["a", "b"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("l=x", "ac"),
        ("l==x,m", "c"),
        ("l!=x", "bd"),
        ("l", "abc"),
        ("!l", "d"),
        ("l in (x, y)", "abc"),
        ("l notin (x)", "bd"),
        ("", "abcd"),
    ],
)
def test_label_selectors_select(widgets: Widgets, selector: str, expected: str) -> None:
    for name, labels in (("a", {"l": "x"}), ("b", {"l": "y"}), ("c", {"l": "x", "m": ""}), ("d", {})):
        widgets.made(widget(name, labels=labels))
    assert names(widgets.page(labelSelector=selector).json()) == list(expected)


def test_the_name_is_a_field_to_select_by_and_others_are_not(widgets: Widgets) -> None:
    widgets.made(widget("a"))
    widgets.made(widget("b"))
    assert names(widgets.page(fieldSelector="metadata.name=b").json()) == ["b"]
    assert names(widgets.page(fieldSelector="metadata.name!=b").json()) == ["a"]
    refused(widgets.page(fieldSelector="spec.size=3"), 400, "BadRequest")
    refused(widgets.page(labelSelector="a=b=c"), 400, "BadRequest")
    refused(widgets.page(**{"continue": "nonsense"}), 400, "BadRequest")


# watch


def test_a_watch_tells_what_happened_since_a_list(widgets: Widgets) -> None:
    start = widgets.page().json()["metadata"]["resourceVersion"]
    made = widgets.made(widget())
    changed = widgets.patch({"spec": {"size": 4}}).json()
    widgets.delete()
    events = widgets.watch(resourceVersion=start)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[0]["object"] == made
    assert events[1]["object"] == changed
    last = events[2]["object"]["metadata"]
    assert int(last["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


def test_a_watch_without_a_revision_begins_with_what_there_is(widgets: Widgets) -> None:
    made = widgets.made(widget())
    assert widgets.watch() == [{"type": "ADDED", "object": made}]


def test_a_watch_sees_objects_come_into_its_selection_and_leave_it(widgets: Widgets) -> None:
    start = widgets.page().json()["metadata"]["resourceVersion"]
    widgets.made(widget())
    for label in ("x", "x", "y"):
        widgets.patch(
            {"metadata": {"labels": {"l": label}}, "spec": {"name": label + "z"}}
            if label == "y"
            else {"metadata": {"labels": {"l": label}}}
        )
    events = widgets.watch(resourceVersion=start, labelSelector="l=x")
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]


def test_a_watch_that_sends_all_first_marks_where_that_ends(widgets: Widgets) -> None:
    widgets.made(widget())
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    first, second, *_ = widgets.watch(**query)
    assert first["type"] == "ADDED"
    assert second["type"] == "BOOKMARK"
    assert second["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert second["object"]["kind"] == "Widget"


def test_a_watch_from_a_forgotten_revision_is_told_to_list_again(server: Server, widgets: Widgets) -> None:
    widgets.made(widget())
    server.forget()
    (event,) = widgets.watch(resourceVersion="1")
    assert event["type"] == "ERROR"
    assert (event["object"]["kind"], event["object"]["code"]) == ("Status", 410)
    assert event["object"]["reason"] == "Expired"


# where nothing is


def test_what_is_not_served_is_not_found(widgets: Widgets) -> None:
    client = widgets.client
    for path in (widgets.url("w", "scale"), "/apis/test.example.com/v1/widgetz", "/apis/nowhere/v1/widgets"):
        assert client.get(path).status_code == 404
