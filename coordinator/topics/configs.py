"""A topic's configs: whether they may be set, and the `LogConfig` that they and the broker's properties make.

`coordinator.properties` has the definitions, types and ranges. This module makes `LogConfig`s and refusals. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from muster.coordinator.log import LogConfig
from muster.coordinator.properties import topic
from muster.coordinator.properties.definition import InvalidProperty
from muster.coordinator.properties.live import Live
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode

_FIELDS = tuple((field.name, field.name.replace("_", ".")) for field in dataclasses.fields(LogConfig))


MOST_MADE: Final = 1_000
"""So many `LogConfig`s are cached, one for each different set of configs; others are made again on demand."""


class TopicConfigs:
    """The defaults of topics, and the configs that topics may set. `broker`: the broker's own properties."""

    __slots__ = ("_made", "broker")

    def __init__(self, broker: Live | None = None) -> None:
        """Without `broker`, the defaults are Kafka's."""
        self.broker = broker or Live()
        self._made: dict[frozenset[tuple[str, str]], LogConfig] = {}

    def set_broker(self, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> bool:
        """Take the configs of all brokers and of this one; return whether they differ from those before."""
        if (cluster_wide, own) == (self.broker.cluster_wide, self.broker.own):
            return False
        self.broker.set(cluster_wide, own)
        self._made.clear()
        return True

    def check(self, configs: Mapping[str, str | None]) -> None:
        """Check whether a topic may have these configs. Raises `ApiError`: INVALID_CONFIG with Kafka's sentence."""
        try:
            topic.validate(configs, self.broker.value)
        except InvalidProperty as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def log_config(self, configs: Mapping[str, str]) -> LogConfig:
        """The config of the logs of a topic with these configs, which were checked when they were set."""
        key = frozenset(configs.items())
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= MOST_MADE:
                self._made.clear()
            effective = topic.effective(configs, self.broker.value)
            values: dict[str, Any] = {field: effective[name] for field, name in _FIELDS}
            made = self._made[key] = LogConfig(**values)
        return made
