"""Finds the shard of a key. Keys are group ids and transactional ids, placed on partitions as Kafka does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from muster.coordinator.system.memory import BoundedNames
from muster.protocol.hashing import group_partition

_KEPT: Final = 100_000
"""How many keys are remembered with their shard. A hash of a key costs about 2 us; a whole heartbeat costs 14 us."""
_KEPT_CHARACTERS: Final = 4_000_000
"""How many characters the remembered keys have together. One character takes up to 4 bytes."""

T = TypeVar("T")


class Routing(Generic[T]):
    """The shards of one coordinator on this node.

    The number of shards is read when the server starts and never changes while it runs, as on Kafka.
    """

    def __init__(self, shards: Sequence[T]) -> None:
        """`shards`: one per partition, in order; empty while the topic does not exist."""
        self.shards: tuple[T, ...] = tuple(shards)
        self._known: BoundedNames[str, T] = BoundedNames(_KEPT, _KEPT_CHARACTERS)

    @property
    def ready(self) -> bool:
        """Whether the topic exists, so that keys have coordinators."""
        return bool(self.shards)

    def partition(self, key: str) -> int:
        """The partition of the topic that the key belongs to."""
        return group_partition(key, len(self.shards))

    def shard(self, key: str) -> T:
        """The shard of a key."""
        shard = self._known.get(key)
        if shard is None:
            shard = self.shards[self.partition(key)]
            self._known.keep(key, shard, len(key))
        return shard
