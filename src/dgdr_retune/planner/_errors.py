"""What can go wrong before a decision is due."""


class PlannerError(Exception):
    """A run that cannot start or end; `reason` is for machines, the message says what to do."""

    reason = "planner_failed"


class ConfigurationError(PlannerError):
    """The configuration is not usable: the message names file, line and field of every fault."""

    reason = "configuration_invalid"


class OutputError(PlannerError):
    """The results could not be written."""

    reason = "output_failed"
