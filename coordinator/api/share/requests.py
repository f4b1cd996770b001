"""What ShareFetch and ShareAcknowledge have in common: checks of the whole request, and where leaders are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.runtime.share_partitions.share_partitions import SharePartitions
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.coordinator.share.sessions import Place
from muster.protocol.errors import ErrorCode

MAX_MEMBER_ID: Final = 36
"""The longest member id, in characters: that of a UUID."""
MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""With these errors, an answer says where the leader is (KIP-951)."""


class Refused(Exception):
    """A request that is refused as a whole. `error_code` is the error."""

    def __init__(self, error_code: int) -> None:
        super().__init__(error_code)
        self.error_code = error_code


def checked(
    node: Node, context: RequestContext, group_id: str | None, member_id: str | None
) -> tuple[SharePartitions, str, str]:
    """The share partitions of the node, and the ids of group and member. Raises Refused."""
    shares = node.share_partitions
    if shares is None or not shares.level:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    if group_id is None:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if not node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id):
        raise Refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not member_id or len(member_id) > MAX_MEMBER_ID:
        raise Refused(ErrorCode.INVALID_REQUEST)
    return shares, group_id, member_id


class Hint(NamedTuple):
    """Where the leader of a partition is."""

    leader_id: int
    leader_epoch: int


def leader_of(node: Node, place: Place) -> Hint:
    """The leader of a partition; -1 when it is unknown."""
    topic = node.topics.by_id.get(place.topic_id)
    leaders = () if topic is None else node.cluster.leaders.get(topic.name, ())
    if not 0 <= place.partition < len(leaders):
        return Hint(-1, -1)
    leader = leaders[place.partition]
    return Hint(leader.broker_id, leader.epoch)


class Address(NamedTuple):
    """A node that an answer names, in the order of the fields of NodeEndpoint."""

    node_id: int
    host: str
    port: int
    rack: str | None


def addresses(node: Node, context: RequestContext, hints: Iterable[Hint]) -> list[Address]:
    """The addresses of the leaders."""
    wanted = {hint.leader_id for hint in hints}
    if not wanted:
        return []
    return [
        Address(broker.broker_id, host, port, broker.rack)
        for broker, (host, port) in node.cluster.reachable(context)
        if broker.broker_id in wanted
    ]
