"""The shards of a coordinator whose topic is created when a client first needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from muster.coordinator.runtime.loader import Loader
from muster.coordinator.runtime.routing import Leaderships, Routing
from muster.coordinator.runtime.shard import CoordinatorShard
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.cluster_image import Leader
from muster.coordinator.topics.topics import Topics


class _Shard(Protocol):
    @property
    def runtime(self) -> CoordinatorShard[Any]: ...


S = TypeVar("S", bound=_Shard)


class LateShards(Generic[S]):
    """The shards of the topic's partitions. `routing` finds the shard of a key, once the topic exists.

    `leaderships`: the active shards of this node; None while the topic does not exist.
    """

    def __init__(self, topics: Topics, clock: Clock, topic: str) -> None:
        self._topics = topics
        self._clock = clock
        self._topic = topic
        self._loader: Loader | None = None
        self.leaderships: Leaderships | None = None
        self.routing: Routing[S] = Routing(())

    def load(
        self,
        shards: Sequence[S],
        what: str,
        node_id: int,
        leaders: Callable[[], Sequence[Leader]] | None,
        loaded: Callable[[], object],
        budget_ms: int,
    ) -> None:
        """Route to these shards, and load those that this node leads: for about `budget_ms`, then in steps.

        `what`: the noun for the shards' content. `leaders` None: this node leads all partitions. `loaded` is called at
        the end.
        """
        self.routing = Routing(shards)
        is_here = partial(self._topics.open.is_here, self._topic)
        self.leaderships = Leaderships(node_id, [one.runtime for one in shards], self._clock, what, is_here)
        self._loader = Loader(self._clock, what, loaded)
        all_mine = [Leader(node_id, 0)] * len(shards)
        for shard in self.leaderships.new(all_mine if leaders is None else leaders()):
            partition = self._topics.open.partition(self._topic, shard.partition)
            self._loader.add(shard.start(), 0 if partition is None else partition.log.size_bytes)
        self._loader.run_for(budget_ms)

    def stop(self) -> None:
        """Resign from all shards: requests that wait there are answered NOT_COORDINATOR."""
        if self._loader is not None:
            self._loader.stop()
        for shard in self.routing.shards:
            shard.runtime.resign()

    def died(self) -> None:
        """Drop all shards without answers or writes, because the node has died."""
        if self._loader is not None:
            self._loader.stop()
        if self.leaderships is not None:
            self.leaderships.drop()
