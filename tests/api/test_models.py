"""Reading what a server returns and writing it back."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.strategies import FREE_OBJECTS, objects
from tests.contract.row import cut, put, thing
from tests.contract.spec_rows import STATIC, TRACE
from tests.contract.table import ROWS

from dgdr_retune.api import (
    KINDS,
    REQUEST,
    RUN,
    AiSimulate,
    ApiModel,
    ClaimSource,
    Condition,
    Gpu,
    Hardware,
    InvalidObjectError,
    Kind,
    ModelRef,
    ObjectMeta,
    Replay,
    Request,
    RequestSpec,
    RunReason,
    TraceSource,
    TraceWorkload,
    UnknownFieldsError,
    Workload,
    canonical,
    validate,
)
from dgdr_retune.api._fill import filled, pruned

Json = Any

PLAIN = settings(deadline=None, max_examples=50)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
@PLAIN
@given(data=st.data())
def test_what_a_server_returns_comes_back_equal(kind: Kind, data: st.DataObject) -> None:
    returned = data.draw(objects(kind))
    assert validate(returned, strict=True).errors == ()
    assert validate(returned, subresource="status").errors == ()
    model = kind.model.read(returned)
    assert json.dumps(model.stored()) == json.dumps(canonical(model.stored()))
    assert model.stored() == returned
    assert model.written() == returned


def test_every_object_that_the_contract_table_accepts_can_be_read_and_comes_back() -> None:
    for row in ROWS:
        if "levels deep" in row.warned:  # a server holds it, and no model takes it
            continue
        if row.refused or row.validate_alone or row.loose:
            continue
        shape = row.kind.shape
        returned = canonical(filled(shape, pruned(shape, row.object).value, by_crd=True))
        if row.operation != "update status":
            returned.pop("status", None)
        elif row.old is not None:
            returned["spec"] = filled(shape, row.old, by_crd=True)["spec"]
        assert row.kind.model.read(returned).written() == returned, row.id


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
@PLAIN
@given(data=st.data())
def test_unknown_fields_are_kept_on_reading_and_refused_on_writing(kind: Kind, data: st.DataObject) -> None:
    returned = data.draw(objects(kind).filter(lambda value: "status" in value))
    newer = put(returned, "status.newer", data.draw(FREE_OBJECTS))
    model = kind.model.read(newer)
    assert model.stored() == newer
    with pytest.raises(UnknownFieldsError) as caught:
        model.written()
    assert caught.value.paths == ("status.newer",)


def test_an_unknown_field_is_named_by_its_path_wherever_it_is() -> None:
    spec = put(put(TRACE, "workload.trace.source.persistentVolumeClaim.path", "x"), "typo", 1)
    status = {"conditions": [], "recentRunRefs": [{"name": "a"}, {"name": "b", "uid": "c"}]}
    with pytest.raises(UnknownFieldsError) as caught:
        Request.read(thing(REQUEST, spec, status)).written()
    assert caught.value.paths == (
        "spec.typo",
        "spec.workload.trace.source.persistentVolumeClaim.path",
        "status.recentRunRefs[1].uid",
    )


def test_a_python_name_on_the_wire_is_no_field_of_the_api() -> None:
    with pytest.raises(InvalidObjectError) as missing:
        Request.read(thing(REQUEST, cut(STATIC, "modelRef") | {"model_ref": {"name": "x"}}))
    assert missing.value.problems == ("spec.modelRef: Field required",)
    with pytest.raises(UnknownFieldsError) as caught:
        Request.read(thing(REQUEST, put(STATIC, "model_ref", {"name": "x"}))).written()
    assert caught.value.paths == ("spec.model_ref",)


def test_metadata_that_is_not_ours_to_know_is_written_back() -> None:
    metadata = {"name": "a", "managedFields": [{"manager": "x"}], "selfLink": None}
    read = Request.read(thing(REQUEST, STATIC) | {"metadata": metadata})
    assert read.written()["metadata"] == metadata


def test_numbers_are_read_as_a_server_returns_them() -> None:
    written = put(put(STATIC, "hardware.gpu.budget", 2.0), "aisimulate.inputOverrides", {"a": [1.0, 0.5, 2.0**70]})
    stored = Request.read(thing(REQUEST, written)).stored()
    assert json.dumps(stored["spec"]["hardware"]["gpu"]["budget"]) == "2"
    assert json.dumps(stored["spec"]["aisimulate"]["inputOverrides"]["a"]) == "[1, 0.5, 1.1805916207174113e+21]"


def test_a_request_is_written_in_python_names_and_without_its_defaults() -> None:
    claim = ClaimSource(claim_name="request-traces", sub_path="a/b.jsonl.gz")
    spec = RequestSpec(
        model_ref=ModelRef(name="Qwen/Qwen3-0.6B"),
        backends=["vllm"],
        hardware=Hardware(gpu=Gpu(sku="h200_sxm", budget=2)),
        workload=Workload(
            trace=TraceWorkload(
                source=TraceSource(persistent_volume_claim=claim), replay=Replay(arrival_speedup_ratio=2.0)
            )
        ),
        image=None,
        aisimulate=AiSimulate(input_overrides={"traffic": None}),
    )
    assert spec.search.budget.max_rounds == 20
    assert Request(metadata=ObjectMeta(name="qwen"), spec=spec).written() == {
        "apiVersion": "nvidia.com/v1beta2",
        "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": "qwen"},
        "spec": {
            "modelRef": {"name": "Qwen/Qwen3-0.6B"},
            "backends": ["vllm"],
            "hardware": {"gpu": {"sku": "h200_sxm", "budget": 2}},
            "workload": {
                "trace": {
                    "source": {"persistentVolumeClaim": {"claimName": "request-traces", "subPath": "a/b.jsonl.gz"}},
                    "replay": {"arrivalSpeedupRatio": 2},
                }
            },
            "aisimulate": {"inputOverrides": {"traffic": None}},
        },
    }


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, "metadata"),
        (thing(REQUEST, put(STATIC, "hardware.gpu.budget", "2")), "spec.hardware.gpu.budget"),
        (thing(REQUEST, put(STATIC, "backends", ["vllm", 1])), "spec.backends[1]"),
        (thing(RUN, STATIC), "kind"),
        (thing(REQUEST, put(STATIC, "aisimulate.inputOverrides", {"a": float("nan")})), "nan is no JSON number"),
        (thing(REQUEST, put(STATIC, "aisimulate.inputOverrides", {1: 2})), "the key 1 is no string"),
        ("x", "Input should be"),
    ],
)
def test_an_object_that_the_models_cannot_hold_is_refused_with_its_paths(value: Json, problem: str) -> None:
    with pytest.raises(InvalidObjectError) as caught:
        Request.read(value)
    assert any(each.startswith(problem) for each in caught.value.problems)


def test_no_model_can_be_changed() -> None:
    model: ApiModel = Gpu(sku="x", budget=1)
    with pytest.raises(ValueError, match="frozen"):
        model.budget = 2  # type: ignore[attr-defined]


def test_a_reason_is_written_as_plain_text() -> None:
    condition = Condition(
        type="Completed",
        status="False",
        reason=RunReason.PENDING,
        message="",
        last_transition_time="2026-10-01T12:00:00Z",
    )
    assert type(condition.written()["reason"]) is str
    assert yaml.safe_dump(condition.written()["reason"]).strip() == "Pending\n..."
