"""Which shards of one node are active: those of the partitions that the node leads, each for one leader epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from muster.coordinator.runtime.loader import Loader
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.cluster_image import Leader

LOAD_AT_ONCE_MS: Final = 5
"""How long shards that a node takes over load at once. The rest loads one step in each iteration of the event loop."""

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Shard(Protocol):
    """A shard of a coordinator."""

    @property
    def partition(self) -> int:
        """The number of its partition."""

    def start(self) -> Iterator[None]:
        """See `shard.CoordinatorShard`."""

    def resign(self, error_code: int = ..., *, in_turns: bool = ...) -> None:
        """See `shard.CoordinatorShard`."""

    def drop(self) -> None:
        """See `shard.CoordinatorShard`."""


class Leaderships:
    """See the module. `held`: the leader epochs of the active shards, by partition."""

    def __init__(
        self,
        node_id: int,
        shards: Sequence[Shard],
        clock: Clock,
        what: str,
        is_here: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """`shards`: one for each partition, in order; `what` they hold, for log lines.

        `is_here`: whether the log of a partition that this node leads can be read.
        """
        self._is_here = is_here
        self.held: dict[int, int] = {}
        self._node_id = node_id
        self._shards = shards
        self._clock = clock
        self._what = what
        for shard in shards:
            shard.resign()  # no shard is active yet

    def leave(self, leaders: Sequence[Leader]) -> None:
        """The shards that the node leads no more, or leads with another epoch, resign: their parked requests are
        answered.
        """
        for partition, epoch in [*self.held.items()]:
            if leaders[partition] != (self._node_id, epoch):
                del self.held[partition]
                self._shards[partition].resign(in_turns=True)

    def drop(self) -> None:
        """The node has died: its shards lose their state, and nothing is answered."""
        self.held.clear()
        for shard in self._shards:
            shard.drop()

    def new(self, leaders: Sequence[Leader]) -> Iterator[Shard]:
        """The shards that become active now. The caller must start each of them."""
        for shard in self._shards:
            leader = leaders[shard.partition]
            if leader.broker_id != self._node_id or shard.partition in self.held:
                continue
            if self._is_here(shard.partition):
                self.held[shard.partition] = leader.epoch
                yield shard

    def take(self, leaders: Sequence[Leader]) -> None:
        """Start the shards of the partitions that the node leads now and did not lead before."""
        loader = Loader(self._clock, self._what, _nothing)
        for shard in self.new(leaders):
            loader.add(shard.start(), 0)
        loader.run_for(LOAD_AT_ONCE_MS)


class ByPartition(Protocol[S_co]):
    """One shard for each partition."""

    def __len__(self) -> int:
        """The number of partitions."""

    def __getitem__(self, partition: int, /) -> S_co:
        """The shard of a partition."""

    def __iter__(self) -> Iterator[S_co]:
        """All shards, in order."""


class LeaderShards(Generic[S]):
    """The shards of the nodes that lead, by partition, for requests between brokers."""

    def __init__(
        self, leaders: Callable[[], Sequence[Leader]], shards: Mapping[int, Callable[[], Sequence[S]]], first: int
    ) -> None:
        """`shards`: the shards of each node, by its id.

        `first`: the node that answers, without being active, for a partition without a leader.
        """
        self._leaders = leaders
        self._shards = shards
        self._first = first

    def __len__(self) -> int:
        return len(self._leaders())

    def __getitem__(self, partition: int) -> S:
        of_leader = self._shards.get(self._leaders()[partition].broker_id, self._shards[self._first])
        return of_leader()[partition]

    def __iter__(self) -> Iterator[S]:
        """All shards; none while a node has no shards yet."""
        if any(not shards() for shards in self._shards.values()):
            return
        for partition in range(len(self)):
            yield self[partition]


def _nothing() -> None:
    pass
