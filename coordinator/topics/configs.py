"""A topic's configs: whether they may be set, and what its logs make of them together with the broker's properties.

Definitions, types and ranges stand in `coordinator.properties`; here they become `LogConfig`s and refusals. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from muster.coordinator.log import LogConfig
from muster.coordinator.properties import InvalidProperty, Value, default_value, topic
from muster.coordinator.topics.refusal import Refused
from muster.protocol.errors import ErrorCode

_FIELDS = tuple((field.name, field.name.replace("_", ".")) for field in dataclasses.fields(LogConfig))


class TopicConfigs:
    """What topics have when they say nothing, and what they may say."""

    __slots__ = ("_broker", "_defaults")

    def __init__(self, broker: Callable[[str], Value] = default_value) -> None:
        """`broker`: the value of a broker property (`Config.value`)."""
        self._broker = broker
        self._defaults: LogConfig | None = None

    def check(self, configs: Mapping[str, str | None]) -> None:
        """May a topic have these? Raises `Refused`: INVALID_CONFIG with Kafka's sentence."""
        try:
            topic.validate(configs)
        except InvalidProperty as error:
            raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error

    def log_config(self, configs: Mapping[str, str]) -> LogConfig:
        """The config of the logs of a topic with these configs, which were checked when they were set."""
        if not configs:
            if self._defaults is None:
                self._defaults = self._made({})
            return self._defaults
        return self._made(configs)

    def _made(self, configs: Mapping[str, str]) -> LogConfig:
        effective = topic.effective(configs, self._broker)
        values: dict[str, Any] = {field: effective[name] for field, name in _FIELDS}
        return LogConfig(**values)

    def metadata_log(self) -> LogConfig:
        """The config of the metadata log: it is the catalogue, so nothing of it is ever dropped."""
        return LogConfig(retention_ms=-1, retention_bytes=-1, cleanup_policy=())
