from __future__ import annotations

from collections.abc import Iterator

from muster.coordinator.runtime.routing import LeaderShards, Leaderships
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.topics.cluster_image import Leader


class Shard:
    """A shard that notes its calls."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.seen: list[str] = []

    def start(self) -> Iterator[None]:
        self.seen.append("started")
        return iter((None,))

    def resign(self, error_code: int = 0, *, gradually: bool = False) -> None:
        del error_code
        self.seen.append("resigned gradually" if gradually else "resigned")

    def drop(self) -> None:
        self.seen.append("dropped")


def test_a_shard_is_active_while_its_node_leads_under_the_same_epoch() -> None:
    shards = [Shard(0), Shard(1)]
    leaderships = Leaderships(7, shards, ManualClock(), "groups")
    first = [Leader(7, 4), Leader(8, 0)]
    leaderships.leave(first)
    leaderships.take(first)
    leaderships.take(first)
    assert [shard.seen for shard in shards] == [["resigned", "started"], ["resigned"]]
    then = [Leader(7, 6), Leader(7, 1)]  # the node was registered again, and got the other partition
    leaderships.leave(then)
    leaderships.take(then)
    assert [shard.seen[1:] for shard in shards] == [["started", "resigned gradually", "started"], ["started"]]
    leaderships.drop()
    assert leaderships.held == {}
    assert [shard.seen[-1] for shard in shards] == ["dropped", "dropped"]


def test_the_shard_of_the_leader_is_found() -> None:
    leaders = [Leader(1, 0), Leader(2, 0), Leader(-1, 3)]
    shards = {1: ["1-0", "1-1", "1-2"], 2: ["2-0", "2-1", "2-2"]}
    leader_shards = LeaderShards(lambda: leaders, {one: (lambda of=of: of) for one, of in shards.items()}, 1)
    assert [leader_shards[0], leader_shards[1], leader_shards[2]] == list(leader_shards) == ["1-0", "2-1", "1-2"]
    shards[2].clear()
    assert list(leader_shards) == []
