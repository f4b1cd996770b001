"""TxnOffsetCommit through its handler: checks before the coordinators are asked, and the coordinators' answers."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.api.node import Node
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.runtime.group_coordinator.error_responses import refuse, with_error
from muster.coordinator.runtime.group_coordinator.settings import ShardSettings
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.group_coordinator.shards import group_shards
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.state_machine.interface import Producer
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.message import ZERO_UUID
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.coordinator.api.harness import Answers, Refusing, ask, make_context, make_node
from tests.coordinator.api.transactions.coordinator import FakeTransactions
from tests.coordinator.topics.support import add_topic, make_topics, started_with
from tests.support.hub import lower_response

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
P = Producer(7, 3)


class TxnOffsetCommitHarness:
    """A node with a group coordinator over logs in memory, and a transaction coordinator that the test plays."""

    def __init__(self, **parts: Any) -> None:
        clock = ManualClock()
        topics = make_topics(clock=clock, offsets_topic_num_partitions=2)
        at_once(topics.ensuring(GROUP_OFFSETS_TOPIC))
        for name, partitions in (("t", 3), ("u", 1)):
            add_topic(topics, name, partitions)
        shards = group_shards(topics, clock, GroupSettings(), ShardSettings(), lambda _: None)
        for shard in shards:
            for _ in shard.runtime.start():
                pass
        self.clock = clock
        self.transactions = FakeTransactions()
        self.node: Node = make_node(
            clock=clock,
            topics=topics,
            routing=Routing(shards),
            transactions=self.transactions,
            config=started_with({}),
            **parts,
        )

    @property
    def shard(self) -> GroupShard:
        return self.node.routing.shard("g")

    def send(
        self,
        *rows: tuple[str, list[int]],
        version: int = 5,
        group: str = "g",
        transactional_id: str = "tx",
        producer: Producer = P,
        **more: Any,
    ) -> Answers:
        topics = [
            TxnOffsetCommitRequestTopic(
                name, partitions=[TxnOffsetCommitRequestPartition(index, 100 + index) for index in indexes]
            )
            for name, indexes in rows or (("t", [0]),)
        ]
        request = TxnOffsetCommitRequest(transactional_id, group, *producer, topics=topics, **more)
        answers = ask(self.node, request, make_context(28, version))
        self.clock.advance(0)
        return answers

    def commit(self, *rows: tuple[str, list[int]], **more: Any) -> list[tuple[str, list[tuple[int, int]]]]:
        return shown(self.send(*rows, **more).one())

    def end(self, *, is_committed: bool = True) -> None:
        self.shard.runtime.complete_transaction(P, is_committed=is_committed)

    def offset(self, partition: int = 0) -> int:
        asked = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[partition])])
        answer = ask(self.node, OffsetFetchRequest(groups=[asked]), make_context(9, 8)).one()
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def shown(response: TxnOffsetCommitResponse) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (topic.name, [(row.partition_index, row.error_code) for row in topic.partitions]) for topic in response.topics
    ]


@pytest.fixture
def harness() -> TxnOffsetCommitHarness:
    return TxnOffsetCommitHarness()


@pytest.mark.parametrize(("version", "verify_only"), [(0, True), (4, True), (5, False)])
def test_the_groups_partition_is_verified_or_added_and_the_offsets_are_pending(
    harness: TxnOffsetCommitHarness, version: int, verify_only: bool
) -> None:
    assert harness.commit(("t", [0, 2]), ("u", [0]), version=version) == [("t", [(0, 0), (2, 0)]), ("u", [(0, 0)])]
    place = {GROUP_OFFSETS_TOPIC: [harness.shard.partition]}
    assert [(one[1], one[2], one[4]) for one in harness.transactions.asked] == [((7, 3), verify_only, place)]
    assert harness.offset() == -1
    # the partition is in the transaction: the coordinator is not asked again
    assert harness.commit(version=version) == [("t", [(0, 0)])]
    assert len(harness.transactions.asked) == 1
    harness.end()
    assert (harness.offset(0), harness.offset(2)) == (100, 102)


def test_unknown_partitions_are_refused_by_row_in_a_transactional_commit(harness: TxnOffsetCommitHarness) -> None:
    assert harness.commit(("t", [3, 0, -1]), ("no", [0]), ("t", [7]), ("u", [0])) == [
        ("t", [(3, UNKNOWN), (-1, UNKNOWN), (7, UNKNOWN), (0, 0)]),
        ("no", [(0, UNKNOWN)]),
        ("u", [(0, 0)]),
    ]


def test_a_transactional_commit_names_topics_by_id_from_version_6_on(harness: TxnOffsetCommitHarness) -> None:
    known, no = harness.node.topics.image.by_name["t"].topic_id, b"x" * 16
    topics = [
        TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=[TxnOffsetCommitRequestPartition(index, 100)])
        for topic_id, index in ((known, 0), (known, 7), (no, 0), (ZERO_UUID, 0))
    ]
    request = TxnOffsetCommitRequest("tx", "g", *P, topics=topics)
    answers = ask(harness.node, request, make_context(28, 6))
    harness.clock.advance(0)
    rows = [
        (topic.topic_id, row.partition_index, row.error_code)
        for topic in answers.one().topics
        for row in topic.partitions
    ]
    no_id = ErrorCode.UNKNOWN_TOPIC_ID
    assert sorted(rows) == sorted([(known, 0, 0), (known, 7, UNKNOWN), (no, 0, no_id), (ZERO_UUID, 0, no_id)])
    harness.end()
    assert harness.offset() == 100


@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_clients_of_version_6_get_the_error_of_a_missing_group(
    harness: TxnOffsetCommitHarness, version: int, error: int
) -> None:
    topic_id = harness.node.topics.image.by_name["t"].topic_id
    topics = [TxnOffsetCommitRequestTopic("t", topic_id, [TxnOffsetCommitRequestPartition(0, 1)])]
    request = TxnOffsetCommitRequest("tx", "g", *P, 3, "m", topics=topics)
    answers = ask(harness.node, request, make_context(28, version))
    harness.clock.advance(0)
    assert shown(answers.one()) == [("t", [(0, error)])]


def test_a_transactional_commit_of_only_unknown_partitions_asks_nobody(harness: TxnOffsetCommitHarness) -> None:
    assert harness.commit(("no", [0]), group="", transactional_id="") == [("no", [(0, UNKNOWN)])]
    assert harness.transactions.asked == []


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"generation_id_or_member_epoch": 3}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_refused_transactional_commit_has_the_error_on_every_known_row(
    harness: TxnOffsetCommitHarness, asked: dict[str, Any], error: int
) -> None:
    assert harness.commit(("t", [0, 9]), **asked) == [("t", [(9, UNKNOWN), (0, error)])]


@pytest.mark.parametrize(
    ("coordinator_error", "by_version"),
    [
        (ErrorCode.PRODUCER_FENCED, (47, 47, 47)),
        (ErrorCode.TRANSACTION_ABORTABLE, (48, 120, 120)),
        (ErrorCode.CONCURRENT_TRANSACTIONS, (51, 51, 51)),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, (49, 49, 49)),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, (14, 14, 14)),
        (ErrorCode.NOT_COORDINATOR, (16, 16, 16)),
        (ErrorCode.NETWORK_EXCEPTION, (14, 14, 14)),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (15, 15, 15)),
    ],
)
def test_each_version_of_txn_offset_commit_gets_its_own_verification_error(
    harness: TxnOffsetCommitHarness, coordinator_error: int, by_version: tuple[int, ...]
) -> None:
    harness.transactions.errors[GROUP_OFFSETS_TOPIC, harness.shard.partition] = coordinator_error
    assert tuple(harness.commit(version=version)[0][1][0][1] for version in (3, 4, 5)) == by_version
    harness.end()
    assert harness.offset() == -1


def test_a_transactional_commit_without_a_transaction_coordinator_is_refused(harness: TxnOffsetCommitHarness) -> None:
    harness.transactions.routing.ready = False
    assert harness.commit() == [("t", [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)])]


def test_a_zombie_is_fenced_by_the_log(harness: TxnOffsetCommitHarness) -> None:
    harness.commit()
    assert harness.commit(producer=Producer(7, 2)) == [("t", [(0, ErrorCode.INVALID_PRODUCER_EPOCH)])]
    assert harness.shard.active


def test_a_marker_while_the_coordinator_is_asked_makes_it_void(harness: TxnOffsetCommitHarness) -> None:
    harness.transactions.holds = True
    answers = harness.send(version=4)
    harness.end(is_committed=False)
    harness.transactions.held.pop()()
    harness.clock.advance(0)
    assert shown(answers.one()) == [("t", [(0, ErrorCode.INVALID_TXN_STATE)])]


def test_a_log_that_is_opened_again_while_the_coordinator_is_asked_does_not_know_the_guard(
    harness: TxnOffsetCommitHarness,
) -> None:
    harness.transactions.holds = True
    answers = harness.send()
    harness.shard.runtime.resign()
    partition = harness.node.topics.by_name[GROUP_OFFSETS_TOPIC].state
    harness.node.topics.open.hand_over(partition, [harness.shard.partition], anew=True)
    at_once(harness.shard.runtime.start())
    harness.transactions.held.pop()()
    harness.clock.advance(0)
    assert shown(answers.one()) == [("t", [(0, ErrorCode.NOT_COORDINATOR)])]


def test_a_transactional_commit_without_permission_is_refused(harness: TxnOffsetCommitHarness) -> None:
    no = Refusing((Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx"))
    harness.node.authorizer = no
    assert harness.commit(("t", [0]), ("no", [1])) == [("t", [(0, 53)]), ("no", [(1, 53)])]
    no.refused = {(Operation.READ, ResourceType.GROUP, "g")}
    assert harness.commit() == [("t", [(0, ErrorCode.GROUP_AUTHORIZATION_FAILED)])]
    no.refused = {(Operation.READ, ResourceType.TOPIC, "t")}
    assert harness.commit(("t", [0, 9]), ("u", [0])) == [("t", [(0, 29), (9, 29)]), ("u", [(0, 0)])]


def test_a_transactional_commit_to_an_inactive_shard_is_refused(harness: TxnOffsetCommitHarness) -> None:
    harness.shard.runtime.resign()
    assert harness.commit() == [("t", [(0, ErrorCode.NOT_COORDINATOR)])]
    assert harness.transactions.asked == []


def test_a_transactional_commit_of_many_rows_is_one_verification(harness: TxnOffsetCommitHarness) -> None:
    add_topic(harness.node.topics, "wide", 700)
    answers = harness.send(("wide", list(range(701))))
    while not answers.all:
        harness.clock.advance(1)
    ((name, rows),) = shown(answers.one())
    assert (name, rows[0], {error for _, error in rows[1:]}, len(rows)) == ("wide", (700, UNKNOWN), {0}, 701)
    assert len(harness.transactions.asked) == 1
    harness.end()
    assert len(harness.node.routing.shard("g").committed("g")["wide"]) == 700


def test_refusals_keep_the_errors_of_their_rows() -> None:
    rows = [TxnOffsetCommitRequestPartition(0, 1), TxnOffsetCommitRequestPartition(1, 1)]
    request = TxnOffsetCommitRequest("tx", "g", 7, 0, topics=[TxnOffsetCommitRequestTopic("t", partitions=rows)])
    refused: Any = refuse(request, ErrorCode.NOT_COORDINATOR)
    assert shown(refused) == [("t", [(0, 16), (1, 16)])]
    refused.topics[0].partitions[1].error_code = 0
    assert shown(with_error(refused, 15)) == [("t", [(0, 16), (1, 15)])]


@pytest.mark.parametrize(("version", "expected"), [(0, 15), (1, 15), (2, 14)])
def test_old_producers_get_another_error_than_coordinator_load_in_progress(version: int, expected: int) -> None:
    rows = [TxnOffsetCommitRequestPartition(0, 1)]
    request = TxnOffsetCommitRequest("tx", "g", 7, 0, topics=[TxnOffsetCommitRequestTopic("t", partitions=rows)])
    response = refuse(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert shown(lower_response(28, version, response)) == [("t", [(0, expected)])]
