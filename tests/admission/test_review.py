"""AdmissionReviews and what is answered."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.strategies import FREE, objects
from tests.contract.carrier_rows import carrier
from tests.contract.row import cut, put, thing
from tests.contract.spec_rows import STATIC, TRACE

from dgdr_retune.admission import Review, ReviewError, mutated, read_review, validated
from dgdr_retune.admission._review import additions
from dgdr_retune.api import KINDS, REQUEST, RUN, default, validate

Json = Any

PLAIN = settings(deadline=None, max_examples=50)


def review(new: Json, old: Json = None, *, operation: str = "CREATE", subresource: str = "") -> Review:
    request = {"uid": "u", "operation": operation, "subResource": subresource, "object": new, "oldObject": old}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return read_review(json.dumps(body).encode())


def response(answer: Json) -> Json:
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    assert answer["kind"] == "AdmissionReview"
    assert answer["response"]["uid"] == "u"
    return answer["response"]


def patch_of(answer: Json) -> list[Json]:
    given_response = response(answer)
    assert given_response["allowed"] is True
    if "patch" not in given_response:
        return []
    assert given_response["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(given_response["patch"]))


def apply_additions(value: Json, patch: list[Json]) -> Json:
    """RFC 6902, as far as `add` to objects goes."""
    for operation in patch:
        assert operation["op"] == "add"
        *parents, last = (
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].removeprefix("/").split("/")
        )
        place = value
        for name in parents:
            place = place[name]
        place[last] = operation["value"]
    return value


def test_a_request_without_defaults_gets_them_as_a_patch() -> None:
    patch = patch_of(mutated(review(thing(REQUEST, cut(STATIC, "workload")))))
    assert [operation["path"] for operation in patch] == [
        "/spec/workload",
        "/spec/objective",
        "/spec/search",
        "/spec/recommendation",
        "/spec/aisimulate",
    ]


@PLAIN
@given(st.data())
def test_the_patch_makes_of_an_object_what_defaulting_makes_of_it(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    sent = data.draw(objects(kind))
    for name in data.draw(
        st.sets(st.sampled_from(["workload", "objective", "search", "recommendation", "aisimulate"]))
    ):
        sent["spec"].pop(name, None)
    sent = put(sent, "spec.search.a/b~c", data.draw(FREE)) if data.draw(st.booleans()) else sent
    expected = default(sent)
    assert apply_additions(sent, patch_of(mutated(review(sent)))) == expected


def test_a_carrier_gets_its_defaults_inside() -> None:
    paths = [operation["path"] for operation in patch_of(mutated(review(carrier(thing(REQUEST, TRACE)))))]
    assert paths[0] == "/spec/v1beta2/objective"


def test_what_needs_no_default_gets_no_patch() -> None:
    assert patch_of(mutated(review(default(thing(REQUEST, STATIC))))) == []


def test_a_sound_object_is_allowed_with_its_warnings() -> None:
    answer = response(validated(review(thing(REQUEST, STATIC))))
    assert answer["allowed"] is True
    assert answer["warnings"] == list(validate(thing(REQUEST, STATIC)).warnings)
    assert all(len(warning) < 256 for warning in answer["warnings"])  # an API server cuts longer ones
    assert response(validated(review(thing(RUN, STATIC)))) == {"uid": "u", "allowed": True}


def test_a_faulty_object_is_refused_as_an_api_server_refuses_it_with_every_fault() -> None:
    sent = thing(REQUEST, put(put(STATIC, "hardware.gpu.budget", 0), "backends", ["VLLM"]))
    answer = response(validated(review(sent)))
    assert answer["allowed"] is False
    status = answer["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    first, second = (str(fault) for fault in validate(sent).errors)
    assert status["message"] == f'DynamoGraphDeploymentRequest "qwen" is invalid: [{first}, {second}]'
    assert [(cause["reason"], cause["field"]) for cause in status["details"]["causes"]] == [
        ("FieldValueNotSupported", "spec.backends[0]"),
        ("FieldValueInvalid", "spec.hardware.gpu.budget"),
    ]


def test_an_update_is_judged_against_what_is_stored() -> None:
    stored = thing(REQUEST, put(STATIC, "hardware.gpu.budget", 0))
    unchanged = response(validated(review(put(stored, "spec.image", "x"), stored, operation="UPDATE")))
    assert unchanged["allowed"] is True
    assert any("spec.hardware.gpu.budget" in warning for warning in unchanged["warnings"])
    run = thing(RUN, STATIC)
    changed = response(validated(review(put(run, "spec.image", "x"), run, operation="UPDATE")))
    assert changed["status"]["message"].endswith("spec: Invalid value: spec is immutable; create a new object instead")


def test_a_status_is_judged_and_never_defaulted() -> None:
    sent = thing(REQUEST, cut(STATIC, "workload"), {"observedGeneration": -1})
    asked = review(sent, sent | {"status": {}}, operation="UPDATE", subresource="status")
    assert patch_of(mutated(asked)) == []
    assert response(validated(asked))["allowed"] is False


def test_unknown_fields_are_left_to_the_server_which_may_know_them() -> None:
    assert response(validated(review(thing(REQUEST, put(STATIC, "newer", 1)))))["allowed"] is True


@pytest.mark.parametrize(
    "asked",
    [
        review(None, thing(REQUEST, STATIC), operation="DELETE"),
        review({"apiVersion": "v1", "kind": "Pod", "spec": {}}),
        review(thing(REQUEST, "x") | {"kind": "Other"}),
        review(thing(REQUEST, "x"), operation="CONNECT"),
        review(thing(REQUEST, "x"), operation="UPDATE", subresource="scale"),
        review("x"),
    ],
    ids=["delete", "pod", "other kind", "connect", "scale", "text"],
)
def test_what_is_not_ours_to_judge_is_allowed(asked: Review) -> None:
    assert response(validated(asked)) == {"uid": "u", "allowed": True}
    assert response(mutated(asked)) == {"uid": "u", "allowed": True}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no AdmissionReview"),
        (b"{}", "no AdmissionReview"),
        (b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}', "no AdmissionReview"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "no request"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":[]}', "no request"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}', "no uid"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}', "no uid"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}', "no operation"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":NaN}', "NaN is no JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_malformed_review_is_refused_with_what_is_wrong(body: bytes, message: str) -> None:
    with pytest.raises(ReviewError, match=message):
        read_review(body)


@settings(deadline=None, max_examples=200)
@given(new=FREE, old=FREE, kind=st.sampled_from(KINDS), status=st.booleans())
def test_every_review_that_can_be_read_has_an_answer(new: Json, old: Json, kind: Any, *, status: bool) -> None:
    sent = (new if isinstance(new, dict) else {"spec": new}) | {"apiVersion": "nvidia.com/v1beta2", "kind": kind.name}
    asked = review(sent, old, operation="UPDATE", subresource="status" if status else "")
    assert response(mutated(asked))["allowed"] is True
    assert json.dumps(validated(asked), allow_nan=False)


def test_an_object_that_is_nested_very_deeply_has_an_answer() -> None:
    deep: Json = {}
    for _ in range(300):
        deep = {"a": deep}
    asked = review(thing(REQUEST, put(STATIC, "aisimulate.inputOverrides", deep)))
    assert response(mutated(asked))["allowed"] is True
    assert "levels deep" in response(validated(asked))["status"]["message"]


def test_a_patch_escapes_what_a_pointer_cannot_hold() -> None:
    before = {"a/b~c": {"kept": 1}}
    after = {"a/b~c": {"kept": 1, "new": 2}}
    assert list(additions(before, after)) == [{"op": "add", "path": "/a~1b~0c/new", "value": 2}]
