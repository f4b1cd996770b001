"""TxnOffsetCommit: its checks, its offsets, and the events at the end of a transaction."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.common.state import HEADER, pack, size_of
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.offsets import txn_commit
from muster.coordinator.groups.offsets.txn_commit import TxnCommitCommand
from muster.coordinator.groups.share.group import ShareGroup
from muster.coordinator.groups.streams.group import StreamsGroup
from muster.coordinator.state_machine.interface import Client, EndTransaction, TransactionalBatch
from muster.coordinator.system.jobs import at_once
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
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
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.groups.harness import TOPICS, GroupHarness, pending_of

DAY_MS = 24 * 3_600_000
UNKNOWN_MEMBER, FENCED = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


class Producers(GroupHarness):
    """A harness with producers: `txn` commits an offset in a producer's transaction, and `end` ends the transaction."""

    def txn(
        self,
        member: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        group: str = "g",
        offset: int = 5,
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = "",
        producer: int = 7,
        append_error: int = 0,
        knows_newer_errors: bool = True,
    ) -> int:
        row = TxnOffsetCommitRequestPartition(partition, offset, 3, metadata)
        topics = [TxnOffsetCommitRequestTopic(topic, partitions=[row])]
        reply = self.ask(
            TxnOffsetCommitRequest("tx", group, producer, 0, generation, member, instance, topics),
            append_error,
            knows_newer_errors=knows_newer_errors,
        )
        (got,) = reply.topics
        (answer,) = got.partitions
        assert (got.name, answer.partition_index) == (topic, partition)
        return int(answer.error_code)

    def ask(self, request: TxnOffsetCommitRequest, append_error: int = 0, *, knows_newer_errors: bool = True) -> Any:
        self.asked += 1
        command = TxnCommitCommand(request, self.asked, Client("c", "/10.0.0.1"), append_error, knows_newer_errors)
        self.collect(self.core.handle(command, self.now, self.max_bytes))
        self.settle()
        return self.reply(self.asked)

    def end(self, producer: int = 7, *, is_committed: bool = True) -> None:
        end = EndTransaction(producer, 0, is_committed)
        self.events += at_once(self.core.end_transaction(end, self.now))

    def stable_fetch(self, partition: int = 0) -> tuple[int, int]:
        topics = [OffsetFetchRequestTopics("t", ZERO_UUID, [partition])]
        reply = self.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)], require_stable=True))
        row = reply.groups[0].topics[0].partitions[0]
        return row.committed_offset, row.error_code

    def at(self, partition: int = 0) -> int:
        return int(self.fetch(partition=partition).committed_offset)


@pytest.fixture
def harness() -> Producers:
    return Producers()


def test_offsets_committed_in_a_transaction_count_from_its_end_on(harness: Producers) -> None:
    assert harness.commit(offset=1) == 0
    assert harness.txn(offset=9, metadata="m") == 0
    assert (harness.at(), harness.stable_fetch()) == (1, (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT))
    harness.end()
    row = harness.fetch()
    assert (row.committed_offset, row.committed_leader_epoch, row.metadata) == (9, 3, "m")
    assert harness.stable_fetch() == (9, 0)
    harness.txn(offset=10)
    harness.end(is_committed=False)
    assert harness.stable_fetch() == (9, 0)


def test_the_record_of_a_transactional_commit_has_the_topic_id(harness: Producers) -> None:
    topic_id = b"t" * 16
    topic = TxnOffsetCommitRequestTopic("t", topic_id, [TxnOffsetCommitRequestPartition(0, 9)])
    harness.ask(TxnOffsetCommitRequest("tx", "g", 7, 0, topics=[topic]))
    (record,) = harness.records
    value: Any = record.value
    assert (record.value_version, value.offset, value.topic_id) == (4, 9, topic_id)
    size = txn_commit.least_bytes("g", topic)
    assert size <= size_of([pack(record)]) - HEADER <= size + 8


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_a_transactional_commit_to_a_group_checks_member_generation_and_instance(
    harness: Producers, state: str
) -> None:
    a, b = harness.stable(static=True)
    if state != "Stable":
        harness.join(b, instance="i1", protocols=(("range", b"other"),))
    if state == "CompletingRebalance":
        harness.join(a, instance="i0")
    now = harness.group().generation
    assert harness.group().state == state
    assert [harness.txn(), harness.txn(a, now), harness.txn(a, now, instance="i0")] == [0, 0, 0]
    assert [harness.txn(a, now - 1), harness.txn(a, -1), harness.txn(a, now + 1, instance="i0")] == [ILLEGAL] * 3
    assert [harness.txn("ghost", now), harness.txn("", now), harness.txn(a, now, instance="j")] == [UNKNOWN_MEMBER] * 3
    assert [harness.txn("ghost", now, instance="i0"), harness.txn("", -1, instance="i0")] == [FENCED, FENCED]


