"""The verbs on groups, done with Kafka's own requests, for a cluster that this program has not started."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from muster.client.connection import Connection, RequestFailed, sentence
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import show
from muster.coordinator.server.group_snapshots import read_assignment, read_subscription
from muster.coordinator.server.group_views import DEAD, GroupView, MemberView, Offsets, Owned, RecordsView, no_group
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.describe_groups import DescribeGroupsRequest
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.list_groups import ListGroupsRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from muster.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from muster.testcontrol.errors import CannotBeDone
from muster.testing.admin_topics import AdminTopics

T = TypeVar("T")

PATIENCE_S: Final = 15.0
"""How long a call waits for a coordinator. A new cluster first creates its topic; a dead coordinator is replaced."""
GROUP_RESOURCE: Final = 32
"""ConfigResource.Type.GROUP."""
CHECK_S: Final = 0.05
"""The pause between two checks of a wait."""
_ELSEWHERE: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class _Elsewhere(Exception):
    """The coordinator moves, or is not ready."""


def asked_of_coordinator(cluster: KafkaClient, group_id: str, ask: Callable[[Connection], T]) -> T:
    """The result of `ask(coordinator)`, which is called again while the coordinator moves. Raises RequestFailed,
    CannotBeDone, and what `ask` raises.
    """
    due_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask(cluster.coordinator(group_id))
        except RequestFailed:
            if time.monotonic() > due_s:
                raise
        except _Elsewhere as why:
            if time.monotonic() > due_s:
                raise CannotBeDone(f"group {group_id} has no coordinator after {PATIENCE_S:g} s: {why}") from why
        time.sleep(CHECK_S)


def coordinator_of(cluster: KafkaClient, group_id: str) -> Connection:
    """The node that coordinates the group. Raises RequestFailed."""
    return asked_of_coordinator(cluster, group_id, lambda node: node)


def group_ids(cluster: KafkaClient) -> list[str]:
    """The ids of all groups, ascending."""
    due_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            cluster.refresh_nodes()
            found: set[str] = set()
            for node in cluster.every_node():
                answer = node.ask(ApiKey.LIST_GROUPS, ListGroupsRequest())
                _there(answer.error_code)
                found.update(one.group_id for one in answer.groups)
            return sorted(found)
        except (RequestFailed, _Elsewhere) as failure:
            if time.monotonic() > due_s:
                raise CannotBeDone(f"the groups cannot be listed: {failure}") from failure
        time.sleep(CHECK_S)


def _there(error_code: int) -> None:
    if error_code in _ELSEWHERE:
        raise _Elsewhere(sentence(error_code))


def describe(cluster: KafkaClient, topics: AdminTopics, group_id: str) -> GroupView:
    """Describe the group as it is now. The answers of several requests are put together."""
    node, view = asked_of_coordinator(cluster, group_id, lambda node: (node, _described(node, group_id)))
    known = set(topics.names())
    of = {name for member in view.members for name in (*member.assignment, *member.target, *member.subscribed)}
    wanted = sorted((of | set(view.offsets)) & known)
    ends = {name: topics.end_offsets(name) for name in wanted}
    starts = {name: topics.start_offsets(name) for name in wanted}
    at = next((one for one, address in cluster.nodes.items() if show(*address) == node.address), -1)
    records = {
        topic: {one: _with_end(its, ends.get(topic, {}).get(one, -1)) for one, its in rows.items()}
        for topic, rows in view.records.items()
    }
    return replace(view, end_offsets=ends, starts=starts, node=at, records=records)


def _with_end(its: RecordsView, end: int) -> RecordsView:
    """The records of a partition with this end. Which of the open records is the first is only known without lag."""
    return replace(its, end_offset=end, first_open=its.first_open if its.lag else end)


def _described(node: Connection, group_id: str) -> GroupView:
    if node.supports(ApiKey.CONSUMER_GROUP_DESCRIBE):
        row = node.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest([group_id])).groups[0]
        _there(row.error_code)
        if not row.error_code:
            members = tuple(_consumer(row, one) for one in row.members)
            facts = row.group_state, row.group_epoch, row.assignor_name
            return GroupView(group_id, "consumer", *facts, members, _offsets(node, group_id), {}, {})
    if node.supports(ApiKey.SHARE_GROUP_DESCRIBE):
        shared = node.ask(ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest([group_id])).groups[0]
        _there(shared.error_code)
        if not shared.error_code:
            members = tuple(_share(shared, one) for one in shared.members)
            facts = shared.group_state, shared.group_epoch, shared.assignor_name
            records = _records(node, group_id)
            offsets = {topic: {one: its.start_offset for one, its in rows.items()} for topic, rows in records.items()}
            return GroupView(group_id, "share", *facts, members, offsets, {}, {}, records=records)
    row = node.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group_id])).groups[0]
    _there(row.error_code)
    if row.error_code and row.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        raise CannotBeDone(f"group {group_id}: {sentence(row.error_code)}")
    if row.error_code or row.group_state == DEAD:
        return no_group(group_id)
    members = tuple(_classic(row, one) for one in row.members)
    facts = row.group_state, -1, row.protocol_data or None
    return GroupView(group_id, "classic", *facts, members, _offsets(node, group_id), {}, {})


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


def _share(group: Any, row: Any) -> MemberView:
    owned = _owned(row.assignment)
    is_settled = row.member_epoch == group.group_epoch
    doing = "has come to its target" if is_settled else f"has not come to epoch {group.group_epoch} yet"
    return MemberView(
        row.member_id, None, row.client_id, row.client_host, "share", row.member_epoch, doing, owned, owned, {},
        tuple(row.subscribed_topic_names), is_settled=is_settled,
    )  # fmt: skip


def _records(node: Connection, group_id: str) -> dict[str, dict[int, RecordsView]]:
    """The records of a share group, as far as Kafka reports them: start offsets and lags."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)])
    (group,) = node.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request).groups
    _there(group.error_code)
    return {
        topic.topic_name: {
            one.partition_index: RecordsView(one.start_offset, -1, max(one.start_offset, 0), one.lag)
            for one in sorted(topic.partitions, key=_index)
        }
        for topic in group.topics
    }


