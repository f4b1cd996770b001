"""The level of each logger: Kafka's names, inherited from the parent logger, changeable while the server runs.

The process has one table, because loggers belong to the process. `output` looks up the level for each line. Config
requests for broker loggers (KIP-412) change it. It is lost at the end of the process, as on Kafka.
"""

from __future__ import annotations

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
    """The level of each logger. A logger without one inherits it, at last from the root."""

    def __init__(self) -> None:
        self._set: dict[str, int] = {ROOT: NUMBERS["INFO"]}
        self._counts: dict[str, int] = {}

    def number(self, logger: str) -> int:
        """The effective level of a logger."""
        found = self._counts.get(logger)
        if found is None:
            above = logger
            while above not in self._set and above:
                above = above.rpartition(".")[0]
            found = self._counts[logger] = self._set.get(above, self._set[ROOT])
        return found

    def name(self, logger: str) -> str:
        """The effective level, by Kafka's name."""
        return _NAMES[self.number(logger)]

    def set(self, logger: str, level: str) -> None:
        """Set the level of a logger, by Kafka's name. Raises KeyError for an unknown logger or level."""
        self._set[logger] = NUMBERS[level]
        self._counts.clear()

    def unset(self, logger: str) -> None:
        """Let a logger inherit its level again; not the root."""
        if logger != ROOT:
            self._set.pop(logger, None)
            self._counts.clear()


LEVELS: Final = Levels()
"""The levels of this process."""
