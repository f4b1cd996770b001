"""Checks that refuse requests, in Kafka's order and with Kafka's messages, which clients receive. Changes nothing.

The module also has the names of the server's assignors (`group.consumer.assignors`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Final

from muster.assignors.java_order import string_order
from muster.coordinator.groups.common.refusal import Refused, check_text, invalid
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer import records
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import (
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerMember,
    CurrentAssignment,
    partition_sets,
)
from muster.coordinator.state_machine.interface import Record
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."
BY_CLASS: Final[Mapping[str, str]] = MappingProxyType(
    {f"{_PACKAGE}UniformAssignor": "uniform", f"{_PACKAGE}RangeAssignor": "range"}
)
"""The names of Kafka's assignors, by their Java classes."""


@lru_cache(16)
def names_of(configured: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the configured assignors, in the configured order. The first assignor is the default."""
    return tuple(dict.fromkeys([BY_CLASS.get(one, one) for one in configured]))


ID_BY_MEMBER: int = 1
"""From this version of ConsumerGroupHeartbeat on, members choose their own ids."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """Raise Refused if a field of this heartbeat is invalid."""
    epoch = request.member_epoch
    if version >= ID_BY_MEMBER or epoch > 0 or epoch == LEAVE_GROUP_MEMBER_EPOCH:
        check_text(request.member_id, "MemberId can't be empty.")
    check_text(request.group_id, "GroupId can't be empty.")
    check_text(request.instance_id, "InstanceId can't be empty.")
    check_text(request.rack_id, "RackId can't be empty.")
    if epoch == 0:
        _check_first(request)
    elif epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        if request.instance_id is None:
            raise invalid("InstanceId can't be null.")
    elif epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise invalid("MemberEpoch is invalid.")
    assignor, known = request.server_assignor, names_of(settings.group_consumer_assignors)
    if assignor is not None and assignor not in known:
        names = ", ".join(string_order(known))
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {assignor} is not supported. Supported assignors: {names}."
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def check_size(members: Collection[str], member_id: str, most: int, *, is_known: bool) -> None:
    """Raise Refused for a new member of a full group. `is_known`: the group has the sender's instance id. Then the
    sender takes the place of a member (since Kafka 4.4).
    """
    if len(members) >= most and member_id not in members and not is_known:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {most} members."
        )


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member with this id, and with this instance id if it is not None. Raises Refused."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {group.group_id}."
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member
    member = group.static_member(instance_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def check_released(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    """Raise Refused if the static member to be replaced has not left with epoch -2."""
    if member.position.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {member.member_id} member.",
        )


def check_epoch(
    member: ConsumerMember, epoch: int, owned: Iterable[ConsumerGroupHeartbeatRequestTopicPartitions] | None
) -> None:
    """Raise Refused unless a member sends its present epoch, or 0 to join again. As an answer may be lost, the previous
    epoch is allowed too, if the member owns only its assigned partitions.
    """
    position = member.position
    if epoch in (0, position.epoch):
        return
    if epoch < position.epoch and epoch == position.previous_epoch and _is_part(owned, position.assigned):
        return
    than = "greater" if epoch > position.epoch else "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({position.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_part(owned: Iterable[ConsumerGroupHeartbeatRequestTopicPartitions] | None, assigned: CurrentAssignment) -> bool:
    if owned is None:
        return False
    had = partition_sets(assigned)
    return all(one.topic_id in had and had[one.topic_id].issuperset(one.partitions) for one in owned)


FEW_NAMES: Final = 10_000
"""Up to this many topic names of usual length are encoded in some milliseconds, so they are not counted exactly."""
MAX_NAMES: Final = 20_000
"""How many topics a member may subscribe to by name. A record with this many names of 16 characters is full."""


def check_names(step: Step, names: Collection[str], besides: int = 0) -> None:
    """Raise Refused for too many names, or for names too long for a batch with `besides` other bytes. The names may be
    as many as the request can hold.
    """
    if len(names) > FEW_NAMES or sum(map(len, names)) > step.max_bytes:
        distinct = distinct_names(names)
        if distinct is None or 3 * (besides + sum(map(len, distinct)) + len(distinct)) > step.max_bytes:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def distinct_names(names: Iterable[str]) -> dict[str, None] | None:
    """Each name once, in the order of `names`. None for more than `MAX_NAMES` names; then some are not read."""
    found: dict[str, None] = {}
    rest = iter(names)
    while piece := dict.fromkeys(islice(rest, MAX_NAMES)):
        found |= piece
        if len(found) > MAX_NAMES:
            return None
    return found


def ascending_names(names: Iterable[str]) -> list[str]:
    """Each name once, ascending, as in a member's description. At most `MAX_NAMES` + 1 names are returned."""
    return sorted(islice(distinct_names(names) or dict.fromkeys(names), MAX_NAMES + 1))


def check_bytes(step: Step, protocols: Iterable[tuple[str, bytes]]) -> int:
    """Raise Refused if a classic member's metadata is too long for a batch. Returns the bytes of the metadata."""
    count = sum([len(metadata) for _, metadata in protocols])
    if 3 * count > step.max_bytes:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return count


def check_fits(step: Step, made: Record) -> None:
    """Raise Refused if a member's description does not fit into a batch with the member's other records."""
    if records.is_more_than_fits(step, [made], 3):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
