"""The topics of this node with their open partitions. This module decides nothing and writes no record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Final

from muster.coordinator.log import DamagedLog, LogConfig, LogManager, LogOffline, UnifiedLog
from muster.coordinator.system.chunked import Chunked
from muster.coordinator.topics.cluster_image import Leader
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_state import TopicState
from muster.coordinator.topics.names import EVENTS_OF, INTERNAL_TOPICS, PARTITIONS_PROPERTIES
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode


class Topic:
    """One topic and its partitions in order; a partition whose log cannot be opened is None."""

    __slots__ = ("internal", "is_shared", "name", "partitions", "state", "topic_id")

    def __init__(self, state: TopicState, *, is_shared: bool = False) -> None:
        """`is_shared`: whether other processes lead some of the topic's partitions, which are also None."""
        self.is_shared = is_shared
        self.state = state
        self.name = state.name
        self.topic_id = state.topic_id
        self.internal = state.name in INTERNAL_TOPICS
        self.partitions: list[Partition | None] = []

    def is_online(self, index: int) -> bool:
        """Whether the log of a partition works, in this or another process. If not, the partition has no leader."""
        partition = self.partitions[index]
        return self.is_shared if partition is None else partition.log.failure is None

    def leader_epoch(self, index: int) -> int:
        """The epoch of the leader of an existing partition."""
        partition = self.partitions[index]
        return self.state.leader_epoch(index) if partition is None else partition.leader_epoch

    def existing(self, index: int) -> Partition:
        """The partition of this index.

        Raises `ApiError`: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER. As on Kafka,
        NOT_LEADER_OR_FOLLOWER is also for a new leader that has not opened the log yet.
        """
        if not 0 <= index < len(self.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = self.partitions[index]
        if partition is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER if self.is_shared else ErrorCode.KAFKA_STORAGE_ERROR)
        return partition


CHECKED_AT_ONCE: Final = 2_000
"""How many partitions are checked each second for failed logs: some 5 ms, since few are in the CPU's caches."""
CHECKED_IN_A_STEP: Final = 200

Failed = tuple[str, int, Callable[[], object]]
"""Topic, partition, and a function that opens the log again; it raises a LogError."""
Found = Iterator[Failed | None]
"""A search for failed logs. The search yields None where it may be interrupted."""

_OF_SHARDS = frozenset((*EVENTS_OF, *PARTITIONS_PROPERTIES))
"""Topics whose logs are opened again by their shards and journals."""


