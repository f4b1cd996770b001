"""Records that do not fit into one batch are refused as Kafka 4.3 refuses them, and nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.classic import records
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common import state as offset_records
from muster.coordinator.groups.common.state import pack, size_of
from muster.coordinator.groups.offsets.commit import commit_prepared, prepare_commit
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
from tests.coordinator.groups.harness import GroupHarness

TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR


def request(count: int, metadata: str = "", member: str = "", generation: int = -1) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(number, 7, 3, metadata) for number in range(count)]
    return OffsetCommitRequest("g", generation, member, topics=[OffsetCommitRequestTopic("t", bytes(16), rows)])


def commit(harness: GroupHarness, count: int, metadata: str = "") -> set[int]:
    response: Any = harness.send(request(count, metadata))
    return {row.error_code for row in response.topics[0].partitions}


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
@pytest.mark.parametrize("metadata", [0, 1, 100, 9_000])
def test_the_computed_size_is_the_size_of_the_written_batch(count: int, metadata: int) -> None:
    rows = [
        pack(offset_records.offset_commit("g", "t", n, 1, 1, "m" * metadata, 1, -1, bytes(16))) for n in range(count)
    ]
    assert size_of(rows) == len(build_packed(rows, timestamp_ms=1))


def test_a_commit_is_accepted_up_to_the_last_byte_of_the_batch_limit() -> None:
    harness = GroupHarness(offset_metadata_max_bytes=10_000)
    harness.max_bytes = 2_000
    # key and value of a record of group "g" and topic "t" have 12 and 43 bytes, without the metadata
    assert commit(harness, 1, "m" * 1_876) == {TOO_LARGE}
    assert harness.core.state.groups == {}
    assert harness.fetch().committed_offset == -1
    assert commit(harness, 1, "m" * 1_875) == {0}
    assert size_of([pack(harness.records[0])]) == 2_000
    harness.max_bytes = 1_999
    assert commit(harness, 1, "m" * 1_875) == {TOO_LARGE}


def test_a_commit_that_is_too_large_writes_no_row() -> None:
    harness = GroupHarness()
    harness.max_bytes = 2_000
    assert commit(harness, 100) == {TOO_LARGE}
    assert (harness.records, harness.core.state.groups) == ([], {})
    assert harness.kinds() == [events.REQUEST_REFUSED]
    assert commit(harness, 20) == {0}


def test_a_cached_commit_is_also_checked_against_the_batch_limit() -> None:
    harness = GroupHarness()
    state = harness.core.state
    commit(harness, 100)
    large, small = prepare_commit(state, request(100), 1_000_000), prepare_commit(state, request(2), 1_000_000)
    assert large is not None
    assert small is not None
    assert prepare_commit(state, request(100), 2_000) is None
    assert commit_prepared(harness.core.state, large, [8] * 100, [3] * 100, harness.now, 2_000) is None
    assert commit_prepared(harness.core.state, small, [8] * 2, [3] * 2, harness.now, 2_000)
    assert commit_prepared(harness.core.state, large, [9] * 100, [3] * 100, harness.now, 1_000_000)


def test_an_assignment_that_is_too_large_refuses_all_waiting_syncs_and_begins_a_rebalance() -> None:
    harness = GroupHarness()
    a, b = harness.completing()
    harness.max_bytes = 2_000
    assert harness.sync(b) is None
    waiting = harness.asked
    assert harness.sync(a, {a: b"x" * 3_000, b: b"y"}).error_code == TOO_LARGE
    assert harness.reply(waiting).error_code == TOO_LARGE
    assert harness.group().state == "PreparingRebalance"
    assert harness.group().members[b].assignment == b""
    assert harness.beat(a) == harness.beat(b) == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.events[-1].kind == events.REBALANCE_STARTED
    assert harness.events[-1].facts["cause"] == events.ASSIGNMENT_TOO_LARGE
    assert harness.events[-1].facts["trigger"].member == a
    harness.join(a)
    harness.join(b)
    assert harness.sync(a, {a: b"x" * 1_500, b: b"y"}).error_code == 0


def test_an_assignment_that_alone_is_too_large_is_refused_without_packing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An assignment of 31 MB was once copied three times in one step before it was refused."""
    harness = GroupHarness()
    a, _ = harness.completing()
    harness.max_bytes = 2_000
    packed: list[Any] = []

    def counted(record: Any) -> bytes:
        packed.append(record)
        return pack(record)

    monkeypatch.setattr(offset_records, "pack", counted)
    assert harness.sync(a, {a: b"x" * 2_001}).error_code == TOO_LARGE
    assert packed == []
    harness.join(a)


@pytest.mark.parametrize("leads", [True, False])
def test_a_static_member_whose_return_does_not_fit_into_a_batch_keeps_its_old_id(leads: bool) -> None:
    harness = GroupHarness()
    a, b = harness.stable(static=True)
    back = "i0" if leads else "i1"
    harness.max_bytes = size_of([pack(records.group_metadata(harness.group()))]) - 1
    refused = harness.join(instance=back)
    assert (refused.error_code, refused.member_id) == (TOO_LARGE, "")
    assert harness.beat(a, instance="i0") == harness.beat(b, instance="i1") == 0
    assert harness.group().state == "Stable"
    harness.max_bytes += 500
    assert harness.join(instance=back).error_code == 0


def test_a_group_whose_name_does_not_fit_into_a_batch_is_not_created() -> None:
    harness = GroupHarness()
    harness.max_bytes = 2_000
    name = "g" * 2_500
    assert harness.join(group=name).error_code == TOO_LARGE
    assert harness.join(group=name, instance="i", needs_id=True).error_code == TOO_LARGE
    given = harness.join(group=name, needs_id=True)
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert harness.join(given.member_id, group=name).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (harness.records, harness.core.state.groups) == ([], {})


def test_offset_deletions_that_do_not_fit_into_a_batch_delete_nothing() -> None:
    harness = GroupHarness()
    commit(harness, 100)
    harness.commit(group="h")
    harness.max_bytes = 1_500
    rows = [OffsetDeleteRequestPartition(number) for number in range(100)]
    delete = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", rows)])
    assert harness.send(delete).error_code == TOO_LARGE
    response = harness.send(DeleteGroupsRequest(["h", "g", "nobody"]))
    assert {row.group_id: row.error_code for row in response.results} == dict.fromkeys("hg", TOO_LARGE) | {
        "nobody": TOO_LARGE
    }
    assert harness.fetch(partition=99).committed_offset == 7
    assert sorted(harness.core.state.groups) == ["g", "h"]
    assert harness.send(DeleteGroupsRequest(["h", "nobody"])).results[0].error_code == 0
    harness.max_bytes = 1_000_000
    assert harness.send(delete).error_code == 0
    assert harness.fetch(partition=99).committed_offset == -1
