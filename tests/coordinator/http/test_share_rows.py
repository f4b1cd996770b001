"""Share groups among the rows of a running server: start offsets and lags."""

from __future__ import annotations

from muster.coordinator.http.server_rows import group_rows
from muster.coordinator.server.group_snapshots import GroupNow
from tests.coordinator.topics.support import batch, produce
from tests.support.muster import running
from tests.support.share_members import ACCEPT, share_member


async def test_a_share_group_has_start_offsets_and_lags() -> None:
    async with running(topics=["t:1"]) as server:
        partition = server.topics.open.partition("t", 0)
        assert partition is not None
        produce(partition, batch(b"a", b"b", b"c"), server.clock.now())
        async with share_member(server, "g", "w", "t") as member:

            def rows() -> list[tuple[str, list[tuple[int, int, int | None]]]]:
                (row,) = group_rows(server)
                assert (row.group, row.kind, row.state, row.members) == ("g", "share", "Stable", 1)
                return [(topic, [*some]) for topic, some in row.offsets]

            assert rows() == [("t", [])]
            assert await member.fetch() == [(0, 0, 2, 1)]
            assert rows() == [("t", [(0, 0, 3)])]
            assert await member.acknowledge({0: [(0, 1, ACCEPT)]}) == [0]
            assert rows() == [("t", [(0, 2, 1)])]
            group = GroupNow.of(server, "g")
            assert group is not None
            assert [*group.committed()] == [("t", 0)]
            offset = {"topic": "t", "partition": 0, "offset": 2, "end_offset": 3, "lag": 1}
            assert group.offset("t", 0) == offset
            assert group.offset("t", 7) == {**offset, "partition": 7, "offset": None, "end_offset": None, "lag": None}