def test_an_empty_group_accepts_transactional_commits_without_a_generation(harness: Producers) -> None:
    a, b = harness.stable()
    harness.leave(a)
    harness.leave(b)
    assert [harness.txn(), harness.txn("x"), harness.txn("x", instance="i")] == [0, 0, 0]
    assert harness.txn("x", 2) == UNKNOWN_MEMBER


def test_a_transactional_commit_creates_a_group_only_if_it_succeeds(harness: Producers) -> None:
    assert harness.txn("x", 0) == NOT_FOUND
    assert harness.txn("x", 0, knows_newer_errors=False) == ILLEGAL
    assert harness.core.state.groups == {}
    assert harness.txn(append_error=ErrorCode.INVALID_PRODUCER_EPOCH) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (harness.core.state.groups, harness.records) == ({}, [])
    assert harness.txn() == 0
    assert (harness.group().state, harness.group().protocol_type) == ("Empty", None)


def test_the_producer_is_checked_after_the_group(harness: Producers) -> None:
    old = ErrorCode.INVALID_PRODUCER_EPOCH
    assert harness.txn("x", 1, append_error=old) == NOT_FOUND
    assert harness.txn(metadata="x" * 4_097, append_error=old) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert harness.txn(append_error=old) == old


def test_too_much_metadata_in_a_transactional_commit_refuses_only_its_partition(harness: Producers) -> None:
    rows = [
        TxnOffsetCommitRequestPartition(0, 1, -1, "x" * 4_097),
        TxnOffsetCommitRequestPartition(1, 2, -1, None),
        TxnOffsetCommitRequestPartition(2, 3, -1, "x" * 4_096),
    ]
    topics = [TxnOffsetCommitRequestTopic("t", partitions=rows), TxnOffsetCommitRequestTopic("u", partitions=rows[1:2])]
    reply = harness.ask(TxnOffsetCommitRequest("tx", "g", 7, 0, topics=topics))
    assert [[one.error_code for one in topic.partitions] for topic in reply.topics] == [[12, 0, 0], [0]]
    harness.end()
    assert [harness.at(0), harness.at(1), harness.at(2)] == [-1, 2, 3]


def test_a_transactional_commit_larger_than_a_batch_is_refused_as_a_whole(harness: Producers) -> None:
    harness.max_bytes = 200
    assert harness.txn(metadata="x" * 150) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.records == []


def test_a_transactional_commit_does_not_extend_the_session(harness: Producers) -> None:
    a, b = harness.stable()
    harness.advance(9_000)
    assert harness.txn(b, 2) == 0
    harness.advance(1_000)
    assert {a, b} & harness.group().members.keys() == set()


def test_the_latest_record_of_the_transactions_decides_the_offset(harness: Producers) -> None:
    harness.txn(offset=1, producer=7)
    harness.txn(offset=2, producer=8)
    harness.end(8)
    harness.end(7)
    assert harness.stable_fetch() == (2, 0)
    harness.txn(offset=3)
    harness.commit(offset=4)
    assert harness.stable_fetch() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    harness.end()
    assert harness.stable_fetch() == (4, 0)


def test_an_offset_is_stable_when_its_last_transaction_has_ended(harness: Producers) -> None:
    harness.txn(offset=1, producer=7)
    harness.txn(offset=2, producer=8)
    harness.end(7)
    assert harness.stable_fetch() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    harness.end(8, is_committed=False)
    assert harness.stable_fetch() == (1, 0)


