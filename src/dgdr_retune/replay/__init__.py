"""A window as columns, and the engines that replay it."""

from dgdr_retune.replay._engine import Metrics, ReplayEngine, RequestTimes, RouterParameters, Scenario, Sla
from dgdr_retune.replay._specification import (
    EngineSpecification,
    FixedTiming,
    PolynomialTiming,
    Timing,
    WorkerSpecification,
)
from dgdr_retune.replay._trace import Trace

__all__ = [
    "EngineSpecification",
    "FixedTiming",
    "Metrics",
    "PolynomialTiming",
    "ReplayEngine",
    "RequestTimes",
    "RouterParameters",
    "Scenario",
    "Sla",
    "Timing",
    "Trace",
    "WorkerSpecification",
]
