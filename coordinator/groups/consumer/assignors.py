"""The strategies of the server for consumer groups: those of `group.consumer.assignors`.

They are given by short names or by Kafka's classes. A user's own are known by their names alone: the runtime has the
classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."
BY_CLASS: Final[Mapping[str, str]] = MappingProxyType(
    {f"{_PACKAGE}UniformAssignor": "uniform", f"{_PACKAGE}RangeAssignor": "range"}
)
"""Kafka's classes and their names."""


@lru_cache(16)
def names_of(configured: tuple[str, ...]) -> tuple[str, ...]:
    """Their names in their order; the first is the default."""
    return tuple(dict.fromkeys([BY_CLASS.get(one, one) for one in configured]))
