"""The verbs: what they send and what they make of the answer."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.kube.scripted import Scripted, answer, page, refused, run, scripted, status, thing

from dgdr_retune.kube import (
    JOBS,
    PODS,
    AlreadyExistsError,
    Answer,
    Api,
    Cause,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    MaybeAppliedError,
    NotFoundError,
    NotSentError,
    RefusedError,
    Resource,
)
from dgdr_retune.kube._decode import TOO_DEEP

MADE = thing("a", 7)


def make_api(transport: Scripted, **settings: Any) -> Api:
    return Api(transport, rng=random.Random(1), **settings)  # noqa: S311 - the same each time


Verb = Callable[[Api], Awaitable[object]]
WRITES: dict[str, Verb] = {
    "create": lambda api: api.create(JOBS, "default", MADE),
    "update": lambda api: api.replace(JOBS, "default", "a", MADE),
    "merge": lambda api: api.patch(JOBS, "default", "a", {"metadata": {"finalizers": None}}),
    "json": lambda api: api.json_patch(JOBS, "default", "a", [{"op": "remove", "path": "/spec"}]),
    "delete": lambda api: api.delete(JOBS, "default", "a", uid="uid-a"),
}
READS: dict[str, Verb] = {
    "get": lambda api: api.get(JOBS, "default", "a"),
    "list": lambda api: api.list(JOBS, "default"),
}


@pytest.mark.parametrize(
    ("verb", "method", "content_type"),
    [
        ("create", "POST", "application/json"),
        ("update", "PUT", "application/json"),
        ("merge", "PATCH", "application/merge-patch+json"),
        ("json", "PATCH", "application/json-patch+json"),
        ("delete", "DELETE", "application/json"),
    ],
)
def test_the_content_type_of_each_body_is_said(verb: str, method: str, content_type: str) -> None:
    transport = scripted(answer(200, MADE))
    run(_awaited(WRITES[verb](make_api(transport))))
    (call,) = transport.calls
    assert (call.method, call.content_type) == (method, content_type)
    assert json.loads(call.body)


async def _awaited(something: Awaitable[object]) -> object:
    return await something


@pytest.mark.parametrize("verb", ["create", "update", "merge", "json"])
def test_writes_ask_that_unknown_fields_are_refused(verb: str) -> None:
    transport = scripted(answer(200, MADE))
    run(_awaited(WRITES[verb](make_api(transport))))
    assert transport.calls[0].query == {"fieldValidation": "Strict"}


def test_a_write_can_ask_that_unknown_fields_are_dropped_with_a_warning() -> None:
    transport = scripted(answer(201, MADE))
    run(make_api(transport).create(JOBS, "default", MADE, strict=False))
    assert transport.calls[0].query == {"fieldValidation": "Warn"}


def test_warnings_of_the_server_are_logged_once_each() -> None:
    said = '299 - "unknown field \\"spec.typo\\"", 299 - "old, very old"'
    transport = scripted(*[answer(200, MADE, warning=said)] * 2)
    api = make_api(transport)

    async def twice() -> None:
        await api.patch(JOBS, "default", "a", {})
        await api.get(JOBS, "default", "a")

    with capture_logs() as logs:
        run(twice())
    assert [entry["warning"] for entry in logs] == ['unknown field "spec.typo"', "old, very old"]
    assert {entry["log_level"] for entry in logs} == {"warning"}


def test_the_warnings_that_are_remembered_are_bounded() -> None:
    answers = [answer(200, MADE, warning=f'299 - "number {number}"') for number in range(300)]
    api = make_api(scripted(*answers))

    async def often() -> None:
        for _ in answers:
            await api.get(JOBS, "default", "a")

    with capture_logs() as logs:
        run(often())
    assert len(logs) == 256


def test_a_subresource_is_written_at_its_path() -> None:
    transport = scripted(answer(200, MADE))
    run(make_api(transport).patch(JOBS, "default", "a", {}, subresource="status"))
    assert transport.calls[0].path == "/apis/batch/v1/namespaces/default/jobs/a/status"


def test_a_delete_names_the_very_object_and_the_policy() -> None:
    transport = scripted(answer(200, status(200)))
    run(make_api(transport).delete(JOBS, "default", "a", uid="u", resource_version="7", propagation="Foreground"))
    options = json.loads(transport.calls[0].body)
    assert options["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert options["propagationPolicy"] == "Foreground"


def test_numbers_that_json_does_not_have_are_never_sent() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        run(make_api(scripted()).create(JOBS, "default", {"score": float("nan")}))


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFoundError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (409, "", ConflictError),
        (422, "Invalid", InvalidError),
        (403, "Forbidden", ForbiddenError),
        (410, "Expired", GoneError),
        (400, "BadRequest", RefusedError),
        (401, "Unauthorized", RefusedError),
        (415, "UnsupportedMediaType", RefusedError),
        (307, "", RefusedError),
    ],
)
def test_a_refusal_has_the_class_of_what_it_means(code: int, reason: str, kind: type[RefusedError]) -> None:
    transport = scripted(refused(code, reason))
    with pytest.raises(RefusedError) as raised:
        run(make_api(transport).create(JOBS, "default", MADE))
    assert type(raised.value) is kind
    assert raised.value.status == code
    assert reason in ("", raised.value.reason)
    assert len(transport.calls) == 1


def test_an_invalid_object_says_which_fields_are_at_fault() -> None:
    causes = [{"field": "spec.a", "reason": "FieldValueInvalid", "message": "too small"}, "not a cause"]
    transport = scripted(answer(422, status(422, "Invalid", "Job is invalid", causes=causes)))
    with pytest.raises(InvalidError, match="Job is invalid") as raised:
        run(make_api(transport).create(JOBS, "default", MADE))
    assert raised.value.causes == (Cause("spec.a", "FieldValueInvalid", "too small"),)


@pytest.mark.parametrize("body", [b"<html>404 page not found", b"", b"[1]", b'"NotFound"', b"\xff" * 9, b'{"a": 1}'])
def test_a_refusal_by_something_that_is_no_api_server_is_classed_by_its_status(body: bytes) -> None:
    with pytest.raises(NotFoundError) as raised:
        run(make_api(scripted(Answer(404, {}, body))).get(JOBS, "default", "a"))
    assert raised.value.reason == "NotFound"


@pytest.mark.parametrize("body", [status(200, "Success"), [], "text", None, {"kind": "Job"}, {"metadata": []}])
def test_what_is_no_object_is_never_returned_as_one(body: Any) -> None:
    api = make_api(scripted(*[answer(200, body)] * 5))
    with pytest.raises(MaybeAppliedError) as raised:
        run(api.get(JOBS, "default", "a"))
    assert raised.value.reason == "Malformed"


def test_a_write_whose_answer_is_not_understood_may_have_been_applied() -> None:
    transport = scripted(answer(201, status(201)))
    with pytest.raises(MaybeAppliedError):
        run(make_api(transport).create(JOBS, "default", MADE))
    assert len(transport.calls) == 1


@pytest.mark.parametrize(
    "body",
    [
        status(200),
        {"kind": "JobList", "metadata": {}, "items": []},
        {"kind": "JobList", "metadata": {"resourceVersion": "x"}, "items": []},
        {"kind": "JobList", "metadata": {"resourceVersion": "1"}, "items": [status(410)]},
        {"kind": "JobList", "metadata": {"resourceVersion": "1"}, "items": ["a"]},
        {"kind": "JobList", "metadata": {"resourceVersion": "1"}, "items": "ab"},
        {"kind": "Job", "metadata": {"resourceVersion": "1"}, "items": []},
    ],
)
def test_what_is_no_list_is_never_returned_as_one(body: Any) -> None:
    with pytest.raises(MaybeAppliedError) as raised:
        run(make_api(scripted(*[answer(200, body)] * 5)).list(JOBS, "default"))
    assert raised.value.reason == "Malformed"


def test_a_list_of_nothing_may_leave_its_items_out() -> None:
    for items in ({}, {"items": None}, {"items": []}):
        body = {"kind": "JobList", "metadata": {"resourceVersion": "3"}} | items
        listing = run(make_api(scripted(answer(200, body))).list(JOBS))
        assert (listing.items, listing.resource_version) == ((), "3")


def test_one_object_nested_deeper_than_python_parses_does_not_hide_the_others() -> None:
    deep = json.dumps(thing("deep", 3)).encode()[:-1] + b', "spec": ' + b'{"a]": [' * 4000 + b"1" + b"]}" * 4000 + b"}"
    body = page(9, thing("a", 3), thing("deep", 3), thing("z", 4)).body
    body = body.replace(json.dumps(thing("deep", 3)).encode(), deep)
    listing = run(make_api(scripted(Answer(200, {}, body))).list(JOBS))
    first, cut, last = listing.items
    assert (first, last) == (thing("a", 3), thing("z", 4))
    assert cut["metadata"]["name"] == "deep"
    assert TOO_DEEP in json.dumps(cut["spec"])


def test_a_list_is_all_pages_of_one_moment_with_the_kind_in_each_item() -> None:
    bare = {"metadata": thing("b", 4)["metadata"]}
    transport = scripted(page(9, thing("a", 3), follows="more"), page(9, bare))
    listing = run(make_api(transport).list(JOBS, "default", label_selector="x=1", field_selector="metadata.name=a"))
    assert listing.items == (thing("a", 3), thing("b", 4))
    assert listing.resource_version == "9"
    first, second = (dict(call.query) for call in transport.calls)
    assert first == {"labelSelector": "x=1", "fieldSelector": "metadata.name=a", "limit": "500"}
    assert second == first | {"continue": "more"}


def test_a_list_whose_moment_is_forgotten_begins_again() -> None:
    transport = scripted(page(9, thing("a", 3), follows="more"), refused(410, "Expired"), page(12, thing("b", 11)))
    listing = run(make_api(transport).list(JOBS))
    assert listing.items == (thing("b", 11),)
    assert "continue" not in transport.calls[2].query


def test_a_list_whose_moment_is_forgotten_again_and_again_comes_in_one_piece() -> None:
    forgotten = (page(9, thing("a", 3), follows="more"), refused(410, "Expired"))
    transport = scripted(*forgotten, *forgotten, page(30, thing("b", 11)))
    assert run(make_api(transport).list(JOBS)).resource_version == "30"
    assert "limit" not in transport.calls[-1].query


def test_each_call_is_observed_with_its_verb_its_resource_its_outcome_and_its_time() -> None:
    seen: list[tuple[str, Resource, str, float]] = []

    async def slow(_: object) -> Any:
        await asyncio.sleep(2)
        return answer(200, MADE)

    transport = scripted(slow, refused(429), NotSentError("x"), answer(201, MADE), refused(404), MaybeAppliedError("y"))
    api = make_api(transport, observe=lambda *said: seen.append(said))

    async def calls() -> None:
        await api.get(JOBS, "default", "a")
        await api.create(PODS, "default", MADE)
        with pytest.raises(NotFoundError):
            await api.delete(JOBS, "default", "a", uid="u")
        with pytest.raises(MaybeAppliedError):
            await api.patch(JOBS, "default", "a", {})

    run(calls())
    assert [(verb, resource.plural, outcome) for verb, resource, outcome, _ in seen] == [
        ("get", "jobs", "200"),
        ("create", "pods", "429"),
        ("create", "pods", "not_sent"),
        ("create", "pods", "201"),
        ("delete", "jobs", "404"),
        ("patch", "jobs", "lost"),
    ]
    assert seen[0][3] == pytest.approx(2)


def test_a_call_that_is_cancelled_is_observed_and_ends_at_once() -> None:
    seen: list[str] = []

    async def never(_: object) -> Any:
        await asyncio.Event().wait()

    api = make_api(scripted(never), observe=lambda *said: seen.append(said[2]))

    async def cancelled() -> None:
        task = asyncio.create_task(api.get(JOBS, "default", "a"))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())
    assert seen == ["cancelled"]
