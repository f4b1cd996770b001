"""Finds the shard of a key, by Kafka's hash, and the shards that are active on a node.

`BoundedNames` remembers names that clients choose. `check_placement` logs names on wrong partitions, as after a copy
from another cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import structlog

from muster.coordinator.runtime.loader import Loader
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.cluster_image import Leader
from muster.protocol.hashing import group_partition, partitions_of

if TYPE_CHECKING:
    from muster.coordinator.runtime.shard import CoordinatorShard

K = TypeVar("K")
V = TypeVar("V")


class BoundedNames(dict[K, V]):
    """A dictionary for `keep` to fill. `keep` clears the dictionary when it becomes too large."""

    __slots__ = ("_bytes", "_max_bytes", "_max_entries")

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        """`max_bytes`: the limit for all names together."""
        super().__init__()
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0

    def keep(self, key: K, value: V, size: int) -> None:
        """Remember a new entry, whose name has `size` bytes."""
        self._bytes += size
        if len(self) >= self._max_entries or self._bytes > self._max_bytes:
            self.clear()
            self._bytes = size
        self[key] = value


_KEPT: Final = 100_000
"""How many keys are remembered with their shard: hashing a key takes 2 us, a whole heartbeat takes 14 us."""
_KEPT_CHARACTERS: Final = 4_000_000
"""How many characters all remembered keys together may have. One character takes up to 4 bytes."""

T = TypeVar("T")


class Routing(Generic[T]):
    """The shards of one coordinator on this node. As on Kafka, the number of shards never changes at run time."""

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


log = structlog.get_logger("muster.server")

CHECKED: Final = 100
"""How many names of each partition are checked. If one name is on a wrong partition, nearly all names are."""
MAX_COUNTED: Final = 10_000
"""How many names of each partition are counted when some names are on a wrong partition."""


def check_placement(names: Sequence[Iterable[str]], what: str, topic: str, number: str, lost: str) -> None:
    """Log one line if names are on wrong partitions. `names`: the names in each partition of `topic`.

    `what`: the plural noun for the names ("groups"). `number`: the property that sets the number of partitions. `lost`:
    the consequence ("their offsets cannot be found").
    """
    count = len(names)
    found = [(name, index) for index, here in enumerate(names) for name in islice(here, CHECKED)]
    if all(group_partition(name, count) == index for name, index in found):
        return
    every = [(name, index) for index, here in enumerate(names) for name in islice(here, MAX_COUNTED)]
    probably = partitions_of(found)
    log.error(
        f"{what} are in wrong partitions of {topic}, where no node looks for them: {lost}",
        misplaced=sum(group_partition(name, count) != index for name, index in every),
        looked_at=len(every),
        partitions=count,
        written_with=probably or "different numbers of partitions",
        what_to_do=f"stop, put the folders of {topic} into a data directory of their own and start there "
        + (f"with {number}={probably}" if probably else "those of one cluster only"),
    )


LOAD_AT_ONCE_MS: Final = 5
"""How long a node loads new shards without a pause. Then one step runs in each iteration of the event loop."""

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Leaderships:
    """The active shards of a node. `held`: the shards' leader epochs, by partition."""

    def __init__(
        self,
        node_id: int,
        shards: Sequence[CoordinatorShard[Any]],
        clock: Clock,
        what: str,
        is_here: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """`shards`: one for each partition, in order. `what`: the noun for the shards' content, for log lines.

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
        """Let shards resign whose partitions the node no longer leads, or leads with another epoch."""
        for partition, epoch in [*self.held.items()]:
            if leaders[partition] != (self._node_id, epoch):
                del self.held[partition]
                self._shards[partition].resign(gradually=True)

    def drop(self) -> None:
        """Drop the state of all shards, without any answers: the node has died."""
        self.held.clear()
        for shard in self._shards:
            shard.drop()

    def new(self, leaders: Sequence[Leader]) -> Iterator[CoordinatorShard[Any]]:
        """The shards whose partitions the node leads now and did not lead before. The caller must start each shard."""
        for shard in self._shards:
            leader = leaders[shard.partition]
            if leader.broker_id != self._node_id or shard.partition in self.held:
                continue
            if self._is_here(shard.partition):
                self.held[shard.partition] = leader.epoch
                yield shard

    def take(self, leaders: Sequence[Leader]) -> None:
        """Start the shards of the partitions that the node leads now and did not lead before."""
        loader = Loader(self._clock, self._what, lambda: None)
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
        """`shards`: by node id, each node's shards. `first`: the node that answers if there is no leader."""
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
