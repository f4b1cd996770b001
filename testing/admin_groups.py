"""Groups of a cluster that is there, by Kafka's own requests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.coordinator.cli.cluster import AskingFailed, Cluster, Connection, sentence
from muster.coordinator.rehearsal.errors import CannotBeDone
from muster.coordinator.rehearsal.look import read_assignment, read_subscription
from muster.coordinator.rehearsal.views import DEAD, GroupView, MemberView, Offsets, Owned, no_group
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode, error_name
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.testing.admin_topics import AdminTopics

PATIENCE_S: Final = 15.0
"""How long a coordinator is waited for: a new cluster makes its topic for them first."""


def coordinator_of(cluster: Cluster, group_id: str) -> Connection:
    """The node that coordinates the group. Raises AskingFailed."""
    due_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return cluster.coordinator(group_id)
        except AskingFailed as failure:
            if error_name(ErrorCode.COORDINATOR_NOT_AVAILABLE) not in str(failure) or time.monotonic() > due_s:
                raise
        time.sleep(0.05)


def group_ids(cluster: Cluster) -> list[str]:
    """The groups there are, ascending."""
    found: set[str] = set()
    for node in cluster.every_node():
        found.update(one.group_id for one in node.ask(ApiKey.LIST_GROUPS, ListGroupsRequest()).groups)
    return sorted(found)


def describe(cluster: Cluster, topics: AdminTopics, group_id: str) -> GroupView:
    """The group as it is now, by some requests one after the other."""
    node = coordinator_of(cluster, group_id)
    kind, state, generation, protocol = "", DEAD, -1, None
    members: tuple[MemberView, ...] = ()
    if node.speaks(ApiKey.CONSUMER_GROUP_DESCRIBE):
        row = node.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest([group_id])).groups[0]
        if not row.error_code:
            kind, state, generation, protocol = "consumer", row.group_state, row.group_epoch, row.assignor_name
            members = tuple(_consumer(row, one) for one in row.members)
    if not kind:
        row = node.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group_id])).groups[0]
        if row.error_code and row.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise CannotBeDone(f"group {group_id}: {sentence(row.error_code)}")
        if row.error_code or row.group_state == DEAD:
            return no_group(group_id)
        kind, state, protocol = "classic", row.group_state, row.protocol_data or None
        members = tuple(_classic(row, one) for one in row.members)
    offsets = _offsets(node, group_id)
    known = set(topics.names())
    of = {name for member in members for name in (*member.assignment, *member.target, *member.subscribed)}
    wanted = sorted((of | set(offsets)) & known)
    ends = {name: topics.end_offsets(name) for name in wanted}
    starts = {name: topics.start_offsets(name) for name in wanted}
    return GroupView(group_id, kind, state, generation, protocol, members, offsets, ends, starts)


def _classic(group: Any, row: Any) -> MemberView:
    owned = read_assignment(bytes(row.member_assignment))
    is_settled = group.group_state == "Stable"
    doing = "has its assignment" if is_settled else f"is in a group that is {group.group_state}"
    subscribed = read_subscription(bytes(row.member_metadata)) if group.protocol_type == "consumer" else ()
    return MemberView(
        row.member_id, row.group_instance_id, row.client_id, row.client_host, "classic", -1, doing, owned, owned, {},
        subscribed, is_settled=is_settled,
    )  # fmt: skip


def _consumer(group: Any, row: Any) -> MemberView:
    owned, target = _owned(row.assignment), _owned(row.target_assignment)
    is_settled = row.member_epoch == group.group_epoch and owned == target
    doing = "has come to its target" if is_settled else f"has not come to epoch {group.group_epoch} yet"
    return MemberView(
        row.member_id, row.instance_id, row.client_id, row.client_host, "consumer", row.member_epoch, doing, owned,
        target, {}, tuple(row.subscribed_topic_names), is_settled=is_settled,
    )  # fmt: skip


def _owned(assignment: Any) -> Owned:
    rows = sorted(assignment.topic_partitions, key=lambda row: row.topic_name)
    return {one.topic_name: tuple(sorted(one.partitions)) for one in rows}


def _offsets(node: Any, group_id: str) -> Offsets:
    answer = node.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None)]))
    return {
        topic.name: {one.partition_index: one.committed_offset for one in sorted(topic.partitions, key=_index)}
        for group in answer.groups
        for topic in group.topics
    }


def _index(row: Any) -> int:
    return int(row.partition_index)


def remove_member(cluster: Cluster, group: GroupView, name: str) -> None:
    """As kafka-consumer-groups and the admin clients do. Raises CannotBeDone."""
    member = group.member(name)
    if member is None:
        raise CannotBeDone(f"there is no member {name!r}, or more than one of that name:\n{group}")
    identity = MemberIdentity(member.member_id, member.instance_id, "removed by a test")
    request = LeaveGroupRequest(group.group_id, members=[identity])
    answer = coordinator_of(cluster, group.group_id).ask(ApiKey.LEAVE_GROUP, request)
    error = answer.error_code or answer.members[0].error_code
    if error:
        raise CannotBeDone(f"member {name} cannot be removed: {sentence(error)}")


def reset(cluster: Cluster, topics: AdminTopics, group: GroupView, to: Any, names: Iterable[str]) -> Offsets:
    """Set the offsets of a group without members. Raises CannotBeDone."""
    if group.members:
        raise CannotBeDone(f"group {group.group_id} has members: stop its consumers before its offsets are reset")
    wanted: dict[str, dict[int, int]] = {}
    if isinstance(to, Mapping):
        for (topic, index), offset in to.items():
            wanted.setdefault(topic, {})[index] = offset
    else:
        for name in tuple(names) or tuple(group.offsets):
            ends = topics.start_offsets(name) if to == "earliest" else topics.end_offsets(name)
            wanted[name] = {one: int(to) for one in ends} if isinstance(to, int) else ends
    if not wanted:
        raise CannotBeDone("it is not said of which topics the offsets are to be reset")
    rows = [
        OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(*row) for row in places.items()])
        for name, places in wanted.items()
    ]
    answer = coordinator_of(cluster, group.group_id).ask(
        ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group.group_id, topics=rows)
    )
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code:
                place = f"{topic.name}-{one.partition_index}"
                raise CannotBeDone(f"the offset of {place} was refused: {sentence(one.error_code)}")
    return wanted
