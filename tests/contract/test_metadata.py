"""Metadata: `dgdr-retune validate` says what an API server says, which judges it by its own rules."""

from typing import Any

import pytest
from tests.contract.judges import ServerJudge
from tests.contract.row import thing
from tests.contract.spec_rows import STATIC

from dgdr_retune.api import REQUEST, metadata_faults

Json = Any

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}
SOUND: dict[str, Json] = {
    "a short name": {"name": "a"},
    "a long name": {"name": ".".join(["x" * 63] * 3) + "." + "y" * 61},
    "a generated name": {"generateName": "a-"},
    "a generated name that is cut": {"generateName": "x" * 253},
    "an empty name and a generated one": {"name": "", "generateName": "a"},
    "a generated name that is not used": {"name": "a", "generateName": "--"},
    "labels": {"labels": {"a": "", "A_b.c-d": "x" * 63, "example.com/a": "1"}},
    "annotations": {"annotations": {"a": " any\ntext ", "Example.com/a": ""}},
    "finalizers": {"finalizers": ["example.com/a"]},
    "an owner": {"ownerReferences": [OWNER]},
    "nulls": {"labels": None, "annotations": None, "creationTimestamp": None},
    "most annotations": {"annotations": {"a": "x" * (256 * 1024 - 1)}},
}
FAULTY: dict[str, tuple[Json, str]] = {
    "no name": ({"name": None}, "metadata.name"),
    "an upper case name": ({"name": "Bad"}, "metadata.name"),
    "an underscore": ({"name": "a_b"}, "metadata.name"),
    "a sign at the end": ({"name": "a-"}, "metadata.name"),
    "an empty part": ({"name": "a..b"}, "metadata.name"),
    "a line's end": ({"name": "a\n"}, "metadata.name"),
    "a name that is too long": ({"name": "x" * 254}, "metadata.name"),
    "a name that is a number": ({"name": 1}, "metadata.name"),
    "a bad generated name": ({"name": None, "generateName": "A-"}, "metadata.generateName"),
    "a generated name that cannot start a name": ({"name": None, "generateName": "--"}, "metadata.generateName"),
    "a generated name with a part that ends with -": ({"name": None, "generateName": "a.-"}, "metadata.generateName"),
    "a generated name that ends with a point": ({"name": None, "generateName": "a."}, "metadata.generateName"),
    "a generated name that is too long": ({"name": None, "generateName": "x" * 254}, "metadata.generateName"),
    "a bad generated name beside a name": ({"name": "a", "generateName": "A"}, "metadata.generateName"),
    "a label's key with a space": ({"labels": {"a b": "x"}}, "metadata.labels"),
    "a label's key that is empty": ({"labels": {"": "x"}}, "metadata.labels"),
    "a label's key with two prefixes": ({"labels": {"a/b/c": "x"}}, "metadata.labels"),
    "a label's key with no prefix": ({"labels": {"/c": "x"}}, "metadata.labels"),
    "a label's key with an upper case prefix": ({"labels": {"A/c": "x"}}, "metadata.labels"),
    "a label's key that is too long": ({"labels": {"x" * 64: "x"}}, "metadata.labels"),
    "a label's value with a sign": ({"labels": {"a": "!"}}, "metadata.labels"),
    "a label's value that is too long": ({"labels": {"a": "x" * 64}}, "metadata.labels"),
    "a label's value that is a number": ({"labels": {"a": 1}}, "metadata.labels"),
    "labels that are a list": ({"labels": ["a"]}, "metadata.labels"),
    "an annotation's key with a space": ({"annotations": {"a b": "x"}}, "metadata.annotations"),
    "an annotation that is true": ({"annotations": {"a": True}}, "metadata.annotations"),
    "too many annotations": ({"annotations": {"a": "x" * (256 * 1024)}}, "metadata.annotations"),
    "finalizers that are a string": ({"finalizers": "x"}, "metadata.finalizers"),
    "a finalizer with a space": ({"finalizers": ["a b"]}, "metadata.finalizers"),
    "an owner without a UID": ({"ownerReferences": [OWNER | {"uid": ""}]}, "metadata.ownerReferences[0].uid"),
    "an unknown field": ({"sauce": 1}, "metadata.sauce"),
    "no metadata": (None, "metadata.name"),
    "metadata that is a list": ([], "metadata"),
}


def sent(metadata: Json) -> Json:
    if not isinstance(metadata, dict):
        return metadata
    return ({} if "generateName" in metadata else {"name": "a"}) | metadata


@pytest.mark.parametrize("name", SOUND)
def test_metadata_that_a_server_takes_has_no_fault(name: str, real: ServerJudge) -> None:
    metadata = sent(SOUND[name])
    assert metadata_faults(metadata) == ()
    answer = real.ask_about(REQUEST, thing(REQUEST, STATIC) | {"metadata": metadata})
    assert answer.accepted, answer.message


@pytest.mark.parametrize("name", FAULTY)
def test_metadata_that_no_server_takes_has_a_fault(name: str, real: ServerJudge) -> None:
    faulty, path = FAULTY[name]
    metadata = sent(faulty)
    assert [fault.path for fault in metadata_faults(metadata)] == [path]
    assert not real.ask_about(REQUEST, thing(REQUEST, STATIC) | {"metadata": metadata}).accepted
