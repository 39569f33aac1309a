"""Configuration and the retune loop."""

from dgdr_retune.planner._calibrate import CalibratedEngine, calibrate_engine
from dgdr_retune.planner._configuration import Configuration, load_configuration
from dgdr_retune.planner._errors import ConfigurationError, OutputError, PlannerError
from dgdr_retune.planner._one_shot import Observer, choose_window, cut_window, retune
from dgdr_retune.planner._reference import configuration_reference

__all__ = [
    "CalibratedEngine",
    "Configuration",
    "ConfigurationError",
    "Observer",
    "OutputError",
    "PlannerError",
    "calibrate_engine",
    "choose_window",
    "configuration_reference",
    "cut_window",
    "load_configuration",
    "retune",
]
