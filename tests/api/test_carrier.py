"""Requests on a cluster that stores v1beta1."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.strategies import FREE, objects
from tests.contract.carrier_rows import carrier
from tests.contract.row import put, thing
from tests.contract.spec_rows import STATIC, TRACE

from dgdr_retune.api import REQUEST, ConversionError, default, is_carrier, to_v1beta1, to_v1beta2, validate

Json = Any

PLAIN = settings(deadline=None, max_examples=50)
V1BETA1 = {"apiVersion": "nvidia.com/v1beta1", "kind": REQUEST.name, "metadata": {"name": "old"}}
NATIVE_PARTS = st.dictionaries(st.sampled_from(["model", "image", "sla", "hardware"]), FREE, max_size=3)
NATIVE_V1BETA1 = st.fixed_dictionaries({"spec": NATIVE_PARTS}, optional={"status": NATIVE_PARTS}).map(
    lambda parts: V1BETA1 | parts
)


@PLAIN
@given(objects(REQUEST))
def test_a_v1beta2_request_is_carried_verbatim_and_comes_back(request: Json) -> None:
    carried = to_v1beta1(request)
    assert carried == carrier(request)
    assert is_carrier(carried)
    assert to_v1beta2(carried) == request


@PLAIN
@given(NATIVE_V1BETA1)
def test_a_v1beta1_request_is_shown_and_comes_back(native: Json) -> None:
    shown = to_v1beta2(native)
    assert shown["apiVersion"] == "nvidia.com/v1beta2"
    assert shown["spec"] == {"v1beta1": native["spec"]}
    assert not is_carrier(native)
    assert to_v1beta1(shown) == native


@pytest.mark.parametrize("part", ["spec", "status"])
def test_a_request_of_two_versions_at_once_is_not_converted(part: str) -> None:
    native = thing(REQUEST, STATIC, {"observedGeneration": 1})
    for convert, value in (
        (to_v1beta1, put(native, f"{part}.v1beta1", {"a": 1})),
        (to_v1beta1, put(native, part, {"v1beta2": {}})),
        (to_v1beta2, put(carrier(native), f"{part}.modelRef", {})),
        (to_v1beta2, put(carrier(native), part, {"v1beta2": "x"})),
        (to_v1beta2, put(carrier(native), part, {"v1beta2": {"v1beta1": {}}})),
    ):
        with pytest.raises(ConversionError) as caught:
            convert(value)
        assert caught.value.part == part
        assert str(caught.value).startswith(f"{part}.v1beta")


def test_a_fault_in_a_carrier_has_the_carriers_path() -> None:
    sent = carrier(thing(REQUEST, put(put(STATIC, "hardware.gpu.budget", 0), "typo", 1)))
    assert [str(fault) for fault in validate(sent).errors] == [
        'spec.v1beta2.typo: unknown field "spec.v1beta2.typo"',
        "spec.v1beta2.hardware.gpu.budget: Invalid value: 0: should be greater than or equal to 1",
    ]


def test_an_update_that_leaves_a_carriers_stored_fault_alone_is_a_warning() -> None:
    stored = carrier(thing(REQUEST, put(TRACE, "workload.trace.source.persistentVolumeClaim.subPath", "../a")))
    changed = put(stored, "spec.v1beta2.image", "x")
    verdict = validate(changed, stored)
    assert verdict.errors == ()
    assert any(warning.startswith("spec.v1beta2.workload.trace.source") for warning in verdict.warnings)
    worse = put(changed, "spec.v1beta2.workload.trace.source.persistentVolumeClaim.subPath", "../b")
    assert validate(worse, stored).errors


def test_a_warning_about_a_carrier_has_the_carriers_path() -> None:
    goodput = put(STATIC, "objective", {"mode": "Optimize", "metric": "Goodput"})
    native = validate(thing(REQUEST, goodput)).warnings
    assert [warning.partition(":")[0] for warning in native] == ["spec.objective.sla", "spec.aisimulate"]
    assert [warning.partition(":")[0] for warning in validate(carrier(thing(REQUEST, goodput))).warnings] == [
        "spec.v1beta2.objective.sla",
        "spec.v1beta2.aisimulate",
    ]


def test_a_carrier_is_defaulted_as_the_request_it_carries() -> None:
    native = thing(REQUEST, TRACE)
    assert default(carrier(native)) == carrier(default(native))
    mixed = put(carrier(native), "spec.modelRef", {})
    assert default(mixed) is mixed


def test_a_carrier_of_another_kind_is_no_object_of_this_api() -> None:
    assert validate(carrier(thing(REQUEST, STATIC)) | {"kind": "DynamoGraphDeploymentRun"}).errors[0].path == "kind"
