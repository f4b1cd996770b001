"""The configuration: Kafka's property names from a file, the environment and options, checked before the server starts.
`load` makes a `Config`, which gives each package its settings.
"""

from __future__ import annotations

from muster.coordinator.config.checks import ConfigError
from muster.coordinator.config.config import Config
from muster.coordinator.config.listeners import Listener
from muster.coordinator.config.load import load

__all__ = ["Config", "ConfigError", "Listener", "load"]
