"""The engines by the names that configurations and flags have for them."""

from typing import Final

from dgdr_retune.replay._built_in import BuiltInEngine
from dgdr_retune.replay._dynamo import DynamoEngine
from dgdr_retune.replay._engine import ReplayEngine
from dgdr_retune.replay._errors import EngineUnavailableError

_ENGINES: Final[dict[str, ReplayEngine]] = {engine.name: engine for engine in (BuiltInEngine(), DynamoEngine())}

ENGINE_NAMES: Final = tuple(_ENGINES)
"""What `engine_named` takes."""


def engine_named(name: str) -> ReplayEngine:
    """The engine of this name; one that is not installed here says so when it is used.

    Raises:
        EngineUnavailableError: there is none of this name.
    """
    if name not in _ENGINES:
        raise EngineUnavailableError(f"there is no replay engine {name!r}; choose one of {', '.join(ENGINE_NAMES)}")
    return _ENGINES[name]
