"""Which shards of one node are active: those of the partitions that the node leads, each for one leader epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from muster.coordinator.runtime.loader import Loader
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.cluster_image import Leader

LOAD_AT_ONCE_MS: Final = 5
"""How long shards that a node takes over load at once; what is left is loaded a step in each turn of the loop."""

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Shard(Protocol):
    """A shard of a coordinator."""

    @property
    def partition(self) -> int:
        """Its number."""

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
        """`shards`: one for each partition, in order; `what` they hold, for log lines; `is_here`: whether the log of a
        partition that is led here can be read.
        """
        self._is_here = is_here
        self.held: dict[int, int] = {}
        self._node_id = node_id
        self._shards = shards
        self._clock = clock
        self._what = what
        for shard in shards:
            shard.resign()  # none is active yet

    def leave(self, leaders: Sequence[Leader]) -> None:
        """Shards that the node leads no more, or with another epoch, resign: what waits is answered."""
        for partition, epoch in [*self.held.items()]:
            if leaders[partition] != (self._node_id, epoch):
                del self.held[partition]
                self._shards[partition].resign(in_turns=True)

    def drop(self) -> None:
        """The node has died: its shards lose what they hold, and nothing is answered."""
        self.held.clear()
        for shard in self._shards:
            shard.drop()

    def new(self, leaders: Sequence[Leader]) -> Iterator[Shard]:
        """The shards that become active now: each is to be started."""
        for shard in self._shards:
            leader = leaders[shard.partition]
            if leader.broker_id != self._node_id or shard.partition in self.held:
                continue
            if self._is_here(shard.partition):
                self.held[shard.partition] = leader.epoch
                yield shard

    def take(self, leaders: Sequence[Leader]) -> None:
        """Start the shards of what the node leads now and did not before."""
        loader = Loader(self._clock, self._what, _nothing)
        for shard in self.new(leaders):
            loader.add(shard.start(), 0)
        loader.run_for(LOAD_AT_ONCE_MS)


class ByPartition(Protocol[S_co]):
    """One shard for each partition."""

    def __len__(self) -> int:
        """How many partitions."""

    def __getitem__(self, partition: int, /) -> S_co:
        """The shard of a partition."""

    def __iter__(self) -> Iterator[S_co]:
        """All of them, in order."""


class LeaderShards(Generic[S]):
    """The shards of the nodes that lead, by partition: for what brokers ask each other."""

    def __init__(
        self, leaders: Callable[[], Sequence[Leader]], shards: Mapping[int, Callable[[], Sequence[S]]], first: int
    ) -> None:
        """`shards`: of each node, by its id. `first`: the node that answers, without being active, for a partition that
        nobody leads.
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
        """All of them; none while a node has no shards yet."""
        if any(not shards() for shards in self._shards.values()):
            return
        for partition in range(len(self)):
            yield self[partition]


def _nothing() -> None:
    pass
