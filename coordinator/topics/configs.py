"""The configs of topics, and the `LogConfig` that they and the broker's properties make (`coordinator.properties`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from muster.coordinator.log import LogConfig
from muster.coordinator.properties.definition import InvalidProperty
from muster.coordinator.properties.live import Live
from muster.coordinator.properties.resource_configs import effective_topic, validate_topic
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_state import ALL_BROKERS, BROKER_RESOURCE, GROUP_RESOURCE, MetadataState
from muster.coordinator.topics.open_topics import OpenTopics
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.config_record import ConfigRecord

_FIELDS = tuple((field.name, field.name.replace("_", ".")) for field in dataclasses.fields(LogConfig))


MAX_MADE: Final = 1_000
"""How many sets of configs are cached."""


class TopicConfigs:
    """Default configs of topics, and checks of configs that topics set. `broker`: the broker's own properties."""

    __slots__ = ("_made", "broker")

    def __init__(self, broker: Live | None = None) -> None:
        self.broker = broker or Live()
        self._made: dict[frozenset[tuple[str, str]], LogConfig] = {}

    def set_broker(self, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> bool:
        """Use these configs of all brokers and of this broker. Returns whether the configs before were different."""
        if (cluster_wide, own) == (self.broker.cluster_wide, self.broker.own):
            return False
        self.broker.set(cluster_wide, own)
        self._made.clear()
        return True

    def check(self, configs: Mapping[str, str | None]) -> None:
        """Check whether a topic may have these configs. Raises `ApiError`: INVALID_CONFIG with Kafka's sentence."""
        try:
            validate_topic(configs, self.broker.value)
        except InvalidProperty as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def log_config(self, configs: Mapping[str, str]) -> LogConfig:
        """The config of the logs of a topic with these configs, which were checked when they were set."""
        key = frozenset(configs.items())
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= MAX_MADE:
                self._made.clear()
            effective = effective_topic(configs, self.broker.value)
            values: dict[str, Any] = {field: effective[name] for field, name in _FIELDS}
            made = self._made[key] = LogConfig(**values)
        return made


CONFIGURED_AT_ONCE: Final = 200
"""How many topics get new defaults in one step."""


class DynamicConfigs:
    """Applies configs that were set for the brokers to logs, and passes configs of groups to subscribers."""

    def __init__(self, configs: TopicConfigs, clock: Clock, node_id: int, topics: OpenTopics) -> None:
        self._configs = configs
        self._clock = clock
        self._own_name = str(node_id)
        self._topics = topics
        self._subscribers: list[Callable[[], object]] = []
        self._others: list[tuple[str, Live, Callable[[], object]]] = []
        self._of_groups: list[Callable[[str, Mapping[str, str]], object]] = []

    def subscribe(self, callback: Callable[[], object]) -> None:
        """Call `callback` whenever properties of this broker were changed. `TopicConfigs.broker` has the properties."""
        self._subscribers.append(callback)

    def follow(self, node_id: int, live: Live, changed: Callable[[], object], state: MetadataState) -> None:
        """Keep another broker's properties in `live` up to date. `changed` is called after a change."""
        self._others.append((str(node_id), live, changed))
        live.set(
            state.resource_configs(BROKER_RESOURCE, ALL_BROKERS), state.resource_configs(BROKER_RESOURCE, str(node_id))
        )

    def subscribe_groups(self, callback: Callable[[str, Mapping[str, str]], object], state: MetadataState) -> None:
        """Call `callback` with the name and the configs of each group that has configs: now, and after each change."""
        self._of_groups.append(callback)
        for name in state.resources(GROUP_RESOURCE):
            callback(name, state.resource_configs(GROUP_RESOURCE, name))

    def written(self, records: Sequence[Message], state: MetadataState) -> None:
        """Apply the configs in records of the metadata log that have changed the state."""
        given = [one for one in records if isinstance(one, ConfigRecord)]
        if any(one.resource_type == BROKER_RESOURCE for one in given):
            self.apply(state)
        for name in dict.fromkeys([one.resource_name for one in given if one.resource_type == GROUP_RESOURCE]):
            for callback in self._of_groups:
                callback(name, state.resource_configs(GROUP_RESOURCE, name))

    def apply(self, state: MetadataState) -> None:
        """Apply the configs of all brokers and of this broker. A job updates the logs, a few topics at a time."""
        cluster_wide = state.resource_configs(BROKER_RESOURCE, ALL_BROKERS)
        own = state.resource_configs(BROKER_RESOURCE, self._own_name)
        for name, live, changed in self._others:
            its_own = state.resource_configs(BROKER_RESOURCE, name)
            if (cluster_wide, its_own) != (live.cluster_wide, live.own):
                live.set(cluster_wide, its_own)
                changed()
        if not self._configs.set_broker(cluster_wide, own):
            return
        for callback in self._subscribers:
            callback()
        topics = self._topics.walk()

        def configure_some() -> None:
            some = list(islice(topics, CONFIGURED_AT_ONCE))
            for topic in some:
                self._topics.configure(topic)
            if some:
                self._clock.machine.call_at(self._clock.machine.mono_ms(), configure_some)

        configure_some()
