"""Configuration and the retune loop."""

from dgdr_retune.planner._configuration import Configuration, load_configuration
from dgdr_retune.planner._errors import ConfigurationError, OutputError, PlannerError
from dgdr_retune.planner._reference import configuration_reference

__all__ = [
    "Configuration",
    "ConfigurationError",
    "OutputError",
    "PlannerError",
    "configuration_reference",
    "load_configuration",
]
