"""The lags in DescribeShareGroupOffsets, also of partitions that other processes of a cluster lead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tests.coordinator.topics.support import batch, produce
from tests.support.muster import Client, running
from tests.support.share_members import ACCEPT, share_member


class Peers:
    """Another process, which leads the partition t-0. Its log ends at `end`."""

    end = 12

    def leads(self, topic: str, index: int) -> int | None:
        return 7 if (topic, index) == ("t", 0) else None

    def ask_ends(
        self, node_id: int, places: Sequence[tuple[str, int]], respond: Callable[[Sequence[int]], object]
    ) -> None:
        assert (node_id, places) == (7, [("t", 0)])
        respond([self.end])


async def lags(client: Client) -> list[int]:
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("g", None)])
    (group,) = (await client.ask(request)).groups
    return [row.lag for topic in group.topics for row in topic.partitions]


async def test_the_leader_of_another_process_is_asked_for_the_end() -> None:
    async with running(topics=["t:2"]) as server:
        for index in range(2):
            partition = server.topics.open.partition("t", index)
            assert partition is not None
            produce(partition, batch(b"a", b"b", b"c"), server.clock.now())
        async with share_member(server, "g", "w", "t") as member:
            got: set[int] = set()
            while len(got) < 2:
                for index, *_ in await member.fetch():
                    got.add(index)
                    assert await member.acknowledge({index: [(0, 1, ACCEPT)]}) == [0]
            assert await lags(member.client) == [1, 1]
            peers = server.node.peers = Peers()
            assert await lags(member.client) == [10, 1]
            peers.end = -1
            assert await lags(member.client) == [-1, 1]
            server.node.peers = None
