"""The largest requests about groups and their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.protocol.message import Message
from muster.protocol.messages import alter_share_group_offsets as aso
from muster.protocol.messages import consumer_group_describe as cgd
from muster.protocol.messages import consumer_group_heartbeat as cgh
from muster.protocol.messages import delete_groups as dg
from muster.protocol.messages import delete_share_group_offsets as dsd
from muster.protocol.messages import describe_groups as deg
from muster.protocol.messages import describe_share_group_offsets as dso
from muster.protocol.messages import heartbeat as hb
from muster.protocol.messages import incremental_alter_configs as iac
from muster.protocol.messages import join_group as jg
from muster.protocol.messages import leave_group as lg
from muster.protocol.messages import list_groups as lsg
from muster.protocol.messages import offset_commit as oc
from muster.protocol.messages import offset_delete as od
from muster.protocol.messages import offset_fetch as of
from muster.protocol.messages import share_group_describe as sgd
from muster.protocol.messages import share_group_heartbeat as sgh
from muster.protocol.messages import streams_group_describe as stgd
from muster.protocol.messages import streams_group_heartbeat as stgh
from muster.protocol.messages import streams_group_topology_description_update as sttu
from muster.protocol.messages import sync_group as sg
from tests.worst.cases.case import CAPTURES, ELEMENTS, LONG_GROUPS, MANY, Case, fresh, wide
from tests.worst.state import (
    CLASSIC,
    COMMITTED,
    CONSUMER,
    PATTERNS,
    WIDE,
    State,
    beating,
    config,
    group_name,
    joining,
    leader_instance,
    topic_name,
)


def joined(s: State, n: int) -> Iterator[Message]:
    yield joining(0)


def joined_with_protocols(s: State, n: int) -> Iterator[Message]:
    rows = [jg.JoinGroupRequestProtocol(f"p{i}", b"m" * 1_000) for i in range(n)]
    yield jg.JoinGroupRequest(f"new-{fresh(1)[0]}", 10_000, 10_000, "", None, "consumer", rows, None)


def synced(s: State, n: int) -> Iterator[Message]:
    leader = s.classic
    rows = [sg.SyncGroupRequestAssignment(row.member_id, b"a" * 200) for row in leader.members]
    instance = leader_instance(leader)
    yield sg.SyncGroupRequest(CLASSIC, leader.generation_id, leader.member_id, instance, "consumer", "range", rows)


def beaten(s: State, n: int) -> Iterator[Message]:
    leader = s.classic
    yield hb.HeartbeatRequest(CLASSIC, leader.generation_id, leader.member_id, leader_instance(leader))


def left(s: State, n: int) -> Iterator[Message]:
    yield lg.LeaveGroupRequest(CLASSIC, "m", [lg.MemberIdentity("", f"nobody-{i}") for i in range(n)])
    yield lg.LeaveGroupRequest("gone", "m", [lg.MemberIdentity(f"{i}") for i in range(n)])


def left_with_metadata(s: State, n: int) -> Iterator[Message]:
    """A member with much metadata leaves: its event contains the metadata."""
    group = f"fat-{fresh(1)[0]}"
    rows = [jg.JoinGroupRequestProtocol("range", b"m" * 1_024 * n)]
    yield jg.JoinGroupRequest(group, 10_000, 10_000, "", "one", "consumer", rows, None)
    yield lg.LeaveGroupRequest(group, "", [lg.MemberIdentity("", "one")])


def described_members(s: State, n: int) -> Iterator[Message]:
    yield deg.DescribeGroupsRequest([CLASSIC])


def described_groups(s: State, n: int) -> Iterator[Message]:
    yield deg.DescribeGroupsRequest([group_name(i) for i in range(n)])


def listed_groups(s: State, n: int) -> Iterator[Message]:
    yield lsg.ListGroupsRequest()


def deleted_groups(s: State, n: int) -> Iterator[Message]:
    names = [group_name(i) for i in fresh(min(n, 100))]
    rows = [oc.OffsetCommitRequestPartition(0, 1)]
    for name in names:
        yield oc.OffsetCommitRequest(name, topics=[oc.OffsetCommitRequestTopic(WIDE, s.wide_id, rows)])
    yield dg.DeleteGroupsRequest(names)
    yield dg.DeleteGroupsRequest([group_name(i) for i in fresh(n)])


def committed(s: State, n: int) -> Iterator[Message]:
    rows = [oc.OffsetCommitRequestPartition(i % s.size, 1, -1, "m" * 100) for i in wide(n)]
    yield oc.OffsetCommitRequest("committing", topics=[oc.OffsetCommitRequestTopic(WIDE, s.wide_id, rows)])


def fetched_offsets(s: State, n: int) -> Iterator[Message]:
    rows = [of.OffsetFetchRequestTopics(WIDE, s.wide_id, [*wide(n)])]
    old = [of.OffsetFetchRequestTopic(WIDE, [*wide(n)])]
    yield of.OffsetFetchRequest(COMMITTED, old, [of.OffsetFetchRequestGroup(COMMITTED, topics=rows)])
    groups = [of.OffsetFetchRequestGroup(COMMITTED, topics=None)]
    yield of.OffsetFetchRequest(COMMITTED, old, groups)


def fetched_offsets_of_groups(s: State, n: int) -> Iterator[Message]:
    groups = [of.OffsetFetchRequestGroup(group_name(i), topics=None) for i in range(n)]
    yield of.OffsetFetchRequest(groups=groups)


def deleted_offsets(s: State, n: int) -> Iterator[Message]:
    rows = [od.OffsetDeleteRequestPartition(i) for i in range(n, 2 * n)]
    yield od.OffsetDeleteRequest(COMMITTED, [od.OffsetDeleteRequestTopic(WIDE, rows)])
    yield od.OffsetDeleteRequest(CLASSIC, [od.OffsetDeleteRequestTopic(WIDE, rows)])


def subscribed(s: State, n: int) -> Iterator[Message]:
    """A member of a large group subscribes to many names, of existing topics and of others."""
    yield beating(CONSUMER, "many", [topic_name(i) for i in range(n)])
    yield beating(f"alone-{fresh(1)[0]}", "many", [f"T{i:015}" for i in range(n)])


def subscribed_together(s: State, n: int) -> Iterator[Message]:
    """Few members, each with many names of topics that do not exist."""
    group = f"few-{fresh(1)[0]}"
    for member in range(3):
        yield beating(group, f"m{member}", [f"T{i:015}" for i in range(n)])


def followed(s: State, n: int) -> Iterator[Message]:
    """Two members share all existing topics: each of their steps handles all topics, or half of them."""
    group, names = f"topics-{fresh(1)[0]}", [topic_name(i) for i in range(min(n, s.size))]
    epochs, owned = {"a": 0, "b": 0}, dict[str, list[Any]]()
    rows = [config(32, group, "consumer.assignment.interval.ms", "0")]
    yield iac.IncrementalAlterConfigsRequest(rows)
    for member in ("a", "a", "b", "a", "a", "b", "b"):
        joins = member not in owned
        request = beating(group, member, names if joins else None)
        if not joins:
            request.member_epoch, request.rebalance_timeout_ms = epochs[member], -1
            request.topic_partitions = owned[member]
        yield request
        answer = s.node.link.answers[-1]
        epochs[member] = answer.member_epoch
        owned.setdefault(member, [])
        if answer.assignment is not None:
            owned[member] = [
                cgh.ConsumerGroupHeartbeatRequestTopicPartitions(row.topic_id, row.partitions)
                for row in answer.assignment.topic_partitions
            ]


def subscribed_by_pattern(s: State, n: int) -> Iterator[Message]:
    group = f"pattern-{fresh(1)[0]}"
    yield cgh.ConsumerGroupHeartbeatRequest(group, "m", 0, None, None, 60_000, None, CAPTURES, None, [])


def beaten_by_consumer(s: State, n: int) -> Iterator[Message]:
    owned = [cgh.ConsumerGroupHeartbeatRequestTopicPartitions(s.wide_id, [*wide(n)])]
    yield cgh.ConsumerGroupHeartbeatRequest(CONSUMER, "m0", s.size // 4, None, None, -1, None, None, None, owned)


def described_consumer_members(s: State, n: int) -> Iterator[Message]:
    yield cgd.ConsumerGroupDescribeRequest([CONSUMER, PATTERNS])


def described_consumers(s: State, n: int) -> Iterator[Message]:
    yield cgd.ConsumerGroupDescribeRequest([group_name(i) for i in range(n)])


def share_beating(group: str, member: str, names: list[str] | None, epoch: int = 0) -> Message:
    return sgh.ShareGroupHeartbeatRequest(group, member, epoch, None, names)


def share_names(s: State, n: int) -> Iterator[Message]:
    """Members subscribe to many names, of topics that do not exist."""
    group = f"share-{fresh(1)[0]}"
    for member in range(3):
        yield share_beating(group, f"m{member}", [f"T{i:015}" for i in range(n)])


def shared_partitions(s: State, n: int) -> Iterator[Message]:
    """Members share existing topics, and the partitions of one large topic."""
    group, names = f"share-{fresh(1)[0]}", [WIDE, *[topic_name(i) for i in range(min(n, s.size))]]
    for member in ("a", "a", "b", "a", "b"):
        yield share_beating(group, member, names)


def _streams_heartbeat(topology: Any, member: str = "m") -> Message:
    return stgh.StreamsGroupHeartbeatRequest(
        f"streams-{fresh(1)[0]}", member, 0, rebalance_timeout_ms=60_000, topology=topology, active_tasks=[],
        standby_tasks=[], warmup_tasks=[], process_id=member,
    )  # fmt: skip


def large_topology(s: State, n: int) -> Iterator[Message]:
    """An application of many subtopologies with existing topics, stores and copartition groups."""
    rows = [
        stgh.Subtopology(f"{i:015}", [topic_name(i % s.size)], [], [stgh.TopicInfo(f"store-{i:015}")], [], [],
                         [stgh.CopartitionGroup([0], [], [])])
        for i in range(n // 3)
    ]  # fmt: skip
    yield _streams_heartbeat(stgh.Topology(0, rows))


def reported_tasks(s: State, n: int) -> Iterator[Message]:
    """Members of an application with a store report offsets of all of its tasks, and of more."""
    topology = stgh.Topology(0, [stgh.Subtopology("0", [WIDE], [], [stgh.TopicInfo(f"store-{fresh(1)[0]}")])])
    group = ""
    for member in ("a", "a", "b", "a", "b", "a"):
        beat: Any = _streams_heartbeat(topology, member)
        beat.group_id = group = group or beat.group_id
        beat.task_offsets = [stgh.TaskOffset("0", i, i) for i in range(n)]
        beat.task_end_offsets = [stgh.TaskOffset("0", i, 1 << 62) for i in range(n)]
        yield beat


def described_topology(s: State, n: int) -> Iterator[Message]:
    nodes = [sttu.TopologyDescriptionNode(f"{i:015}") for i in range(n)]
    description = sttu.TopologyDescription([sttu.TopologyDescriptionSubtopology("0", nodes)])
    yield sttu.StreamsGroupTopologyDescriptionUpdateRequest("g", "m", 0, description)


def described_streams_groups(s: State, n: int) -> Iterator[Message]:
    yield stgd.StreamsGroupDescribeRequest([group_name(i) for i in range(n)])


def described_share_groups(s: State, n: int) -> Iterator[Message]:
    yield sgd.ShareGroupDescribeRequest([group_name(i) for i in range(n)])


def described_share_offsets(s: State, n: int) -> Iterator[Message]:
    rows = [dso.DescribeShareGroupOffsetsRequestTopic(WIDE, [*range(n)])]
    yield dso.DescribeShareGroupOffsetsRequest([dso.DescribeShareGroupOffsetsRequestGroup("share", rows)])


def altered_share_offsets(s: State, n: int) -> Iterator[Message]:
    rows = [aso.AlterShareGroupOffsetsRequestPartition(i, 1) for i in range(n - 1)]
    group = f"share-{fresh(1)[0]}"
    yield aso.AlterShareGroupOffsetsRequest(group, [aso.AlterShareGroupOffsetsRequestTopic(WIDE, rows)])
    yield dso.DescribeShareGroupOffsetsRequest([dso.DescribeShareGroupOffsetsRequestGroup(group, None)])
    yield dg.DeleteGroupsRequest([group])


def deleted_share_offsets(s: State, n: int) -> Iterator[Message]:
    group, count = f"share-{fresh(1)[0]}", min(n // 2, s.size)
    rows = [aso.AlterShareGroupOffsetsRequestPartition(0, 1)]
    topics = [aso.AlterShareGroupOffsetsRequestTopic(topic_name(i), rows) for i in range(count)]
    yield aso.AlterShareGroupOffsetsRequest(group, topics)
    names = [dsd.DeleteShareGroupOffsetsRequestTopic(topic_name(i)) for i in range(n)]
    yield dsd.DeleteShareGroupOffsetsRequest(group, names)


def described_share_members(s: State, n: int) -> Iterator[Message]:
    group = f"share-{fresh(1)[0]}"
    for member in range(4):
        yield share_beating(group, f"m{member}", [topic_name(i) for i in range(min(n, s.size))])
    yield sgd.ShareGroupDescribeRequest([group])


CASES: Final[dict[str, tuple[Case, ...]]] = {
    "OffsetCommit": (Case("partitions", ELEMENTS, committed),),
    "OffsetFetch": (
        Case("partitions", ELEMENTS, fetched_offsets), Case("groups", LONG_GROUPS, fetched_offsets_of_groups, 8),
    ),
    "JoinGroup": (Case("members", 1_000, joined, 5), Case("protocols", 100, joined_with_protocols),),
    "Heartbeat": (Case("members", 1_000, beaten, 3),),
    "LeaveGroup": (
        Case("members", ELEMENTS, left, 3), Case("kilobytes of metadata", 32_000, left_with_metadata, 3),
    ),
    "SyncGroup": (Case("assignments", 1_000, synced, 5),),
    "DescribeGroups": (Case("groups", LONG_GROUPS, described_groups), Case("members", 1_000, described_members)),
    "ListGroups": (Case("groups", MANY, listed_groups),),
    "DeleteGroups": (Case("groups", LONG_GROUPS, deleted_groups),),
    "OffsetDelete": (Case("partitions", ELEMENTS, deleted_offsets),),
    "ConsumerGroupHeartbeat": (
        Case("names", 20_000, subscribed), Case("names of each member", 20_000, subscribed_together),
        Case("topics of each member", 20_000, followed), Case("topics by a pattern", MANY, subscribed_by_pattern, 1),
        Case("partitions", ELEMENTS, beaten_by_consumer),
    ),
    "ConsumerGroupDescribe": (
        Case("groups", LONG_GROUPS, described_consumers), Case("members", 4_000, described_consumer_members),
    ),
    "ShareGroupHeartbeat": (
        Case("names", 20_000, share_names), Case("topics", 1_200, shared_partitions, known=5_300_000),
    ),
    "ShareGroupDescribe": (
        Case("groups", LONG_GROUPS, described_share_groups), Case("members", 2_000, described_share_members),
    ),
    "DescribeShareGroupOffsets": (Case("partitions", 20_000, described_share_offsets),),
    "AlterShareGroupOffsets": (Case("partitions", 5_000, altered_share_offsets),),
    "DeleteShareGroupOffsets": (Case("topics", 5_000, deleted_share_offsets),),
    "StreamsGroupHeartbeat": (
        Case("subtopologies", 2_000, large_topology),
        Case("offsets of tasks", 20_000, reported_tasks),
    ),
    "StreamsGroupDescribe": (Case("groups", LONG_GROUPS, described_streams_groups),),
    "StreamsGroupTopologyDescriptionUpdate": (Case("nodes", 50_000, described_topology),),
}  # fmt: skip
"""The cases by the API's name."""
