"""The CustomResourceDefinitions, and the lint that their declarations pass."""

from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import Field
from tests.api.api_lint import findings, schema_findings

from dgdr_retune.api import KINDS, REQUEST, ApiModel, Kind, crd_text, custom_resource_definition
from dgdr_retune.api._declare import OPTIONAL, REQUIRED
from dgdr_retune.api._rules import Rule

Json = Any

COMMITTED = Path(__file__).parents[2] / "deploy" / "crds"

by_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.short)


def schema_of(kind: Kind) -> Json:
    (version,) = custom_resource_definition(kind)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


@by_kind
def test_the_committed_definition_is_the_generated_one(kind: Kind) -> None:
    committed = (COMMITTED / f"{kind.crd_name}.yaml").read_text()
    assert committed == crd_text(kind), "run: dgdr-retune crds --write deploy/crds"
    assert yaml.safe_load(committed) == custom_resource_definition(kind)


def test_nothing_else_is_committed_beside_them() -> None:
    assert {path.name for path in COMMITTED.iterdir()} == {f"{kind.crd_name}.yaml" for kind in KINDS}


@by_kind
def test_v1beta2_alone_is_served_and_stored_with_a_status_subresource(kind: Kind) -> None:
    spec = custom_resource_definition(kind)["spec"]
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1beta2", True, True)
    assert version["subresources"] == {"status": {}}
    assert "conversion" not in spec


def test_names_are_those_of_the_public_api() -> None:
    names = {kind.short: custom_resource_definition(kind)["spec"]["names"] for kind in KINDS}
    assert {short: (each["kind"], each["plural"]) for short, each in names.items()} == {
        "dgdr": ("DynamoGraphDeploymentRequest", "dynamographdeploymentrequests"),
        "dgdrrun": ("DynamoGraphDeploymentRun", "dynamographdeploymentruns"),
        "dgdc": ("DynamoGraphDeploymentCandidate", "dynamographdeploymentcandidates"),
    }
    assert all(each["shortNames"] == [short] for short, each in names.items())


@by_kind
def test_declarations_pass_the_lint(kind: Kind) -> None:
    metadata = ("apiVersion: ", "kind: ", "metadata: ")  # Kubernetes' own
    assert [each for each in findings(kind.model) if not each.startswith(metadata)] == []
    assert list(schema_findings(schema_of(kind))) == []


def test_the_lint_finds_each_kind_of_fault() -> None:
    class Part(ApiModel):
        """A part."""

        bounded: Annotated[str, REQUIRED, Field(max_length=1, examples=["x"])]
        """Sound."""

    class Bad(ApiModel):
        """A bad model."""

        undeclared: Annotated[str, Field(max_length=1, examples=["x"])]
        """Neither optional nor required."""
        defaulted: Annotated[int, REQUIRED, Field(ge=0, le=1, examples=[1])] = 1
        """Required with a default."""
        silent: Annotated[str, REQUIRED, Field(max_length=1, examples=["x"])]
        Pascal: Annotated[str, REQUIRED, Field(max_length=1, examples=["x"])]
        """A name."""
        text: Annotated[str, REQUIRED, Field(examples=["x"])]
        """No bound."""
        items: Annotated[list[Annotated[str, Field(max_length=1)]], REQUIRED, Field(examples=[["x"]])]
        """No bound."""
        number: Annotated[float, REQUIRED, Field(gt=0, examples=[1])]
        """No upper bound."""
        parts: Annotated[list[Part], REQUIRED, Field(max_length=1)]
        """Sound."""
        start_timestamp: Annotated[str, OPTIONAL, Field(max_length=1, examples=["x"])] = ""
        """Another word."""
        mute: Annotated[str, REQUIRED, Field(max_length=1, examples=["x"]), Rule("true", bool, "")]
        """A rule without a message"""
        shown: Annotated[str, REQUIRED, Field(max_length=1)]
        """Without an example."""

    assert findings(Bad) == [
        "undeclared: is declared neither optional nor required",
        "defaulted: is required and has a default",
        "silent: has no description",
        "Pascal: is no camelCase name",
        "text: is a string without maxLength",
        "items: is a list without maxItems",
        "number: is a number without bounds",
        "startTimestamp: names a time with another word than Time",
        "mute: has a description that is no sentence",
        "mute: has a rule without a message",
        "shown: has no example",
    ]
    assert list(schema_findings({"type": "object", "properties": {"a": {"type": "array", "items": {}}}})) == [
        ".a: is a list without a list type",
        ".a.items: has no type",
    ]


def test_the_lint_finds_a_map_that_a_rule_reads_without_a_bound() -> None:
    free = {"type": "object", "additionalProperties": {"nullable": True, "x-kubernetes-preserve-unknown-fields": True}}
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    bounded = texts | {"maxProperties": 8}
    schema = {"type": "object", "properties": {"free": free, "texts": texts, "bounded": bounded}}
    assert list(schema_findings(schema)) == []
    rules = [{"rule": "self.texts.all(key, self.texts[key] != '')"}]
    found = [".texts: is a map without maxProperties that a rule reads"]
    assert list(schema_findings(schema | {"x-kubernetes-validations": rules})) == found
    texts["x-kubernetes-validations"] = rules
    assert list(schema_findings(schema)) == found


def test_a_free_object_is_described_so_that_a_server_compares_it_whole() -> None:
    overrides = schema_of(REQUEST)["properties"]["spec"]["properties"]["aisimulate"]["properties"]["inputOverrides"]
    assert overrides["type"] == "object"
    assert overrides["additionalProperties"] == {"nullable": True, "x-kubernetes-preserve-unknown-fields": True}
