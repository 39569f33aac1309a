"""The engines by name."""

from typing import get_args

import pytest

from dgdr_retune.planner._configuration import RetuneSection
from dgdr_retune.replay import ENGINE_NAMES, BuiltInEngine, DynamoEngine, EngineUnavailableError, engine_named


def test_an_engine_is_found_by_the_name_that_it_has() -> None:
    assert [engine_named(name) for name in ENGINE_NAMES] == [BuiltInEngine(), DynamoEngine()]
    assert all(engine_named(name).name == name for name in ENGINE_NAMES)


def test_an_unknown_engine_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(EngineUnavailableError, match="no replay engine 'native'; choose one of built-in, dynamo"):
        engine_named("native")


def test_a_configuration_may_name_every_engine() -> None:
    assert get_args(RetuneSection.model_fields["engine"].annotation) == ENGINE_NAMES
