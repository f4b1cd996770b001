"""A topic's configs: whether they may be set, and what its logs make of them together with the broker's properties.

Definitions, types and ranges stand in `coordinator.properties`; here they become `LogConfig`s and refusals. Pure.
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
"""So many different configs of topics are kept made; more are made again when they are asked for."""


class TopicConfigs:
    """What topics have when they say nothing, and what they may say. `broker`: the broker's own properties."""

    __slots__ = ("_made", "broker")

    def __init__(self, broker: Live | None = None) -> None:
        """`broker`: None is Kafka's defaults."""
        self.broker = broker or Live()
        self._made: dict[frozenset[tuple[str, str]], LogConfig] = {}

    def set_broker(self, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> bool:
        """These are set for all brokers and for this one; are they others than before?"""
        if (cluster_wide, own) == (self.broker.cluster_wide, self.broker.own):
            return False
        self.broker.set(cluster_wide, own)
        self._made.clear()
        return True

    def check(self, configs: Mapping[str, str | None]) -> None:
        """May a topic have these? Raises `ApiError`: INVALID_CONFIG with Kafka's sentence."""
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
