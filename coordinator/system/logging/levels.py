"""The level of each logger: Kafka's names, inherited from the parent logger, changeable while the server runs.

Levels belong to the process. Config requests for broker loggers (KIP-412) change them until its end, as on Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ROOT: Final = "root"
LOGGERS: Final = (
    ROOT,
    "muster",
    "muster.api",
    "muster.authorizer",
    "muster.cluster",
    "muster.config",
    "muster.events",
    "muster.groups",
    "muster.log",
    "muster.metrics",
    "muster.net",
    "muster.nodes",
    "muster.server",
    "muster.shard",
    "muster.testcontrol",
    "muster.topics",
    "muster.transactions",
)
"""The loggers whose level can be set."""
NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
)
"""The levels by Kafka's names, with the numbers of Python's logging; lines below the number are dropped."""
_NAMES: Final = {number: name for name, number in NUMBERS.items()}


class Levels:
    """The level of each logger. Its hierarchy is not the process's own one: there libraries have their levels."""

    def __init__(self) -> None:
        root = logging.RootLogger(NUMBERS["INFO"])
        self._hierarchy = root.manager = logging.Manager(root)

    def logger(self, name: str) -> logging.Logger:
        """What says whether lines of a logger are enabled. No line goes to it."""
        return self._hierarchy.root if name == ROOT else self._hierarchy.getLogger(name)

    def name(self, logger: str) -> str:
        """The effective level, by Kafka's name."""
        return _NAMES[self.logger(logger).getEffectiveLevel()]

    def set(self, logger: str, level: str) -> None:
        """Set the level of a logger, by Kafka's name. Raises KeyError for an unknown level."""
        self.logger(logger).setLevel(NUMBERS[level])

    def unset(self, logger: str) -> None:
        """Let a logger inherit its level again; not the root."""
        if logger != ROOT:
            self.logger(logger).setLevel(logging.NOTSET)


LEVELS: Final = Levels()
"""The levels of this process."""
