"""What does not fit into one batch is refused as Kafka refuses it (each of these was asked of a Kafka 4.3), and nothing
has changed.
"""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.classic import records
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common import records as offset_records
from muster.coordinator.groups.common.records import pack, size_of
from muster.coordinator.groups.offsets.commit import prepare_commit
from muster.coordinator.log.records.building import build_packed
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.coordinator.groups.harness import Room

TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR


def request(count: int, metadata: str = "", member: str = "", generation: int = -1) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(number, 7, 3, metadata) for number in range(count)]
    return OffsetCommitRequest("g", generation, member, topics=[OffsetCommitRequestTopic("t", bytes(16), rows)])


def commit(room: Room, count: int, metadata: str = "") -> set[int]:
    response: Any = room.send(request(count, metadata))
    return {row.error_code for row in response.topics[0].partitions}


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
@pytest.mark.parametrize("metadata", [0, 1, 100, 9_000])
def test_the_size_is_that_of_the_batch(count: int, metadata: int) -> None:
    rows = [
        pack(offset_records.offset_commit("g", "t", n, 1, 1, "m" * metadata, 1, -1, bytes(16))) for n in range(count)
    ]
    assert size_of(rows) == len(build_packed(rows, timestamp_ms=1))


def test_a_commit_to_the_last_byte() -> None:
    room = Room(offset_metadata_max_bytes=10_000)
    room.max_bytes = 2_000
    # key and value of a record of group "g" and topic "t" have 12 and 43 bytes besides the metadata
    assert commit(room, 1, "m" * 1_876) == {TOO_LARGE}
    assert room.core.state.groups == {}
    assert room.fetch().committed_offset == -1
    assert commit(room, 1, "m" * 1_875) == {0}
    assert size_of([pack(room.records[0])]) == 2_000
    room.max_bytes = 1_999
    assert commit(room, 1, "m" * 1_875) == {TOO_LARGE}


def test_all_rows_of_a_commit_or_none() -> None:
    room = Room()
    room.max_bytes = 2_000
    assert commit(room, 100) == {TOO_LARGE}
    assert (room.records, room.core.state.groups) == ([], {})
    assert room.kinds() == [events.REQUEST_REFUSED]
    assert commit(room, 20) == {0}


def test_a_commit_that_comes_again_is_measured_too() -> None:
    room = Room()
    state = room.core.state
    commit(room, 100)
    large, small = prepare_commit(state, request(100), 1_000_000), prepare_commit(state, request(2), 1_000_000)
    assert large is not None
    assert small is not None
    assert prepare_commit(state, request(100), 2_000) is None
    assert room.core.prepared_commit(large, [8] * 100, [3] * 100, room.now, 2_000) is None
    assert room.core.prepared_commit(small, [8] * 2, [3] * 2, room.now, 2_000)
    assert room.core.prepared_commit(large, [9] * 100, [3] * 100, room.now, 1_000_000)


def test_an_assignment_that_is_too_large_fails_for_all_who_wait_and_a_rebalance_begins() -> None:
    room = Room()
    a, b = room.completing()
    room.max_bytes = 2_000
    assert room.sync(b) is None
    waiting = room.asked
    assert room.sync(a, {a: b"x" * 3_000, b: b"y"}).error_code == TOO_LARGE
    assert room.reply(waiting).error_code == TOO_LARGE
    assert room.group().state == "PreparingRebalance"
    assert room.group().members[b].assignment == b""
    assert room.beat(a) == room.beat(b) == ErrorCode.REBALANCE_IN_PROGRESS
    assert room.events[-1].kind == events.REBALANCE_STARTED
    assert room.events[-1].facts["cause"] == events.ASSIGNMENT_TOO_LARGE
    assert room.events[-1].facts["trigger"].member == a
    room.join(a)
    room.join(b)
    assert room.sync(a, {a: b"x" * 1_500, b: b"y"}).error_code == 0


@pytest.mark.parametrize("leads", [True, False])
def test_a_static_member_whose_return_does_not_fit_has_not_returned(leads: bool) -> None:
    room = Room()
    a, b = room.stable(static=True)
    back = "i0" if leads else "i1"
    room.max_bytes = size_of([pack(records.group_metadata(room.group()))]) - 1
    refused = room.join(instance=back)
    assert (refused.error_code, refused.member_id) == (TOO_LARGE, "")
    assert room.beat(a, instance="i0") == room.beat(b, instance="i1") == 0
    assert room.group().state == "Stable"
    room.max_bytes += 500
    assert room.join(instance=back).error_code == 0


def test_a_group_whose_name_does_not_fit_is_not_made() -> None:
    room = Room()
    room.max_bytes = 2_000
    name = "g" * 2_500
    assert room.join(group=name).error_code == TOO_LARGE
    assert room.join(group=name, instance="i", needs_id=True).error_code == TOO_LARGE
    given = room.join(group=name, needs_id=True)
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert room.join(given.member_id, group=name).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (room.records, room.core.state.groups) == ([], {})


def test_deletions_are_all_or_none() -> None:
    room = Room()
    commit(room, 100)
    room.commit(group="h")
    room.max_bytes = 1_500
    rows = [OffsetDeleteRequestPartition(number) for number in range(100)]
    delete = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", rows)])
    assert room.send(delete).error_code == TOO_LARGE
    response = room.send(DeleteGroupsRequest(["h", "g", "nobody"]))
    assert {row.group_id: row.error_code for row in response.results} == dict.fromkeys("hg", TOO_LARGE) | {
        "nobody": TOO_LARGE
    }
    assert room.fetch(partition=99).committed_offset == 7
    assert sorted(room.core.state.groups) == ["g", "h"]
    assert room.send(DeleteGroupsRequest(["h", "nobody"])).results[0].error_code == 0
    room.max_bytes = 1_000_000
    assert room.send(delete).error_code == 0
    assert room.fetch(partition=99).committed_offset == -1
