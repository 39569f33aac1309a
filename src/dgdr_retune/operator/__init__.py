"""The operator: leader election around the controllers, the webhook, health and metrics."""

from dgdr_retune.operator._arguments import SettingsError
from dgdr_retune.operator._main import main
from dgdr_retune.operator._operator import Operator
from dgdr_retune.operator._settings import Settings

__all__ = ["Operator", "Settings", "SettingsError", "main"]
