"""A window as columns, and the engines that replay it."""

from dgdr_retune.replay._built_in import BuiltInEngine, check_block_size
from dgdr_retune.replay._calibration import Calibration, calibrate
from dgdr_retune.replay._dynamo import DynamoEngine
from dgdr_retune.replay._engine import Metrics, ReplayEngine, RequestTimes, RouterParameters, Scenario, Sla
from dgdr_retune.replay._engine_section import EngineSection, WorkerSection
from dgdr_retune.replay._engines import ENGINE_NAMES, engine_named
from dgdr_retune.replay._errors import (
    CalibrationError,
    EngineFailedError,
    EngineSectionError,
    EngineUnavailableError,
    ReplayError,
    TraceError,
)
from dgdr_retune.replay._load import load_trace
from dgdr_retune.replay._recorded import Recorded, load_recorded
from dgdr_retune.replay._sharing import TraceHandle, attach, share
from dgdr_retune.replay._specification import (
    CalibratedTiming,
    EngineSpecification,
    FixedTiming,
    PolynomialTiming,
    Timing,
    WorkerSpecification,
)
from dgdr_retune.replay._trace import Trace, trace_of

__all__ = [
    "ENGINE_NAMES",
    "BuiltInEngine",
    "CalibratedTiming",
    "Calibration",
    "CalibrationError",
    "DynamoEngine",
    "EngineFailedError",
    "EngineSection",
    "EngineSectionError",
    "EngineSpecification",
    "EngineUnavailableError",
    "FixedTiming",
    "Metrics",
    "PolynomialTiming",
    "Recorded",
    "ReplayEngine",
    "ReplayError",
    "RequestTimes",
    "RouterParameters",
    "Scenario",
    "Sla",
    "Timing",
    "Trace",
    "TraceError",
    "TraceHandle",
    "WorkerSection",
    "WorkerSpecification",
    "attach",
    "calibrate",
    "check_block_size",
    "engine_named",
    "load_recorded",
    "load_trace",
    "share",
    "trace_of",
]
