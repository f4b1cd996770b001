"""The topics of this node with their open partitions: found by name or id, opened, and opened again when a log failed.

Decides nothing and writes no record; `Topics` is built on it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType

from muster.coordinator.clock import Clock
from muster.coordinator.cluster.image import Leader
from muster.coordinator.log import DamagedLog, FileStorage, Log, LogConfig, LogManager, LogOffline
from muster.coordinator.topics.configs import TopicConfigs
from muster.coordinator.topics.dynamic_configs import DynamicConfigs
from muster.coordinator.topics.metadata_log import MetadataLog
from muster.coordinator.topics.metadata_state import MetadataState, TopicState
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC, GROUP_OFFSETS_TOPIC, METADATA_TOPIC
from muster.coordinator.topics.offline_retry import Failed
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.pending_changes import PendingChanges
from muster.coordinator.topics.settings import TopicSettings
from muster.coordinator.topics.topic import Topic

NOTHING_MADE: Mapping[int, Partition | None] = MappingProxyType({})

_OF_SHARDS = frozenset((GROUP_OFFSETS_TOPIC, GROUP_EVENTS_TOPIC))
"""Topics whose logs are opened again by those who write them."""


class OpenTopics:
    """All topics that there are."""

    catalogue: MetadataLog
    _in_force: PendingChanges

    def __init__(
        self, settings: TopicSettings, clock: Clock, logs: LogManager, configs: TopicConfigs, node_id: int
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.logs = logs
        self.configs = configs
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.leaders: dict[str, tuple[Leader, ...]] = {}
        """Of the partitions of each topic, by its name; those of one topic are replaced together."""
        self._node_id = node_id
        self.reconfiguring = DynamicConfigs(configs, clock, node_id, lambda: self.state, self.by_name)

    @property
    def state(self) -> MetadataState:
        """What the metadata log says."""
        return self.catalogue.state

    def partition(self, name: str, index: int) -> Partition | None:
        """A partition, unless there is none or its log cannot be opened."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic of this id."""
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_id(self, name: str) -> bytes | None:
        """The id of the topic of this name."""
        topic = self.by_name.get(name)
        return None if topic is None else topic.topic_id

    def space(self) -> tuple[int, int]:
        """Bytes of the volume that holds the logs: (all, free); -1 when they are in memory."""
        storage = self.logs.storage
        if not isinstance(storage, FileStorage):
            return -1, -1
        usage = shutil.disk_usage(storage.root)
        return usage.total, usage.free

    def _open(self, state: TopicState, made: Mapping[int, Partition | None] = NOTHING_MADE) -> None:
        """Bring the open logs of a topic in line with its state; `made`: partitions of it that are open already."""
        topic = self.by_id.get(state.topic_id)
        if topic is None:
            topic = self.by_name[state.name] = self.by_id[state.topic_id] = Topic(state)
        config = self.reconfiguring.configure(topic)
        for index in range(len(topic.partitions), len(state.partitions)):
            try:
                partition = made.get(index) or self._open_one(state, index, config)
            except (DamagedLog, LogOffline):
                # The log manager has said why; the partition is there, without a leader.
                topic.partitions.append(None)
            else:
                topic.partitions.append(partition)
        self._set_leaders(topic)

    def _set_leaders(self, topic: Topic) -> None:
        """This node leads every partition that there is."""
        epochs = (topic.leader_epoch(index) for index in range(len(topic.partitions)))
        self.leaders[topic.name] = tuple(Leader(self._node_id, epoch) for epoch in epochs)

    def _open_one(self, state: TopicState, index: int, config: LogConfig) -> Partition:
        """Raises DamagedLog or LogOffline."""
        return self._open_partition(state.name, state.topic_id, index, state.leader_epoch(index), config)

    def _open_partition(
        self, name: str, topic_id: bytes, index: int, leader_epoch: int, config: LogConfig
    ) -> Partition:
        """Raises DamagedLog or LogOffline."""
        log = self._open_log(name, topic_id, index, config)
        # a log that was put here, or whose catalogue has lost records, may have seen later leaders than ours
        return Partition(
            name, topic_id, index, max(leader_epoch, log.leader_epoch + 1 if log.leader_epoch >= 0 else 0), log
        )

    def _open_log(self, name: str, topic_id: bytes, index: int, config: LogConfig) -> Log:
        synced = name == GROUP_OFFSETS_TOPIC and self.settings.muster_offsets_durability == "commit"
        log = self.logs.open_log(name, index, config=config, topic_id=topic_id, wait_for_sync=synced)
        log.config = config
        return log

    def reopen(self, name: str, index: int) -> Partition:
        """A partition of a topic that there is, its log opened anew if it has failed or could not be opened.

        Raises DamagedLog, which an operator has to see to, or LogOffline.
        """
        topic = self.by_name[name]
        partition = topic.partitions[index]
        if partition is None:
            damage = self.logs.offline.get((name, index))
            if damage is not None:
                raise damage
            held = self.logs.get(name, index)
            if held is not None and held.failure is not None:
                self.logs.reopen(name, index)
            config = self.configs.log_config(self.state.topic_configs(name))
            partition = topic.partitions[index] = self._open_one(topic.state, index, config)
            self._set_leaders(topic)
        elif partition.log.failure is not None:
            partition.use_log(self.logs.reopen(name, index))
        return partition

    def open_log(self, name: str, index: int) -> tuple[Log, int]:
        """The log of such a partition, and the epoch of its leader. Raises as `reopen`."""
        partition = self.reopen(name, index)
        return partition.log, partition.leader_epoch

    def _offline(self) -> Iterator[Failed] | None:
        """What `OfflineRetry` is to open again; None after the end."""
        if not self.logs.is_open:
            return None
        return self._failed_logs() if self.logs.gone is None else iter(())

    def _failed_logs(self) -> Iterator[Failed]:
        if self.catalogue.log.failure is not None:
            yield METADATA_TOPIC, 0, self._reopen_catalogue
        if self.catalogue.log.failure is None:
            self._in_force.resume()  # what waited while the data directory was away
        for topic in self.by_name.values():
            if topic.name in _OF_SHARDS:
                continue
            for index in range(len(topic.partitions)):
                if not topic.is_online(index) and (topic.name, index) not in self.logs.offline:
                    yield topic.name, index, partial(self.reopen, topic.name, index)

    def _reopen_catalogue(self) -> None:
        self.catalogue.use_log(self.logs.reopen(METADATA_TOPIC, 0))
        self._in_force.resume()
