"""The scripted consumer: a member of a classic group, or a client that tries to become a member.

It joins in two steps, the leader assigns, all members sync, and then it works until the group rebalances. A subclass
decides what the consumer offers, what it does while it works, and which faults it has. Its requests and their answers
are messages in the newest version. The world takes them to a core, to shards or to a whole server, as messages or as
bytes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from muster.simulation.actor import Actor, Script

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition."""
Step = Generator[Any, Any, bool]
"""A part of a script. Its result is False if the consumer is to join again."""
Joining = Generator[Any, Any, JoinGroupResponse | None]
"""A part of a script. Its result is the response that admitted the consumer, or None if the consumer gives up."""

NO_ID: Final = bytes(16)
OVER: Final = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors of JoinGroup after which a consumer gives up."""


class Consumer(Actor):
    """A consumer process. `instance` makes it a static member.

    `names_instance`: the instance id in its heartbeats and commits. aiokafka has the instance id only in JoinGroup and
    SyncGroup.
    """

    protocol_type = "consumer"
    retry_ms = 100
    """The pause after an error before the consumer repeats its request."""
    asks_again = True
    """Whether the consumer repeats a JoinGroup that was not answered. Otherwise it gives up."""

    def __init__(
        self,
        world: Any,
        name: str,
        group_id: str,
        instance: str | None = None,
        *,
        session_ms: int,
        rebalance_ms: int,
        host: str = "/10.0.0.1",
    ) -> None:
        """`host`: the host of the client, as the coordinator sees it."""
        super().__init__(world, name, host)
        self.group_id = group_id
        self.instance = self.names_instance = instance
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.member_id = self.leader_id = ""
        self.generation = -1
        self.joins = 0
        """The number of JoinGroups that the consumer has sent."""
        self.reason: str | None = None
        """The reason in its next JoinGroup."""
        self.assigned: bytes | None = None
        """Its assignment. It is None from when the consumer joins again until the next assignment."""

    # ---- the differences between consumers

    def offers(self) -> list[JoinGroupRequestProtocol]:
        """The strategies that the consumer offers, each with its metadata."""
        raise NotImplementedError

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        """The assignment of each member, which this consumer makes as the leader."""
        raise NotImplementedError

    def work(self) -> Step:
        """Work as a member. The result is False when the group rebalances, and True when the consumer has left."""
        raise NotImplementedError

    def reported_id(self) -> Script:
        """Called when the consumer has got a member id, before it joins again with this id."""
        yield from ()

    # ---- the script

    def live(self) -> Script:
        """Join, sync and work, again and again, until the consumer gives up or leaves."""
        while True:
            self.assigned = None
            joined = yield from self.join()
            if joined is None:
                return
            if (yield from self.sync(joined)) and (yield from self.work()):
                return

    def join(self) -> Joining:
        """Send JoinGroup until the group admits it."""
        while True:
            self.joins += 1
            response = yield self.join_request()
            if response is None:
                if self.asks_again:
                    continue
                return None
            error = response.error_code
            if not error:
                self.member_id, self.generation = response.member_id, response.generation_id
                self.leader_id = response.leader
                return response  # type: ignore[no-any-return]  # what comes for a JoinGroup
            if error in OVER:
                return None
            if error == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                yield from self.reported_id()
                continue
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self.forget()
            if self.retry_ms:
                yield self.retry_ms

    def sync(self, joined: JoinGroupResponse) -> Step:
        """Send SyncGroup. The leader's SyncGroup has all assignments.

        Returns whether the consumer's own assignment has come.
        """
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        shares = self.assign(joined) if leads else {}
        response = yield self.sync_request(joined.protocol_type, joined.protocol_name, shares)
        if response is None:
            return False
        if not response.error_code:
            self.assigned = response.assignment
            return True
        self.react_to(response.error_code)
        if self.retry_ms and response.error_code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS):
            yield self.retry_ms
        return False

    def react_to(self, error: int) -> None:
        """React to an error of a member's request.

        UNKNOWN_MEMBER_ID makes the consumer forget its member id. FENCED_INSTANCE_ID ends the consumer.
        """
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self.kill()

    def forget(self) -> None:
        self.member_id, self.generation = "", -1

    # ---- its requests

    def join_request(self) -> JoinGroupRequest:
        """The next JoinGroup, as a new member or as a member that joins again."""
        return JoinGroupRequest(
            self.group_id, self.session_ms, self.rebalance_ms, self.member_id, self.instance, self.protocol_type,
            self.offers(), self.reason,
        )  # fmt: skip

    def sync_request(self, kind: str | None, protocol: str | None, shares: Mapping[str, bytes]) -> SyncGroupRequest:
        rows = [SyncGroupRequestAssignment(member_id, share) for member_id, share in shares.items()]
        return SyncGroupRequest(self.group_id, self.generation, self.member_id, self.instance, kind, protocol, rows)

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(self.group_id, self.generation, self.member_id, self.names_instance)

    def commit_of(self, topics: list[OffsetCommitRequestTopic]) -> OffsetCommitRequest:
        return OffsetCommitRequest(self.group_id, self.generation, self.member_id, self.names_instance, -1, topics)

    def leave(self, reason: str) -> LeaveGroupRequest:
        return leave_of(self.group_id, self.member_id, None, reason)


def leave_of(group_id: str, member_id: str, instance: str | None, reason: str) -> LeaveGroupRequest:
    """A LeaveGroup: a member leaves, or an administrator removes a member by its instance id alone."""
    return LeaveGroupRequest(group_id, "", [MemberIdentity(member_id, instance, reason)])


def rows_of(offsets: Offsets, leader_epoch: int = -1, metadata: str = "") -> list[OffsetCommitRequestTopic]:
    """The rows of an OffsetCommit with these offsets."""
    return [
        OffsetCommitRequestTopic(
            topic, NO_ID, [OffsetCommitRequestPartition(one, at, leader_epoch, metadata) for one, at in rows.items()]
        )
        for topic, rows in offsets.items()
    ]


def fetch_of(group_id: str, partitions: Mapping[str, Any] | None) -> OffsetFetchRequest:
    """An OffsetFetch for the committed offsets of these partitions, by topic. None means all partitions."""
    wanted = None
    if partitions is not None:
        wanted = [OffsetFetchRequestTopics(topic, NO_ID, list(rows)) for topic, rows in partitions.items()]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, None, -1, wanted)])


def offsets_of(response: Any) -> dict[str, dict[int, int]]:
    """The offsets in the answer to an OffsetFetch of one group, by topic and partition."""
    return {
        topic.name: {one.partition_index: one.committed_offset for one in topic.partitions}
        for topic in response.groups[0].topics
    }
