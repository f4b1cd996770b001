"""One topic of this node, with its open partitions. It opens nothing and writes nothing."""

from __future__ import annotations

from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_state import TopicState
from muster.coordinator.topics.names import INTERNAL_TOPICS
from muster.coordinator.topics.partition import Partition
from muster.protocol.errors import ErrorCode


class Topic:
    """One topic and its partitions in order; a partition whose log cannot be opened is None."""

    __slots__ = ("internal", "is_shared", "name", "partitions", "state", "topic_id")

    def __init__(self, state: TopicState, *, is_shared: bool = False) -> None:
        """`is_shared`: other processes lead some of its partitions; these are None here too."""
        self.is_shared = is_shared
        self.state = state
        self.name = state.name
        self.topic_id = state.topic_id
        self.internal = state.name in INTERNAL_TOPICS
        self.partitions: list[Partition | None] = []

    def is_online(self, index: int) -> bool:
        """Whether the log of an existing partition works, here or in another process that leads it.

        A partition without such a log has no leader.
        """
        partition = self.partitions[index]
        return self.is_shared if partition is None else partition.log.failure is None

    def leader_epoch(self, index: int) -> int:
        """The epoch of the leader of an existing partition."""
        partition = self.partitions[index]
        return self.state.leader_epoch(index) if partition is None else partition.leader_epoch

    def existing(self, index: int) -> Partition:
        """The partition of this index; raises `ApiError`: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR."""
        if not 0 <= index < len(self.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = self.partitions[index]
        if partition is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return partition
