"""Key -> shard, as Kafka places keys (ids of groups, transactional ids) on the partitions of a coordinator's topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from muster.coordinator.system.bounded_names import BoundedNames
from muster.protocol.hashing import group_partition

_KEPT: Final = 100_000
"""How many keys are remembered with their shard. To hash a key costs about 2 us; a whole heartbeat costs 14 us."""
_KEPT_CHARACTERS: Final = 4_000_000
"""And how many characters these have together; one takes up to 4 bytes."""

T = TypeVar("T")


class Routing(Generic[T]):
    """The shards of one coordinator on this node; one node leads them all today.

    The number of shards is taken when the server starts and never changes while it runs, as on Kafka.
    """

    def __init__(self, shards: Sequence[T]) -> None:
        """`shards`: one per partition, in order; none while the topic is not there."""
        self.shards: tuple[T, ...] = tuple(shards)
        self._known: BoundedNames[str, T] = BoundedNames(_KEPT, _KEPT_CHARACTERS)

    @property
    def ready(self) -> bool:
        """Whether the topic is there, so that keys have coordinators."""
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
