"""Requests of many rows are handled in steps. The answer is the same, no step is long, repeated names are looked up
once, and no answer is too large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest

from muster.coordinator.api import exchange, many_rows
from muster.coordinator.api.groups.membership import MANY_PROTOCOLS, MAX_PROTOCOLS
from muster.coordinator.api.many_rows import ROWS_AT_ONCE, add_partitions, in_pieces
from muster.coordinator.api.node import Node
from muster.coordinator.api.unsent import Unsent
from muster.coordinator.state_machine.interface import Command
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import SLICE_MS
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from muster.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from tests.coordinator.api.data_plane import data_node
from tests.coordinator.api.harness import FakeTopics, TickingClock, ask, make_context, make_group_node

MANY = ROWS_AT_ONCE * 2 + 7


@pytest.fixture
def node() -> Node:
    return make_group_node(FakeTopics(t=MANY, u=3), shards=1)


def submitted_to(node: Node) -> list[Any]:
    """The requests that the shard is given from now on."""
    seen: list[Any] = []
    (shard,) = node.routing.shards
    submit = shard.runtime.submit

    def note(command: Command) -> None:
        seen.append(command.request)
        submit(command)

    shard.runtime.submit = note
    return seen


@pytest.fixture
def submitted(node: Node) -> list[Any]:
    """The requests that the shard of `node` was given."""
    return submitted_to(node)


def commit(*topics: tuple[str, range], group: str = "g", metadata: str = "") -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(p, p * 10, -1, metadata) for p in some])
        for name, some in topics
    ]
    return OffsetCommitRequest(group, topics=rows)


def rows_of(request: Any) -> int:
    topics = request.groups[0].topics if isinstance(request, OffsetFetchRequest) else request.topics
    return sum(len(getattr(t, "partitions", None) or getattr(t, "partition_indexes", ())) for t in topics or ())


def committed(
    node: Node, partitions: list[int] | None, group: str = "g", version: int = 9
) -> dict[str, dict[int, int]]:
    topics = None if partitions is None else [OffsetFetchRequestTopics("t", partition_indexes=partitions)]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])
    (row,) = ask(node, request, make_context(9, version)).one().groups
    assert row.error_code == 0
    return {t.name: {p.partition_index: p.committed_offset for p in t.partitions} for t in row.topics}


def test_large_topics_are_cut_into_pieces_of_bounded_size() -> None:
    sizes = [("a", 3), ("b", MANY), ("c", 0), ("d", ROWS_AT_ONCE - 2), ("e", 1), ("f", 1)]
    topics = [OffsetFetchRequestTopics(name, partition_indexes=range(size)) for name, size in sizes]
    found = list(in_pieces(topics, "partition_indexes"))
    assert [(goes_on, [(one.name, len(one.partition_indexes)) for one in piece]) for goes_on, piece in found] == [
        (False, [("a", 3)]),
        (False, [("b", ROWS_AT_ONCE)]),
        (True, [("b", ROWS_AT_ONCE)]),
        (True, [("b", 7)]),
        (False, [("c", 0), ("d", ROWS_AT_ONCE - 2)]),
        (False, [("e", 1), ("f", 1)]),
    ]


def test_rows_are_appended_to_an_answer_without_copying_it() -> None:
    topic = OffsetDeleteRequestTopic("t", (OffsetDeleteRequestPartition(0),))
    add_partitions(topic, [OffsetDeleteRequestPartition(1)])
    kept = topic.partitions
    add_partitions(topic, [OffsetDeleteRequestPartition(2)])
    assert topic.partitions is kept
    assert [row.partition_index for row in kept] == [0, 1, 2]


class TestCommit:
    def test_a_commit_of_many_rows_is_done_in_pieces_and_answered_as_one(
        self, node: Node, submitted: list[Any]
    ) -> None:
        request = commit(("t", range(MANY + 2)), ("no", range(2)), ("u", range(3)), ("t", range(1)))
        response = ask(node, request, make_context(8, 9)).one()
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answered = {t.name: [(p.partition_index, p.error_code) for p in t.partitions] for t in response.topics}
        expected = [(p, 0 if p < MANY else unknown) for p in range(MANY + 2)]
        assert Counter(answered["t"]) == Counter([*expected, (0, 0)])
        assert (answered["no"], answered["u"]) == ([(0, unknown), (1, unknown)], [(0, 0), (1, 0), (2, 0)])
        assert max(map(rows_of, submitted)) == ROWS_AT_ONCE
        assert committed(node, None)["t"] == {p: p * 10 for p in range(MANY)}

    def test_a_commit_of_few_rows_is_one_command(self, node: Node, submitted: list[Any]) -> None:
        ask(node, commit(("t", range(ROWS_AT_ONCE - 1)))).one()
        assert [rows_of(one) for one in submitted] == [ROWS_AT_ONCE - 1]

    def test_a_commit_too_large_for_a_batch_writes_no_row(self) -> None:
        node = make_group_node(FakeTopics(t=20_000), shards=1)
        submitted = submitted_to(node)
        response = ask(node, commit(("t", range(20_000)))).one()
        assert {p.error_code for t in response.topics for p in t.partitions} == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert submitted == []
        response = ask(node, commit(("t", range(MANY)), metadata="m" * 1_000)).one()
        assert {p.error_code for t in response.topics for p in t.partitions} == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert submitted == []

    def test_a_large_commit_to_an_inactive_shard_is_refused_on_each_row(self, node: Node) -> None:
        for shard in node.routing.shards:
            shard.runtime.resign()
        response = ask(node, commit(("t", range(MANY)))).one()
        codes = {p.error_code for t in response.topics for p in t.partitions}
        assert codes == {ErrorCode.NOT_COORDINATOR}


class TestFetch:
    def test_an_offset_fetch_of_many_rows_is_done_in_pieces(self, node: Node, submitted: list[Any]) -> None:
        ask(node, commit(("t", range(MANY)))).one()
        submitted.clear()
        assert committed(node, [*range(MANY), 9_999_999]) == {"t": {p: p * 10 for p in range(MANY)} | {9_999_999: -1}}
        assert [rows_of(one) for one in submitted] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 8]

    def test_a_fetch_of_all_offsets_of_a_large_group_is_done_in_pieces(self, node: Node, submitted: list[Any]) -> None:
        ask(node, commit(("t", range(MANY)), ("u", range(3)))).one()
        submitted.clear()
        expected = {"t": {p: p * 10 for p in range(MANY)}, "u": {0: 0, 1: 10, 2: 20}}
        assert committed(node, None) == expected
        assert committed(node, None, version=10) == expected
        assert max(map(rows_of, submitted)) == ROWS_AT_ONCE

    def test_an_offset_fetch_has_two_rows_for_a_topic_named_twice(self, node: Node) -> None:
        asked = [
            OffsetFetchRequestTopics("t", partition_indexes=[0]),
            OffsetFetchRequestTopics("t", partition_indexes=[1]),
        ]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=asked)])
        (row,) = ask(node, request, make_context(9, 9)).one().groups
        assert [(t.name, len(t.partitions)) for t in row.topics] == [("t", 1), ("t", 1)]

    def test_an_offset_fetch_puts_any_number_of_unknown_topic_ids_last(self, node: Node) -> None:
        no = OffsetFetchRequestTopics(topic_id=bytes(15) + b"\x09", partition_indexes=[*range(MANY)])
        t = OffsetFetchRequestTopics(topic_id=bytes(15) + b"\x01", partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=[no, t])])
        (row,) = ask(node, request, make_context(9, 10)).one().groups
        assert row.topics[0].topic_id == t.topic_id
        assert sum(len(topic.partitions) for topic in row.topics[1:]) == MANY

    def test_an_offset_fetch_answer_that_is_too_large_becomes_an_error_of_the_group(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ask(node, commit(("t", range(1)), metadata="m" * 4_000)).one()
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (3_000_000,))
        assert len(committed(node, [0] * 700)["t"]) == 1
        topics = [OffsetFetchRequestTopics("t", partition_indexes=[0] * 1_200)]
        group = OffsetFetchRequestGroup("g", topics=topics)
        first, second = ask(node, OffsetFetchRequest(groups=[group, group]), make_context(9, 9)).one().groups
        assert first.error_code == second.error_code == many_rows.TOO_LARGE
        assert sum(len(row.metadata) for t in first.topics for row in t.partitions) < 3_000_000

    def test_a_group_fetched_many_times_is_read_once_and_answered_while_it_fits(
        self, node: Node, submitted: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ask(node, commit(("t", range(MANY)))).one()
        for most, whole in ((1 << 30, 300), (MANY * 350, 3)):
            submitted.clear()
            monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (most,))
            groups = [OffsetFetchRequestGroup("g", topics=None) for _ in range(300)]
            rows = ask(node, OffsetFetchRequest(groups=groups), make_context(9, 9)).one().groups
            assert sum(map(rows_of, submitted)) == MANY
            assert [sum(len(t.partitions) for t in row.topics) for row in rows] == [MANY] * whole + [0] * (300 - whole)
            assert [row.error_code for row in rows] == [0] * whole + [many_rows.TOO_LARGE] * (300 - whole)

    def test_a_full_offset_fetch_answer_reads_no_further_groups(
        self, node: Node, submitted: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ask(node, commit(("t", range(MANY)))).one()
        submitted.clear()
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (10_000,))
        groups = [OffsetFetchRequestGroup(name, topics=None) for name in ["g", *map(str, range(1_000))]]
        rows = ask(node, OffsetFetchRequest(groups=groups), make_context(9, 9)).one().groups
        assert [(row.error_code, list(row.topics)) for row in rows if row.error_code] == [(many_rows.TOO_LARGE, [])] * (
            sum(1 for row in rows if row.error_code)
        )
        assert rows[0].error_code == many_rows.TOO_LARGE
        assert len(submitted) < 200

    def test_an_offset_fetch_from_an_inactive_shard_is_refused(self, node: Node) -> None:
        for shard in node.routing.shards:
            shard.runtime.resign()
        for topics in (None, [OffsetFetchRequestTopics("t", partition_indexes=[*range(MANY)])]):
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])
            (row,) = ask(node, request, make_context(9, 7)).one().groups
            assert row.error_code == ErrorCode.NOT_COORDINATOR


def test_many_offsets_are_deleted_in_pieces(node: Node, submitted: list[Any]) -> None:
    ask(node, commit(("t", range(MANY)))).one()
    submitted.clear()
    rows = [OffsetDeleteRequestPartition(p) for p in range(MANY + 1)]
    response = ask(node, OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", rows)])).one()
    (topic,) = response.topics
    assert Counter((p.partition_index, p.error_code) for p in topic.partitions) == Counter(
        [(p, 0) for p in range(MANY)] + [(MANY, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    )
    assert max(map(rows_of, submitted)) == ROWS_AT_ONCE
    assert committed(node, None) == {}
    rows = [OffsetDeleteRequestPartition(p) for p in range(MANY)]
    response = ask(node, OffsetDeleteRequest("nobody", [OffsetDeleteRequestTopic("t", rows)])).one()
    assert (response.error_code, list(response.topics)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


class TestDescribe:
    def test_a_group_described_many_times_is_read_once_and_answered_each_time(
        self, node: Node, submitted: list[Any]
    ) -> None:
        response = ask(node, DescribeGroupsRequest(["a", "b"] * 1_000 + ["a"])).one()
        assert [group.group_id for group in response.groups] == ["a", "b"] * 1_000 + ["a"]
        assert len(submitted) == 2

    def test_groups_that_do_not_fit_into_the_answer_are_refused_by_row(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (1_000,))
        response = ask(node, DescribeGroupsRequest(["a"] * 100)).one()
        codes = [group.error_code for group in response.groups]
        assert codes == [ErrorCode.GROUP_ID_NOT_FOUND] * 16 + [many_rows.TOO_LARGE] * 84
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (10,))
        response = ask(node, DescribeGroupsRequest(["a"] * 3)).one()  # the first row always fits
        codes = [group.error_code for group in response.groups]
        assert codes == [ErrorCode.GROUP_ID_NOT_FOUND, many_rows.TOO_LARGE, many_rows.TOO_LARGE]

    def test_groups_after_one_that_does_not_fit_are_not_read(
        self, node: Node, submitted: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (1_000,))
        for request in (DescribeGroupsRequest, ConsumerGroupDescribeRequest):
            submitted.clear()
            rows = ask(node, request([f"{number:04}" + "n" * 400 for number in range(1_000)])).one().groups
            assert 1 <= sum(row.error_code != many_rows.TOO_LARGE for row in rows) <= 2
            assert len(submitted) <= many_rows.AT_ONCE

    def test_a_list_of_more_groups_than_an_answer_may_have_is_refused_as_a_whole(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(5):
            ask(node, commit(("t", range(1)), group=f"{number}" + "g" * 500)).one()
        assert len(ask(node, ListGroupsRequest()).one().groups) == 5
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (2_000,))
        answer = ask(node, ListGroupsRequest()).one()
        assert (answer.error_code, len(answer.groups)) == (many_rows.TOO_LARGE, 0)
        assert len(ask(node, ListGroupsRequest(["Stable"])).one().groups) == 0, "fewer may be asked for"

    def test_describing_the_quorum_many_times_is_bounded(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        node = data_node()
        partitions = [DescribeQuorumRequestPartitionData(0)] * 100
        request = DescribeQuorumRequest([DescribeQuorumRequestTopicData("__cluster_metadata", partitions)])
        rows = ask(node, request).one().topics[0].partitions
        assert len({id(row) for row in rows}) == 1
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (1_600,))
        rows = ask(node, request).one().topics[0].partitions
        assert [row.error_code for row in rows] == [0] * 10 + [many_rows.TOO_LARGE] * 90

    def test_a_large_answer_counts_as_memory_until_it_is_sent_or_its_connection_ends(self, node: Node) -> None:
        for number in range(20):
            ask(node, commit(("t", range(1)), group=f"{number:02}" + "g" * 30_000)).one()
        node.unsent = Unsent(node.clock, 1_000_000)
        context = make_context(16, 5)
        answers = ask(node, ListGroupsRequest(), context)
        taken = context.channel.large_answer
        assert taken is not None
        assert answers.all == [], "it waits, as it is more than a share"
        assert node.unsent.bytes == taken.bytes > 100_000
        cast("ManualClock", node.clock).advance(100)
        assert len(answers.one().groups) == 20
        assert node.unsent.growing is taken
        context.channel.close()
        assert node.unsent.bytes == 0
        assert node.unsent.growing is None

    def test_describing_one_brokers_configs_many_times_is_bounded(
        self, node: Node, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request = DescribeConfigsRequest([DescribeConfigsResource(4, "1", None) for _ in range(500)])
        one = ask(node, DescribeConfigsRequest([DescribeConfigsResource(4, "1", None)])).one().results[0]
        results = ask(node, request).one().results
        assert all(result == one for result in results)
        assert len({id(result) for result in results}) == 1
        monkeypatch.setattr(many_rows.AnswerSize.__init__, "__defaults__", (100_000,))
        results = ask(node, request).one().results
        codes = Counter(result.error_code for result in results)
        assert set(codes) == {0, many_rows.TOO_LARGE}
        assert results[-1].error_message == many_rows.TOO_LARGE_TEXT

    def test_describe_configs_answers_each_row_with_its_own_keys(self, node: Node) -> None:
        rows = [DescribeConfigsResource(4, "1", [key]) for key in ("log.retention.ms", "num.partitions")]
        results = ask(node, DescribeConfigsRequest([*rows, *rows])).one().results
        assert [[c.name for c in r.configs] for r in results] == [["log.retention.ms"], ["num.partitions"]] * 2


@pytest.mark.parametrize(
    ("request_", "count"),
    [
        (DeleteGroupsRequest([f"g{i}" for i in range(1_000)]), lambda r: len(r.results)),
        (DescribeGroupsRequest([f"g{i}" for i in range(1_000)]), lambda r: len(r.groups)),
        (commit(("t", range(MANY))), lambda r: len(r.topics[0].partitions)),
    ],
    ids=["DeleteGroups", "DescribeGroups", "OffsetCommit"],
)
def test_a_request_of_many_rows_takes_many_steps(request_: Message, count: Callable[[Any], int]) -> None:
    """Each step takes a millisecond here, so an earlier answer is impossible."""
    clock = TickingClock()
    node = make_group_node(FakeTopics(t=MANY), shards=3, clock=clock)
    began_ms = clock.now().mono_ms
    answers = ask(node, request_)
    assert answers.all == []
    assert clock.now().mono_ms - began_ms < 60
    for _ in range(2_000):
        clock.advance(100)
        if answers.all:
            break
    assert count(answers.one()) in (1_000, MANY)


def test_an_answer_with_long_names_is_not_encoded_on_the_event_loop() -> None:
    """900 names of 30,000 letters once took 40 ms."""
    long, short = (
        IncrementalAlterConfigsResponse(0, [AlterConfigsResourceResponse(0, None, 32, letters) for _ in range(900)])
        for letters in ("L" * 30_000, "L" * 20)
    )
    assert exchange._has_many_rows(long)
    assert not exchange._has_many_rows(short)


def test_list_groups_asks_one_shard_after_the_other(node: Node) -> None:
    assert many_rows.AT_ONCE > 0
    ask(node, commit(("t", range(1)), group="one")).one()
    assert [group.group_id for group in ask(node, ListGroupsRequest()).one().groups] == ["one"]


class TestTopics:
    def test_a_metadata_request_that_would_create_too_many_partitions_creates_none(self) -> None:
        node = data_node(num_partitions=4_000)
        asked = MetadataRequest([MetadataRequestTopic(name=name) for name in ("a", "b", "", "c")])
        rows = ask(node, asked).one().topics
        assert [row.error_code for row in rows] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert node.topics.by_name == {}

    def test_a_metadata_request_creates_many_new_topics(self) -> None:
        node = data_node()
        names = [f"new-{i}" for i in range(300)]
        asked = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
        rows = ask(node, asked).one().topics
        assert [(row.name, row.error_code, len(row.partitions)) for row in rows] == [(name, 0, 1) for name in names]
        assert list(node.topics.image.by_name) == names

    def test_topics_of_one_create_request_share_their_config_rows(self) -> None:
        node = data_node()
        rows = [
            CreatableTopic(f"t{i}", 1, 1, configs=[CreatableTopicConfig("retention.ms", str(i % 2))]) for i in range(10)
        ]
        results = ask(node, CreateTopicsRequest(rows, timeout_ms=1_000, validate_only=True)).one().topics
        assert len({id(row.configs) for row in results}) == 2
        answered = [{c.name: c.value for c in row.configs}["retention.ms"] for row in results]
        assert answered == ["0", "1"] * 5

    def test_a_topic_change_continues_after_its_connection_has_ended(self) -> None:
        node = data_node()
        node.job_queue._used_ms = 10  # the share of this iteration is used
        context = make_context(19, 7)
        answers = ask(node, CreateTopicsRequest([CreatableTopic("t", 1, 1)], timeout_ms=1_000), context)
        context.channel.close()
        assert "t" not in node.topics.by_name
        cast(ManualClock, node.clock).advance(0)
        assert "t" in node.topics.by_name
        assert len(answers.all) == 1


def test_list_groups_with_very_many_filters_answers_as_with_few(node: Node, submitted: list[Any]) -> None:
    ask(node, commit(("t", range(1)), group="one")).one()
    submitted.clear()
    noise = [f"no-{i}" for i in range(1_000)]
    for states, kinds, found in (
        ([*noise, " EMPTY"], [], ["one"]),
        (noise, [], []),
        ([], [*noise, "Classic"], ["one"]),
        ([], noise, []),
        (["Empty"], ["classic"], ["one"]),
    ):
        groups = ask(node, ListGroupsRequest(states_filter=states, types_filter=kinds)).one().groups
        assert [group.group_id for group in groups] == found
    assert max(len(one.states_filter) + len(one.types_filter) for one in submitted) == 2


class TestMembers:
    def join(self, node: Node, member_id: str = "", protocols: int = 1) -> Any:
        names = [JoinGroupRequestProtocol(f"range-{i}", b"") for i in range(protocols)]
        answers = ask(node, JoinGroupRequest("g", 10_000, 10_000, member_id, None, "consumer", names))
        cast(ManualClock, node.clock).advance(3_000)
        return answers.one()

    def test_a_leave_of_very_many_members_is_done_in_steps(self, node: Node, submitted: list[Any]) -> None:
        member_id = self.join(node).member_id
        assert self.join(node, member_id).error_code == 0
        submitted.clear()
        members = [MemberIdentity(f"no-{i}") for i in range(MANY)] + [MemberIdentity(member_id)]
        rows = ask(node, LeaveGroupRequest("g", members=members)).one().members
        assert [(row.member_id, row.error_code) for row in rows] == [
            *((f"no-{i}", ErrorCode.UNKNOWN_MEMBER_ID) for i in range(MANY)),
            (member_id, 0),
        ]
        assert [len(one.members) for one in submitted] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 8]
        (group,) = ask(node, DescribeGroupsRequest(["g"])).one().groups
        assert group.group_state == "Empty"
        response = ask(node, LeaveGroupRequest("", members=members)).one()
        assert (response.error_code, list(response.members)) == (ErrorCode.INVALID_GROUP_ID, [])

    def test_a_member_with_too_many_protocols_is_refused(self, node: Node) -> None:
        member_id = self.join(node, protocols=MAX_PROTOCOLS).member_id
        assert self.join(node, member_id, protocols=MAX_PROTOCOLS).error_code == 0
        assert self.join(node, protocols=MAX_PROTOCOLS + 1).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    @pytest.mark.parametrize(("protocols", "at_once"), [(MANY_PROTOCOLS, 30), (MANY_PROTOCOLS + 1, SLICE_MS)])
    def test_joins_of_many_members_with_many_protocols_are_spread_over_loop_iterations(
        self, protocols: int, at_once: int
    ) -> None:
        clock = TickingClock()
        node = make_group_node(FakeTopics(), shards=1, clock=clock)
        submitted = submitted_to(node)
        names = [JoinGroupRequestProtocol(f"range-{i}", b"") for i in range(protocols)]
        requests = [JoinGroupRequest("g", 10_000, 10_000, "", f"i-{n}", "consumer", names) for n in range(30)]
        for request in requests:
            ask(node, request)
        assert 0 < len(submitted) <= at_once
        for _ in range(100):
            clock.advance(1)
        assert [one.group_instance_id for one in submitted] == [one.group_instance_id for one in requests]
