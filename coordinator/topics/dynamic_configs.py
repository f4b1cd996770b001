"""What is configured while the broker runs: the logs of topics heed their own configs and those of the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from muster.coordinator.clock import Clock
from muster.coordinator.log import LogConfig
from muster.coordinator.topics.configs import TopicConfigs
from muster.coordinator.topics.metadata_state import ALL_BROKERS, BROKER_RESOURCE, MetadataState
from muster.coordinator.topics.topic import Topic

CONFIGURED_AT_ONCE: Final = 200
"""Topics whose logs get a new config in one turn of the event loop."""


class DynamicConfigs:
    """`state`: what the metadata log says now; `topics`: those that are open, by name."""

    def __init__(
        self,
        configs: TopicConfigs,
        clock: Clock,
        node_id: int,
        state: Callable[[], MetadataState],
        topics: Mapping[str, Topic],
    ) -> None:
        self._configs = configs
        self._clock = clock
        self._own_name = str(node_id)
        self._state = state
        self._topics = topics
        self._subscribers: list[Callable[[], object]] = []

    def subscribe(self, callback: Callable[[], object]) -> None:
        """Call back whenever properties of this broker were changed (`TopicConfigs.broker` has them)."""
        self._subscribers.append(callback)

    def take_in(self) -> None:
        """Heed what is set for all brokers and for this one; the logs of topics do so a few topics in each turn."""
        state = self._state()
        cluster_wide = state.resource_configs(BROKER_RESOURCE, ALL_BROKERS)
        own = state.resource_configs(BROKER_RESOURCE, self._own_name)
        if not self._configs.set_broker(cluster_wide, own):
            return
        for callback in self._subscribers:
            callback()
        names = iter(list(self._topics))

        def configure_some() -> None:
            some = list(islice(names, CONFIGURED_AT_ONCE))
            for topic in filter(None, map(self._topics.get, some)):
                self.configure(topic)
            if some:
                self._clock.call_at(self._clock.now().mono_ms, configure_some)

        configure_some()

    def configure(self, topic: Topic) -> LogConfig:
        """Give the logs of a topic their config, which is returned for those that are still to be opened."""
        config = self._configs.log_config(self._state().topic_configs(topic.name))
        for partition in topic.partitions:
            if partition is not None:
                partition.log.config = config
        return config
