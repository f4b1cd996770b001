"""Requests that are refused, in Kafka's order and with Kafka's messages, which clients receive.

The checks are for the shape of a ConsumerGroupHeartbeat, and for its sender. This module changes nothing. It has the
names of the strategies of the server: those of `group.consumer.assignors`, as short names or as Kafka's classes. A
user's own are known by their names alone: the runtime has the classes.

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from muster.assignors.java_order import string_order
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.consumer.assignments import CurrentAssignment, partition_sets
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import AWAY, LEAVING, ConsumerMember
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."
BY_CLASS: Final[Mapping[str, str]] = MappingProxyType(
    {f"{_PACKAGE}UniformAssignor": "uniform", f"{_PACKAGE}RangeAssignor": "range"}
)
"""Kafka's classes and their names."""


@lru_cache(16)
def names_of(configured: tuple[str, ...]) -> tuple[str, ...]:
    """Their names in their order; the first is the default."""
    return tuple(dict.fromkeys([BY_CLASS.get(one, one) for one in configured]))


ID_BY_MEMBER: int = 1
"""From this version of ConsumerGroupHeartbeat on, members choose their own ids."""


class Refused(Exception):  # not a program error: it is caught where the answer is made
    """A request is refused with this error code and message."""

    def __init__(self, error: int, message: str | None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def _check_text(text: str | None, message: str) -> None:
    if text is not None and not text.strip(_BLANKS):
        raise _invalid(message)


_BLANKS = "".join(map(chr, range(33)))
"""The characters that Java's String.trim removes."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """Check the fields of a heartbeat. Raises Refused."""
    epoch = request.member_epoch
    if version >= ID_BY_MEMBER or epoch > 0 or epoch == LEAVING:
        _check_text(request.member_id, "MemberId can't be empty.")
    _check_text(request.group_id, "GroupId can't be empty.")
    _check_text(request.instance_id, "InstanceId can't be empty.")
    _check_text(request.rack_id, "RackId can't be empty.")
    if epoch == 0:
        _check_first(request)
    elif epoch == AWAY:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < AWAY:
        raise _invalid("MemberEpoch is invalid.")
    assignor, known = request.server_assignor, names_of(settings.group_consumer_assignors)
    if assignor is not None and assignor not in known:
        names = ", ".join(string_order(known))
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {names}.",
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def check_size(group: ConsumerGroup, member_id: str, most: int) -> None:
    """A full group accepts only its members. Raises Refused."""
    if len(group.members) >= most and (not member_id or member_id not in group.members):
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {most} members.",
        )


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """The member of that id. Raises Refused."""
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member of that instance id, if it has this member id. Raises Refused."""
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
    """A static member is replaced only when it has announced that it leaves. Raises Refused."""
    if member.at.epoch != AWAY:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {member.member_id} member.",
        )


def check_epoch(
    member: ConsumerMember, epoch: int, owned: Iterable[ConsumerGroupHeartbeatRequestTopicPartitions] | None
) -> None:
    """Check the epoch that a member sends. Raises Refused.

    It may be its present epoch, or 0 to begin anew. It may be the epoch before, when the answer with the present one
    was lost. Then the member must own nothing that it was not given.
    """
    at = member.at
    if epoch in (0, at.epoch):
        return
    if epoch < at.epoch and epoch == at.previous_epoch and _is_part(owned, at.assigned):
        return
    than = "greater" if epoch > at.epoch else "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({at.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_part(owned: Iterable[ConsumerGroupHeartbeatRequestTopicPartitions] | None, assigned: CurrentAssignment) -> bool:
    if owned is None:
        return False
    had = partition_sets(assigned)
    return all(one.topic_id in had and had[one.topic_id].issuperset(one.partitions) for one in owned)