def _owned(assignment: Any) -> Owned:
    rows = sorted(assignment.topic_partitions, key=lambda row: row.topic_name)
    return {one.topic_name: tuple(sorted(one.partitions)) for one in rows}


def _offsets(node: Connection, group_id: str) -> Offsets:
    answer = node.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None)]))
    for group in answer.groups:
        _there(group.error_code)
        if group.error_code:
            raise CannotBeDone(f"the offsets of group {group_id}: {sentence(group.error_code)}")
    return {
        topic.name: {one.partition_index: one.committed_offset for one in sorted(topic.partitions, key=_index)}
        for group in answer.groups
        for topic in group.topics
    }


def _index(row: Any) -> int:
    return int(row.partition_index)


def configure(cluster: KafkaClient, group_id: str, configs: Mapping[str, str]) -> None:
    """Set configs of a group. Raises CannotBeDone where the broker refuses."""
    rows = [AlterableConfig(name, 0, value) for name, value in configs.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group_id, rows)])
    (row,) = cluster.bootstrap.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request).responses
    if row.error_code:
        why = sentence(row.error_code, row.error_message)
        raise CannotBeDone(f"the configs of group {group_id} were refused: {why}")


def remove_member(cluster: KafkaClient, group: GroupView, name: str) -> None:
    """Remove a member as kafka-consumer-groups and the admin clients do. Raises CannotBeDone."""
    member = group.member(name)
    if member is None:
        raise CannotBeDone(f"there is no member {name!r}, or more than one of that name:\n{group}")
    identity = MemberIdentity(member.member_id, member.instance_id, "removed by a test")
    request = LeaveGroupRequest(group.group_id, members=[identity])

    def ask(node: Connection) -> int:
        answer = node.ask(ApiKey.LEAVE_GROUP, request)
        error = answer.error_code or answer.members[0].error_code
        _there(error)
        return int(error)

    error = asked_of_coordinator(cluster, group.group_id, ask)
    if error:
        raise CannotBeDone(f"member {name} cannot be removed: {sentence(error)}")


def reset(cluster: KafkaClient, topics: AdminTopics, group: GroupView, to: Any, names: Iterable[str]) -> Offsets:
    """Set the committed offsets of a group without members. Raises CannotBeDone."""
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
        raise CannotBeDone("name the topics whose offsets are to be reset")
    rows = [
        OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(*row) for row in places.items()])
        for name, places in wanted.items()
    ]
    request = OffsetCommitRequest(group.group_id, topics=rows)
    asked_of_coordinator(cluster, group.group_id, lambda node: _committed(node, request))
    return wanted


def _committed(node: Connection, request: OffsetCommitRequest) -> None:
    answer = node.ask(ApiKey.OFFSET_COMMIT, request)
    refused = [(topic.name, one) for topic in answer.topics for one in topic.partitions if one.error_code]
    for name, one in refused:
        _there(one.error_code)
        place = f"{name}-{one.partition_index}"
        raise CannotBeDone(f"the offset of {place} was refused: {sentence(one.error_code)}")
