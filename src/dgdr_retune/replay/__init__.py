"""A window as columns, and the engines that replay it."""

from dgdr_retune.replay._engine import Metrics, ReplayEngine, RequestTimes, RouterParameters, Scenario, Sla
from dgdr_retune.replay._engine_section import EngineSection
from dgdr_retune.replay._errors import (
    EngineFailedError,
    EngineSectionError,
    EngineUnavailableError,
    ReplayError,
    TraceError,
)
from dgdr_retune.replay._specification import (
    EngineSpecification,
    FixedTiming,
    PolynomialTiming,
    Timing,
    WorkerSpecification,
)
from dgdr_retune.replay._trace import Trace

__all__ = [
    "EngineFailedError",
    "EngineSection",
    "EngineSectionError",
    "EngineSpecification",
    "EngineUnavailableError",
    "FixedTiming",
    "Metrics",
    "PolynomialTiming",
    "ReplayEngine",
    "ReplayError",
    "RequestTimes",
    "RouterParameters",
    "Scenario",
    "Sla",
    "Timing",
    "Trace",
    "TraceError",
    "WorkerSpecification",
]
