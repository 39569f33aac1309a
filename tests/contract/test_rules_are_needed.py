"""Each rule of the definitions is held by the table: without it a row fails."""

import copy
from collections.abc import Iterator

import httpx
import pytest
from tests.contract.conftest import SERVED
from tests.contract.judges import Json, ServerJudge, definitions

from dgdr_retune.testing import SimulatedApiServer, transport

Place = tuple[str, ...]
RULES = "x-kubernetes-validations"


def places_of_rules(schema: Json, place: Place = ()) -> Iterator[tuple[Place, int]]:
    """Where the rules of a schema are: the way to their node, and their number there."""
    yield from ((place, number) for number in range(len(schema.get(RULES, ()))))
    for name, below in schema.get("properties", {}).items():
        yield from places_of_rules(below, (*place, "properties", name))
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from places_of_rules(schema[key], (*place, key))


def schema_of(definition: Json) -> Json:
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def without(definition: Json, place: Place, number: int) -> tuple[Json, str]:
    """The definition without a rule, and the message of the rule."""
    poorer = copy.deepcopy(definition)
    node = schema_of(poorer)
    for step in place:
        node = node[step]
    return poorer, node[RULES].pop(number)["message"]


CASES = [
    pytest.param(definition, place, number, id=f"{definition['spec']['names']['kind']} {'.'.join(place)} {number}")
    for definition in definitions()
    for place, number in places_of_rules(schema_of(definition))
]


@pytest.mark.parametrize(("definition", "place", "number"), CASES)
def test_a_row_fails_without_the_rule(definition: Json, place: Place, number: int) -> None:
    poorer, message = without(definition, place, number)
    asked = [
        row
        for row in SERVED
        if row.kind.name == definition["spec"]["names"]["kind"] and row.refused and row.refused in message
    ]
    others = [each for each in definitions() if each["metadata"]["name"] != definition["metadata"]["name"]]
    with httpx.Client(base_url="http://simulated", transport=transport(SimulatedApiServer())) as client:
        client.headers["Content-Type"] = "application/json"
        judge = ServerJudge(client)
        judge.prepare(asked, [poorer, *others])
        assert any(row.refused not in judge.ask(row).message for row in asked)
