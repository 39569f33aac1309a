"""What admission says beyond the contract table: everything at once, for every input, and what is only a warning."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.strategies import FREE, SPECS, objects
from tests.contract.row import cut, put, thing
from tests.contract.spec_rows import STATIC, TRACE

from dgdr_retune.api import CANDIDATE, KINDS, MAX_DEPTH, REQUEST, RUN, Kind, default, validate

Json = Any

PLAIN = settings(deadline=None, max_examples=50)
DIRECT = put(TRACE, "aisimulate.generator", "direct")


def paths(value: Json, old: Json = None) -> list[str]:
    return [fault.path for fault in validate(value, old).errors]


def test_every_fault_is_reported_at_once_with_its_path_in_the_order_of_the_fields() -> None:
    spec = {
        "modelRef": {"name": ""},
        "backends": ["vllm", "VLLM"],
        "hardware": {"gpu": {"budget": 0, "count": 1}},
        "workload": {
            "static": {"isl": 1, "osl": "2", "concurrency": 1},
            "trace": {
                "source": {"persistentVolumeClaim": {"claimName": "A", "subPath": "/../a\0"}},
                "replay": {"arrivalSpeedupRatio": 0},
            },
        },
        "objective": {"mode": "Optimize", "sla": {"ttftMs": 1}},
        "search": {"budget": {"maxRounds": 1.5}},
        "recommendation": {"maxCandidates": 101},
        "aisimulate": {"inputOverrides": ["x"]},
    }
    claim = "spec.workload.trace.source.persistentVolumeClaim"
    assert paths(thing(REQUEST, spec)) == [
        "spec.hardware.gpu.count",
        "spec.modelRef.name",
        "spec.backends[1]",
        "spec.hardware.gpu.sku",
        "spec.hardware.gpu.budget",
        "spec.workload.static.osl",
        f"{claim}.claimName",
        f"{claim}.subPath",
        f"{claim}.subPath",
        f"{claim}.subPath",
        "spec.workload.trace.replay.arrivalSpeedupRatio",
        "spec.workload",
        "spec.objective.sla",
        "spec.objective",
        "spec.search.budget.maxRounds",
        "spec.search.budget.parallelEvaluations",
        "spec.recommendation.maxCandidates",
        "spec.aisimulate.inputOverrides",
    ]


def test_a_fault_reads_as_an_api_servers_and_has_its_kind() -> None:
    (fault,) = validate(thing(REQUEST, put(STATIC, "hardware.gpu.budget", 0))).errors
    assert str(fault) == "spec.hardware.gpu.budget: Invalid value: 0: should be greater than or equal to 1"
    assert fault.reason == "FieldValueInvalid"


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"kind": "DynamoGraphDeploymentRequest"}, {"apiVersion": []}])
def test_what_is_no_object_of_this_api_is_refused_and_not_changed(value: Json) -> None:
    (fault,) = validate(value).errors
    assert '"DynamoGraphDeploymentRun"' in str(fault)
    assert default(value) is value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)
@settings(deadline=None, max_examples=200)
@given(spec=FREE, status=FREE, metadata=FREE, old=FREE)
def test_no_json_is_too_odd_for_a_verdict(kind: Kind, spec: Json, status: Json, metadata: Json, old: Json) -> None:
    sent = {"apiVersion": "nvidia.com/v1beta2", "kind": kind.name, "metadata": metadata, "spec": spec, "status": status}
    before = copy.deepcopy(sent)
    verdict = validate(sent, old if isinstance(old, dict) else None)
    validate(sent, sent, subresource="status")
    default(sent)
    assert sent == before
    assert isinstance(spec, dict) or verdict.errors


@PLAIN
@given(st.data())
def test_one_odd_part_in_a_sound_object_is_found(data: st.DataObject) -> None:
    sent = data.draw(objects(REQUEST))
    path = data.draw(
        st.sampled_from(["spec.modelRef", "spec.backends", "spec.workload", "spec.search", "spec.aisimulate"])
    )
    odd = put(sent, path, data.draw(st.sampled_from(["x", 1, True, 1.5])))
    assert validate(odd).errors


def test_a_value_that_is_no_json_or_nested_too_deeply_is_refused() -> None:
    deep: Json = []
    for _ in range(MAX_DEPTH):
        deep = [deep]
    for value, message in ((float("inf"), "no JSON number"), ({1, 2}, "no JSON type"), (deep, "levels deep")):
        sent = thing(REQUEST, put(STATIC, "aisimulate.inputOverrides", {"a": value}))
        assert message in str(validate(sent).errors[0])
        grown = put(sent, "spec.aisimulate.inputOverrides.b", sent["spec"]["aisimulate"]["inputOverrides"])
        assert message in str(validate(grown, sent).errors[0])


def test_what_is_stored_however_deeply_can_be_left_as_it_is_and_let_go() -> None:
    stored, sent = (thing(RUN, put(STATIC, "aisimulate.inputOverrides", nested(5000))) for _ in range(2))
    stored["metadata"]["finalizers"] = ["a/b"]
    verdict = validate(sent, stored)
    assert verdict.errors == ()
    assert "levels deep" in verdict.warnings[0]
    other = thing(RUN, put(STATIC, "aisimulate.inputOverrides", nested(5001)))
    assert "levels deep" in str(validate(other, stored).errors[0])
    assert "immutable" in str(validate(thing(RUN, STATIC), stored).errors[0])


def nested(levels: int) -> Json:
    deep: Json = {}
    for _ in range(levels):
        deep = {"a": deep}
    return deep


def test_a_stored_fault_is_a_warning_and_no_error() -> None:
    stored = thing(REQUEST, put(DIRECT, "hardware.gpu.budget", 0))
    verdict = validate(put(stored, "metadata.labels", {"a": "b"}), stored)
    assert verdict.errors == ()
    (warning,) = verdict.warnings
    assert warning.startswith(
        "spec.hardware.gpu.budget: Invalid value: 0: should be greater than or equal to 1 (it was"
    )


@PLAIN
@given(st.data())
def test_an_object_that_was_accepted_is_accepted_again_unchanged(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    sent = data.draw(objects(kind))
    assert validate(sent, sent).errors == ()


@pytest.mark.parametrize(
    ("aisimulate", "warned"),
    [
        (None, True),
        ({}, True),
        ({"generator": "aic"}, True),
        ({"generator": "direct"}, False),
        ({"inputOverrides": {"engine": {"workers": {"aggregated": {"kv_cache": {"block_size": 64}}}}}}, False),
        ({"inputOverrides": {"engine": {"workers": {"aggregated": {"kv_cache": {}}}}}}, True),
        ({"inputOverrides": {"engine": {"workers": {"aggregated": {"kv_cache": {"block_size": None}}}}}}, True),
        (
            {"inputOverrides": {"engine": {"workers": {"prefill": {"kv_cache": {"block_size": 64}}, "decode": {}}}}},
            True,
        ),
        ({"inputOverrides": {"engine": {"workers": ["x"]}}}, True),
        ({"inputOverrides": {"engine": None}}, True),
    ],
)
def test_generator_aic_without_an_explicit_block_size_is_a_warning(aisimulate: Json, *, warned: bool) -> None:
    sent = thing(REQUEST, STATIC if aisimulate is None else put(STATIC, "aisimulate", aisimulate))
    verdict = validate(sent)
    assert verdict.errors == ()
    assert bool(verdict.warnings) is warned
    assert all("kv_cache.block_size" in each for each in verdict.warnings)
    assert validate(sent | {"kind": RUN.name}).warnings == ()
    assert validate(sent, sent, subresource="status").warnings == ()


@PLAIN
@given(SPECS)
def test_defaulting_adds_to_a_trace_neither_a_static_workload_nor_a_format(spec: Json) -> None:
    trace = spec | {"workload": TRACE["workload"]}
    assert default(thing(REQUEST, trace))["spec"]["workload"] == TRACE["workload"]


def test_defaulting_fills_in_what_is_absent() -> None:
    minimal = cut(STATIC, "workload")
    assert default(thing(REQUEST, minimal))["spec"] == minimal | {
        "workload": {"static": {"isl": 1024, "osl": 128, "concurrency": 10}},
        "objective": {"mode": "Optimize", "metric": "Throughput"},
        "search": {"budget": {"maxRounds": 20, "parallelEvaluations": 16}},
        "recommendation": {"maxCandidates": 5},
        "aisimulate": {"generator": "aic"},
    }


def test_a_default_is_handed_out_anew_each_time() -> None:
    first = default(thing(REQUEST, STATIC))
    first["spec"]["objective"]["mode"] = "changed"
    assert default(thing(REQUEST, STATIC))["spec"]["objective"]["mode"] == "Optimize"


@PLAIN
@given(st.data())
def test_defaulting_twice_is_defaulting_once_and_keeps_everything(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([REQUEST, RUN, CANDIDATE]))
    sent = data.draw(objects(kind))
    for name in data.draw(st.sets(st.sampled_from(["objective", "search", "recommendation", "aisimulate"]))):
        sent["spec"].pop(name, None)
    sent["spec"]["unknown"] = {"kept": None}
    once = default(sent)
    assert default(once) == once
    assert once | {"spec": once["spec"] | sent["spec"]} == once
    assert validate(once, strict=False).errors == ()


def test_a_message_does_not_repeat_a_long_value() -> None:
    (fault,) = validate(thing(REQUEST, put(STATIC, "backends", ["x" * 10_000]))).errors
    assert len(str(fault)) < 250