class OpenTopics:
    """All topics of this node."""

    def __init__(
        self,
        logs: LogManager,
        config_of: Callable[[str], LogConfig],
        waits_for_sync: Callable[[str], bool],
    ) -> None:
        """`config_of`: the config of a topic's logs. `waits_for_sync`: whether records count only once synced."""
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self._all = Chunked[str, Topic]()
        self.leaders: dict[str, tuple[Leader, ...]] = {}
        """The leaders of each topic's partitions, by the topic's name. Changes of leaders replace the mapping."""
        self._logs = logs
        self._config_of = config_of
        self.waits_for_sync = waits_for_sync
        self.is_one_of_several = False
        """Whether other processes lead partitions. Then only `open_led_partition` opens partitions."""
        self._to_check: Iterator[Topic] = iter(())
        """The walk of `failed_logs`."""

    def open(self, state: TopicState, made: Sequence[Partition] = ()) -> None:
        """Configure a topic's logs, and open the logs of new partitions. `made`: partitions that are open already."""
        topic = self.by_id.get(state.topic_id)
        if topic is None:
            topic = self.by_name[state.name] = self.by_id[state.topic_id] = Topic(
                state, is_shared=self.is_one_of_several
            )
            self._all.put(state.name, topic)
        config = self.configure(topic)
        if self.is_one_of_several:
            topic.partitions += [None] * (len(state.partitions) - len(topic.partitions))
        topic.partitions += made
        for index in range(len(topic.partitions), len(state.partitions)):
            try:
                partition = self._open_one(state, index, config)
            except (DamagedLog, LogOffline):
                # The log manager has reported why. The partition exists, without a leader.
                topic.partitions.append(None)
            else:
                topic.partitions.append(partition)
        self._set_leaders(topic)

    def walk(self) -> Iterator[Topic]:
        """Walk over all topics: see `Chunked.walk`."""
        return self._all.walk()

    def hand_over(self, state: TopicState, indexes: Iterable[int], *, anew: bool = False) -> list[Partition]:
        """Replace partitions whose leaders have new epochs; return the old objects, which refuse appends.

        The caller wakes the readers of the partitions later. `anew`: read the log again, because the old leader died.
        """
        topic = self.by_id[state.topic_id]
        left: list[Partition] = []
        for index in indexes:
            old = topic.partitions[index]
            if old is None:
                continue
            old.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            left.append(old)
            log = old.log
            if anew or log.failure is not None:
                try:
                    log = self._logs.reopen(topic.name, index)
                except (DamagedLog, LogOffline):
                    topic.partitions[index] = None  # the log manager has reported why; opening is tried again
                    continue
            epoch = max(state.leader_epoch(index), old.leader_epoch + 1)
            with suppress(LogOffline):  # the next append raises the error
                log.begin_epoch(epoch)
            topic.partitions[index] = Partition(topic.name, topic.topic_id, index, epoch, log)
        self.leaders = dict(self.leaders)
        self._set_leaders(topic)
        return left

    def open_led_partition(self, state: TopicState, index: int) -> None:
        """Open the log of a partition that this node leads, once its files exist. Raises DamagedLog or LogOffline."""
        topic = self.by_id[state.topic_id]
        topic.partitions[index] = self._open_one(state, index, self._config_of(state.name))
        self._set_leaders(topic)

    def is_here(self, name: str, index: int) -> bool:
        """Whether this process has the log of a partition, or should have it."""
        return not self.is_one_of_several or self.partition(name, index) is not None

    def release_partitions(self, moved: Mapping[TopicState, Iterable[int]], node_id: int) -> list[Partition]:
        """Replace partitions that `node_id` (this process) leads in a new epoch. Returns the lost partitions."""
        left: list[Partition] = []
        for state, indexes in moved.items():
            topic = self.by_id[state.topic_id]
            for index in indexes:
                old = topic.partitions[index]
                if old is None:
                    continue
                if state.partitions[index].leader == node_id:
                    self.hand_over(state, [index])
                    old.wake()
                else:
                    old.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    left.append(old)
                    topic.partitions[index] = None
        if moved:
            self.leaders = dict(self.leaders)
        for state in moved:
            self._set_leaders(self.by_id[state.topic_id])
        return left

    def lost(self, broker_id: int) -> None:
        """Refuse everything in the partitions that a dead broker led, until another broker leads them."""
        for name, leaders in self.leaders.items():
            partitions = self.by_name[name].partitions
            for partition, leader in zip(partitions, leaders, strict=False):
                if partition is not None and leader.broker_id == broker_id:
                    partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def configure(self, topic: Topic) -> LogConfig:
        """Give the logs of a topic their config. Returns the config, for logs that are opened later."""
        config = self._config_of(topic.name)
        for partition in topic.partitions:
            if partition is not None:
                partition.log.config = config
        return config

    def forget(self, topic: Topic) -> None:
        """Remove a deleted topic from the topics that can be found. The logs of the topic stay open."""
        del self.by_name[topic.name], self.by_id[topic.topic_id], self.leaders[topic.name]
        self._all.remove(topic.name)

    def leaders_of(self, name: str) -> Sequence[Leader]:
        """Return the leaders of a topic's partitions; an empty tuple when the topic does not exist."""
        return self.leaders.get(name, ())

    def _set_leaders(self, topic: Topic) -> None:
        """Note the leaders. Partitions with the same leader and epoch share one object: a topic may have 10,000."""
        leaders = [
            (state.leader, topic.leader_epoch(index) if partition is None else partition.leader_epoch)
            for index, (partition, state) in enumerate(zip(topic.partitions, topic.state.partitions, strict=False))
        ]
        shared = {leader: Leader(*leader) for leader in {*leaders}}
        self.leaders[topic.name] = tuple(map(shared.__getitem__, leaders))

    def _open_one(self, state: TopicState, index: int, config: LogConfig) -> Partition:
        return self.open_partition(state.name, state.topic_id, index, state.leader_epoch(index), config)

    def open_partition(self, name: str, topic_id: bytes, index: int, leader_epoch: int, config: LogConfig) -> Partition:
        """Open the log of a partition that is on this disk, or is new. Raises DamagedLog or LogOffline."""
        synced = self.waits_for_sync(name)
        log = self._logs.open_log(name, index, config=config, topic_id=topic_id, wait_for_sync=synced)
        log.config = config
        # a copied log, or a log whose metadata log has lost records, may have later leader epochs than the state
        least_epoch = log.leader_epoch + 1 if log.leader_epoch >= 0 else 0
        return Partition(name, topic_id, index, max(leader_epoch, least_epoch), log)

    def partition(self, name: str, index: int) -> Partition | None:
        """Return a partition; None when it does not exist or its log cannot be opened."""
        topic = self.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def reopen(self, name: str, index: int) -> Partition:
        """Return a partition. If its log has failed, open the log again. Raises DamagedLog, LogOffline."""
        topic = self.by_name[name]
        partition = topic.partitions[index]
        if partition is None and self.is_one_of_several:
            raise LogOffline(f"{name}-{index}", "the log is not on this node now", is_reported=True)
        if partition is None:
            damage = self._logs.offline.get((name, index))
            if damage is not None:
                raise damage
            held = self._logs.get(name, index)
            if held is not None and held.failure is not None:
                self._logs.reopen(name, index)
            partition = topic.partitions[index] = self._open_one(topic.state, index, self._config_of(name))
            self._set_leaders(topic)
        elif partition.log.failure is not None:
            partition.use_log(self._logs.reopen(name, index))
        return partition

    def open_log(self, name: str, index: int) -> tuple[UnifiedLog, int]:
        """Return the log of a partition as `reopen` does, and the epoch of its leader. Raises as `reopen`."""
        partition = self.reopen(name, index)
        return partition.log, partition.leader_epoch

    def failed_logs(self) -> Found:
        """Find the logs that are offline and may be tried again. Of very many partitions, each call checks a part."""
        checked = paused = 0
        first = next(self._to_check, None)
        if first is None:
            self._to_check = self.walk()
        for topic in self._to_check if first is None else chain((first,), self._to_check):
            if topic.name in _OF_SHARDS:
                continue
            checked += len(topic.partitions)
            if checked - paused >= CHECKED_IN_A_STEP:
                paused = checked
                yield None
            for index, partition in enumerate(topic.partitions):
                if index and not index % CHECKED_IN_A_STEP:
                    yield None
                # this runs each second for each partition: these two checks suffice for nearly all
                if partition is None and self.is_one_of_several:
                    continue
                if partition is not None and partition.log.failure is None:
                    continue
                if (topic.name, index) not in self._logs.offline:
                    yield topic.name, index, partial(self.reopen, topic.name, index)
            if checked >= CHECKED_AT_ONCE:
                return
