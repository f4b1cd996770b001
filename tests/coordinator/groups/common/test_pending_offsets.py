"""The offsets of open transactions: the order of the records decides which offset counts, as on Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.common.image import NO_TOPICS
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import ENDED_IN_A_STEP, GroupCore
from muster.coordinator.state_machine.interface import Decoded, EndTransaction, Now, TransactionalBatch
from muster.coordinator.system.jobs import at_once
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.coordinator.groups.harness import GroupHarness
from tests.support.opcodes import instructions

NOW = Now(0, 1_000)


def commit(offset: int, partition: int = 0, group: str = "g") -> Decoded:
    return OffsetCommitKey(group, "t", partition), OffsetCommitValue(offset, metadata="m")


class Log:
    """A core, and the offsets that its log gives."""

    def __init__(self) -> None:
        self.core = GroupCore(GroupSettings(), NO_TOPICS)
        self.offsets = self.core.state.offsets

    def plain(self, *records: Decoded) -> None:
        assert self.core.replay(records, NOW) == len(records)

    def pending(self, producer_id: int, *records: Decoded, ms: int = 5) -> None:
        assert self.core.replay_transactional(TransactionalBatch(producer_id, 3, ms, records), NOW) == len(records)

    def end(self, producer_id: int, is_committed: bool = True) -> None:
        at_once(self.core.end_transaction(EndTransaction(producer_id, 3, is_committed), NOW))

    def found(self, group: str = "g") -> dict[int, int]:
        rows = self.offsets.topics(group).get("t", {})
        return {partition: self.offsets.get(group, "t", partition).offset for partition in rows}

    def unstable(self, *partitions: int) -> list[bool]:
        return [self.offsets.is_unstable("g", "t", partition) for partition in partitions]


@pytest.fixture
def log() -> Log:
    return Log()


def test_offsets_of_a_transaction_count_from_its_commit_marker_on(log: Log) -> None:
    log.pending(7, commit(5), commit(6, 1))
    assert (log.found(), log.unstable(0, 1, 2)) == ({}, [True, True, False])
    assert list(log.core.state.groups) == ["g"]
    log.end(7)
    assert (log.found(), log.unstable(0, 1)) == ({0: 5, 1: 6}, [False, False])
    value = log.offsets.get("g", "t", 0)
    assert value is not None
    assert value.metadata == "m"


def test_offsets_of_an_aborted_transaction_never_count(log: Log) -> None:
    log.pending(7, commit(5))
    log.end(7, is_committed=False)
    log.end(7)
    assert (log.found(), log.unstable(0)) == ({}, [False])
    assert not log.offsets.has_open_transaction("g")


def test_each_producer_ends_only_its_own_pending_offsets(log: Log) -> None:
    log.pending(7, commit(5))
    log.pending(8, commit(6, 1), commit(7))
    log.end(7, is_committed=False)
    assert (log.found(), log.unstable(0, 1)) == ({}, [True, True])
    log.end(8)
    assert log.found() == {0: 7, 1: 6}


def test_a_later_plain_commit_wins_over_a_pending_offset(log: Log) -> None:
    log.pending(7, commit(5), commit(5, 1))
    log.plain(commit(6), commit(1, 9))
    assert log.unstable(0, 9) == [True, False]
    log.end(7)
    assert log.found() == {0: 6, 1: 5, 9: 1}


def test_an_earlier_plain_commit_is_replaced_when_the_transaction_commits(log: Log) -> None:
    log.plain(commit(6))
    log.pending(7, commit(5))
    log.pending(7, commit(4))
    log.end(7)
    assert log.found() == {0: 4}


def test_the_order_of_the_pending_offsets_decides_and_not_the_order_of_the_markers(log: Log) -> None:
    log.pending(7, commit(5))
    log.pending(8, commit(6))
    log.end(8)
    log.end(7)
    assert log.found() == {0: 6}
    log.pending(7, commit(7))
    log.pending(8, commit(8))
    log.end(7)
    assert log.found() == {0: 7}
    log.end(8)
    assert log.found() == {0: 8}


def test_a_tombstone_of_an_offset_drops_its_pending_offsets(log: Log) -> None:
    log.plain(commit(1))
    log.pending(7, commit(5), commit(6, 1))
    log.pending(8, commit(7))
    log.plain((OffsetCommitKey("g", "t", 0), None))
    assert (log.found(), log.unstable(0, 1)) == ({}, [False, True])
    log.pending(8, commit(9, 3, "h"))
    log.end(8)
    log.end(7)
    assert (log.found(), log.found("h")) == ({1: 6}, {3: 9})


def test_records_of_other_types_in_a_transaction_count_at_once(log: Log) -> None:
    record = GroupMetadataKey("new"), GroupMetadataValue("consumer", 5, "range", "l", members=[])
    log.pending(7, record, (OffsetCommitKey("g", "t", 0), None))
    assert list(log.core.state.groups) == ["new"]


def test_open_transactions_are_listed_until_they_end(log: Log) -> None:
    log.pending(7, commit(5), ms=11)
    log.pending(9, commit(6, 2), ms=12)
    log.pending(7, commit(5, 1), ms=13)
    found = [
        (one.producer_id, one.producer_epoch, one.newest_ms, list(one.offsets)) for one in log.core.open_transactions()
    ]
    assert found == [(7, 3, 13, [("g", ("t", 0)), ("g", ("t", 1))]), (9, 3, 12, [("g", ("t", 2))])]
    log.end(7)
    assert [one.producer_id for one in log.core.open_transactions()] == [9]


@pytest.mark.parametrize(
    "request_",
    [
        DeleteGroupsRequest(["g"]),
        OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(n) for n in range(3)])]),
    ],
)
def test_deleting_offsets_drops_their_pending_offsets(request_: Any) -> None:
    harness = GroupHarness()
    harness.commit()
    batch = TransactionalBatch(7, 0, 5, [commit(8), commit(9, 1)])
    harness.core.replay_transactional(batch, NOW)
    harness.send(request_)
    at_once(harness.core.end_transaction(EndTransaction(7, 0, True), NOW))
    assert harness.core.state.offsets.topics("g") == {}


def test_a_large_transaction_ends_in_steps_and_what_is_committed_between_them_stays(log: Log) -> None:
    count = 2 * ENDED_IN_A_STEP
    log.pending(7, *(commit(5, partition) for partition in range(count)))
    log.pending(8, *(commit(6, partition) for partition in range(count)))
    job = log.core.end_transaction(EndTransaction(7, 3, True), NOW)
    next(job)
    first, second, third = ENDED_IN_A_STEP - 1, ENDED_IN_A_STEP, ENDED_IN_A_STEP + 1
    assert (log.found().get(first), log.found().get(second)) == (5, None)
    log.plain(commit(9, first), commit(9, second))
    log.plain((OffsetCommitKey("g", "t", third), None))
    log.pending(7, commit(10, 0))  # the same producer begins the next transaction
    (event,) = at_once(job)
    assert event.facts["offsets"]["t"].keys() == set(range(count)) - {second, third}
    found = log.found()
    assert (found[0], found[first], found[second], found[count - 1]) == (5, 9, 9, 5)
    assert third not in found
    # its commits are newer than those of the first transaction, and older than the commits between the steps
    log.end(8)
    found = log.found()
    assert (found[0], found[first], found[second], found[count - 1]) == (6, 9, 9, 6)
    log.end(7)
    assert log.found()[0] == 10
    assert not log.offsets.pending.transactions_of
    assert not log.offsets.pending._replaced


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_end_of_a_transaction_costs_the_same_whatever_others_have_committed_there(
    log: Log, is_committed: bool
) -> None:
    for producer_id in range(100):
        log.pending(producer_id, *(commit(producer_id, partition) for partition in range(20)))
    first = instructions(lambda: log.end(0, is_committed))
    for producer_id in range(1, 99):
        log.end(producer_id, is_committed)
    assert first < 1.2 * instructions(lambda: log.end(99, is_committed))
