"""The engines by name."""

from typing import get_args, get_type_hints

import pytest

from dgdr_retune.operator import Settings
from dgdr_retune.planner._configuration import RetuneSection
from dgdr_retune.replay import ENGINE_NAMES, BuiltInEngine, DynamoEngine, EngineUnavailableError, engine_named


def test_an_engine_is_found_by_the_name_that_it_has() -> None:
    assert [engine_named(name) for name in ENGINE_NAMES] == [BuiltInEngine(), DynamoEngine()]
    assert all(engine_named(name).name == name for name in ENGINE_NAMES)


def test_an_unknown_engine_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(EngineUnavailableError, match="no replay engine 'native'; choose one of built-in, dynamo"):
        engine_named("native")


@pytest.mark.parametrize(
    "annotation", [RetuneSection.model_fields["engine"].annotation, get_type_hints(Settings)["engine"]]
)
def test_a_configuration_and_the_operator_may_name_every_engine(annotation: object) -> None:
    assert get_args(annotation) == ENGINE_NAMES