@pytest.mark.parametrize("is_group", [True, False])
def test_deleting_a_group_or_offsets_drops_the_pending_offsets(harness: Producers, is_group: bool) -> None:
    harness.txn(offset=1)
    if is_group:
        reply = harness.send(DeleteGroupsRequest(["g"]))
        assert reply.results[0].error_code == 0
        assert harness.core.state.groups == {}
    else:
        partitions = [OffsetDeleteRequestPartition(0)]
        harness.send(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", partitions)]))
    assert harness.stable_fetch() == (-1, 0)
    assert harness.txn(offset=2, partition=1) == 0  # the same transaction continues
    harness.end()
    assert (harness.at(0), harness.at(1)) == (-1, 2)


def test_a_pending_offset_keeps_the_committed_one_and_the_group(harness: Producers) -> None:
    harness.commit(offset=1)
    harness.commit(offset=1, partition=1)
    harness.txn(offset=2)
    harness.advance(8 * DAY_MS)
    assert (harness.at(0), harness.at(1)) == (1, -1)
    harness.end(is_committed=False)
    harness.advance(DAY_MS)
    assert harness.core.state.groups == {}


def test_a_group_with_only_pending_offsets_is_kept(harness: Producers) -> None:
    harness.txn(offset=2)
    harness.advance(8 * DAY_MS)
    assert list(harness.core.state.groups) == ["g"]
    harness.end(is_committed=False)
    harness.advance(DAY_MS)
    assert harness.core.state.groups == {}


@pytest.mark.parametrize("is_committed_before", [False, True])
def test_pending_offsets_of_a_deleted_topic_are_dropped(harness: Producers, is_committed_before: bool) -> None:
    if is_committed_before:
        harness.commit(offset=1)
    harness.txn(offset=2)
    harness.txn(offset=3, topic="u")
    harness.collect(harness.core.handle(TopicsChanged(TopicsImage({"u": TOPICS.by_name["u"]}, 2)), harness.now))
    assert harness.stable_fetch() == (-1, 0)
    assert [record.value for record in harness.records[-1:]] == [None]
    assert harness.events[-1].facts == {"cause": events.TOPIC_DELETED, "topics": {"t": [0]}}
    harness.end()
    assert harness.core.state.offsets.topics("g").keys() == {"u"}


def test_a_topic_created_again_gets_no_old_pending_offset(harness: Producers) -> None:
    # without an id nobody knows which topic is meant: Kafka drops the offset as well
    harness.txn(offset=2)
    image = TopicsImage({"t": TopicImage("t", b"N" * 16, 8), "u": TOPICS.by_name["u"]}, 2)
    harness.collect(harness.core.handle(TopicsChanged(image), harness.now))
    harness.end()
    assert harness.at() == -1


def test_a_pending_offset_replaced_by_a_later_commit_survives_the_deletion_of_its_topic(harness: Producers) -> None:
    harness.txn(offset=2)
    row = OffsetCommitRequestPartition(0, 3)
    harness.send(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", b"X" * 16, [row])]))
    before = len(harness.records)
    harness.collect(harness.core.handle(TopicsChanged(TopicsImage({"u": TOPICS.by_name["u"]}, 2)), harness.now))
    assert len(harness.records) == before
    assert harness.stable_fetch() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    harness.end()
    assert harness.stable_fetch() == (3, 0)


def test_the_end_of_a_transaction_is_reported_for_each_group(harness: Producers) -> None:
    harness.txn(offset=1)
    harness.txn(offset=2, partition=1)
    harness.txn(offset=3, group="h", topic="u")
    harness.commit(offset=9)
    harness.end()
    reported = [(event.kind, event.group_id, event.facts["offsets"]) for event in harness.events]
    assert reported == [
        (events.TRANSACTION_COMMITTED, "g", {"t": {1: 2}}),
        (events.TRANSACTION_COMMITTED, "h", {"u": {0: 3}}),
    ]
    facts = harness.events[0].facts
    assert (facts["producer_id"], facts["producer_epoch"], facts["since_ms"]) == (7, 0, harness.now.wall_ms)
    harness.events.clear()
    harness.txn(offset=5)
    harness.end(is_committed=False)
    harness.end()  # a marker for no transaction
    assert [(event.kind, event.facts["offsets"]) for event in harness.events] == [
        (events.TRANSACTION_ABORTED, {"t": {0: 5}})
    ]


def test_a_refused_transactional_commit_is_reported(harness: Producers) -> None:
    harness.txn("x", 1)
    (event,) = harness.events
    assert (event.kind, event.facts["api"], event.facts["error"]) == (
        events.REQUEST_REFUSED,
        "TxnOffsetCommit",
        NOT_FOUND,
    )


def test_transactional_commits_to_streams_and_share_groups_are_answered_by_type(harness: Producers) -> None:
    group = harness.core.state.groups["g"] = StreamsGroup("g")
    group.put_member("m")
    assert [harness.txn(), harness.txn("x", 1), harness.txn("x", -1)] == [0, UNKNOWN_MEMBER, UNKNOWN_MEMBER]
    harness.core.state.groups["g"] = ShareGroup("g")
    assert [harness.txn(), harness.txn("x", 1), harness.txn("x", -1)] == [ErrorCode.GROUP_ID_NOT_FOUND] * 3


def test_a_replay_of_transactional_commits_gives_the_same_offsets(harness: Producers) -> None:
    harness.commit(offset=1)
    before = len(harness.records)
    harness.txn(offset=2)
    harness.txn(offset=3, partition=1)
    again = GroupCore(harness.settings, TOPICS)
    again.replay([(one.key, one.value) for one in harness.records[:before]], harness.now)
    rows = [(one.key, one.value) for one in harness.records[before:]]
    again.replay_transactional(TransactionalBatch(7, 0, harness.now.wall_ms, rows), harness.now)
    for core in (harness.core, again):
        assert pending_of(core, 7) == {"g": {("t", 0): 2, ("t", 1): 3}}
        at_once(core.end_transaction(EndTransaction(7, 0, True), harness.now))
        assert {number: core.state.offsets.get("g", "t", number) for number in (0, 1)} == {
            number: harness.core.state.offsets.get("g", "t", number) for number in (0, 1)
        }
