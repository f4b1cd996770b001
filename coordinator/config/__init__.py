"""The configuration: Kafka's property names from a file, the environment and options, checked before anything starts.

`load` gathers and checks; the `Config` it returns hands each room its settings. Imports nothing of the rooms.
"""

from __future__ import annotations

from muster.coordinator.config.config import Config
from muster.coordinator.config.error import ConfigError
from muster.coordinator.config.listeners import Listener
from muster.coordinator.config.load import load

__all__ = ["Config", "ConfigError", "Listener", "load"]
