"""Group id -> shard, as Kafka places groups on the partitions of __consumer_offsets. Decides nothing about a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.coordinator.bounded_names import Kept
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.runtime.shard import Shard
from muster.protocol.hashing import group_partition

_KEPT: Final = 100_000
"""How many group ids are remembered with their shard; hashing one anew costs about 2 us."""
_KEPT_CHARACTERS: Final = 4_000_000
"""And how many characters these have together; one takes up to 4 bytes."""


class Routing:
    """The shards of this node; one node leads them all today.

    The number of shards is taken when the server starts and never changes while it runs, as on Kafka.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        """`shards`: one per partition, in order; none while __consumer_offsets is not there."""
        self.shards: tuple[Shard, ...] = tuple(shards)
        self._known: Kept[str, Shard] = Kept(_KEPT, _KEPT_CHARACTERS)

    @property
    def ready(self) -> bool:
        """Whether __consumer_offsets is there, so that groups have coordinators."""
        return bool(self.shards)

    def partition(self, group_id: str) -> int:
        """The partition of __consumer_offsets that the group lives on."""
        return group_partition(group_id, len(self.shards))

    def shard(self, group_id: str) -> Shard:
        """The shard of a group (an existing one or not)."""
        shard = self._known.get(group_id)
        if shard is None:
            shard = self.shards[self.partition(group_id)]
            self._known.keep(group_id, shard, len(group_id))
        return shard

    def topics_changed(self, image: TopicsImage) -> None:
        """Hand a new image to every shard."""
        for shard in self.shards:
            shard.topics_changed(image)
