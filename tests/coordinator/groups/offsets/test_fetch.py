from __future__ import annotations

from muster.coordinator.state_machine.interface import EndTransaction, TransactionalBatch
from muster.coordinator.system.jobs import at_once
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.coordinator.groups.harness import GroupHarness

Rows = list[tuple[str, list[tuple[int, int]]]]


def fetch(
    harness: GroupHarness, *groups: tuple[str, list[tuple[str, list[int]]] | None], stable: bool = False
) -> list[Rows]:
    asked = [
        OffsetFetchRequestGroup(
            group_id,
            None,
            -1,
            None if topics is None else [OffsetFetchRequestTopics(name, ZERO_UUID, rows) for name, rows in topics],
        )
        for group_id, topics in groups
    ]
    reply = harness.send(OffsetFetchRequest(groups=asked, require_stable=stable))
    assert [one.group_id for one in reply.groups] == [group_id for group_id, _ in groups]
    assert [one.error_code for one in reply.groups] == [0] * len(groups)
    return [
        [(t.name, [(p.partition_index, p.error_code or p.committed_offset) for p in t.partitions]) for t in one.topics]
        for one in reply.groups
    ]


def test_an_offset_fetch_of_unknown_groups_and_partitions_is_no_error() -> None:
    harness = GroupHarness()
    assert fetch(harness, ("nobody", [("t", [0, 7]), ("none", [3])])) == [
        [("t", [(0, -1), (7, -1)]), ("none", [(3, -1)])]
    ]
    assert fetch(harness, ("nobody", None)) == fetch(harness, ("nobody", [])) == [[]]
    row = harness.fetch(group="nobody")
    assert (row.committed_leader_epoch, row.metadata, row.error_code) == (-1, "", 0)
    assert harness.core.state.groups == {}


def test_an_offset_fetch_keeps_order_and_duplicates_of_its_rows() -> None:
    harness = GroupHarness()
    harness.commit(partition=1, offset=1)
    harness.commit(partition=0, offset=9)
    want = [[("t", [(1, 1), (0, 9), (1, 1)]), ("t", [(0, 9)])]]
    assert fetch(harness, ("g", [("t", [1, 0, 1]), ("t", [0])])) == want


def test_a_fetch_of_all_topics_returns_every_committed_offset() -> None:
    harness = GroupHarness()
    harness.commit(partition=1, offset=1)
    harness.commit(topic="u", offset=2)
    harness.commit(partition=1, offset=3)
    assert fetch(harness, ("g", None)) == [[("t", [(1, 3)]), ("u", [(0, 2)])]]


def test_one_offset_fetch_serves_several_groups() -> None:
    harness = GroupHarness()
    harness.commit(group="g", offset=1)
    harness.commit(group="h", offset=2)
    row = [("t", [0])]
    assert fetch(harness, ("h", row), ("g", row), ("h", None)) == [
        [("t", [(0, 2)])],
        [("t", [(0, 1)])],
        [("t", [(0, 2)])],
    ]


def test_an_offset_of_a_topic_with_another_id_is_not_shown() -> None:
    harness = GroupHarness()
    harness.commit()
    for topic_id, offset in ((b"T" * 16, 5), (b"X" * 16, -1), (ZERO_UUID, 5)):
        topics = [OffsetFetchRequestTopics("t", topic_id, [0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, topics)])
        topic = harness.send(request).groups[0].topics[0]
        assert (topic.topic_id, topic.partitions[0].committed_offset) == (topic_id, offset)


def test_an_unstable_offset_is_refused_only_if_stable_offsets_are_required() -> None:
    harness = GroupHarness()
    harness.commit()
    places = [("g", 0), ("g", 3), ("h", 1)]
    rows = [(OffsetCommitKey(group, "t", partition), OffsetCommitValue(9)) for group, partition in places]
    harness.core.replay_transactional(TransactionalBatch(7, 0, 0, rows), harness.now)
    assert fetch(harness, ("g", [("t", [0])])) == [[("t", [(0, 5)])]]
    assert fetch(harness, ("g", [("t", [0])]), stable=True) == [[("t", [(0, ErrorCode.UNSTABLE_OFFSET_COMMIT)])]]
    assert fetch(harness, ("g", None), stable=True) == [[("t", [(0, ErrorCode.UNSTABLE_OFFSET_COMMIT)])]]
    offsets = harness.core.state.offsets
    assert [offsets.has_open_transaction(group) for group in "ghi"] == [True, True, False]
    at_once(harness.core.end_transaction(EndTransaction(7, 0, False), harness.now))
    assert not offsets.has_open_transaction("g")
    assert fetch(harness, ("g", [("t", [0])]), stable=True) == [[("t", [(0, 5)])]]
