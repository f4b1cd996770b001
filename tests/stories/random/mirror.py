"""A mirror: a core that gets the same requests as a server at the same times. Its answers are what the server must
answer.

The core runs in virtual time that an outer clock sets: before each request it advances by the time that has passed, so
that sessions and rebalances end in the mirror when they end on the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from muster.conform.player.story import Body, Drop, Reply, Send, Story
from muster.coordinator.groups.classic.group import ClassicGroup, classic_group
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.topics import AGAIN_MS
from muster.coordinator.state_machine.output import Output
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey
from tests.stories.random.ways import OwnWays
from tests.stories.virtual import START, VirtualDriver

OWN_ID = re.compile("00000000-0000-0000-0000-[0-9a-f]{12}$")
"""A random id of the mirror itself."""


class Mirror(VirtualDriver):
    """One core beside one server. `ways`: those of the server; its replies are in `replies`."""

    def __init__(self, story: Story, ways: OwnWays, topics: TopicsImage | None = None) -> None:
        super().__init__(story, topics)
        self.ways = ways
        ways.attach(self.core)
        self.rang_ms = -(10**9)
        """When the last deadline was due."""

    def due_ms(self) -> int | None:
        """When the next deadline may be due, in ms since the history began."""
        due = self.core.next_deadline_ms()
        return None if due is None else due - START.mono_ms

    def boundaries_ms(self) -> Iterator[int]:
        """The times of deadlines that take effect only with the next request, past or future."""
        settings, offset_ms = self.core.state.settings, START.wall_ms
        for group in self.core.state.groups.values():
            if not isinstance(group, ConsumerGroup):
                continue
            if group.assignment_epoch < group.epoch and group.assignment_ms:
                yield group.assignment_ms + settings.group_consumer_assignment_interval_ms - offset_ms
            for resolved in group.resolved.values():
                yield resolved.timestamp_ms + AGAIN_MS - offset_ms

    def live_until(self, ms: int) -> None:
        """Advance to `ms` since the history began."""
        with self.ways.in_force():
            while (due := self.due_ms()) is not None and due <= ms:
                self.move_to(START.mono_ms + due)
                self.take(self.core.advance(self.now))
                self.rang_ms = due
        self.move_to(START.mono_ms + ms)

    def ask(self, send: Send) -> None:
        """Handle a request now."""
        with self.ways.in_force():
            self.ways.asked()
            self.send(send)

    def described(self, api: str, version: int, body: Body) -> Body:
        """The answer to a request that changes nothing; no other client sees the request."""
        before, self.replies = self.replies, []
        with self.ways.in_force():
            self.send(Send("", api, version, None, body, None))
        (reply,), self.replies = self.replies, before
        return reply.body

    def drop(self, actor: str) -> None:
        """The actor gets no more answers to its requests."""
        self.act(Drop(actor))

    def take(self, output: Output) -> None:
        super().take(output)
        for record in output.records:
            if isinstance(record.key, GroupMetadataKey | OffsetCommitKey):
                self.ways.recorded(record.key.group)

    def taken(self) -> list[Reply]:
        """The replies since the last call."""
        replies, self.replies = self.replies, []
        return replies

    # ---- ids

    def adopt(self, group_id: str, instance_id: str, theirs: str, replies: list[Reply]) -> None:
        """The server has given a static member this id, long after its request: the mirror takes it, if it drew one
        itself.
        """
        group = classic_group(self.core.state, group_id)
        mine = None if group is None else group.static_ids.get(instance_id)
        if group is None or mine is None or not OWN_ID.search(mine):
            return
        group.rename(instance_id, theirs)
        for reply in replies:
            reply.body = renamed(reply.body, mine, theirs)

    # ---- who leads, if several members may

    def follow(self, group_id: str, leader_id: str, replies: list[Reply]) -> None:
        """The server chose another leader, as it may: so does the mirror, in those of its replies that name the
        leader.
        """
        group = classic_group(self.core.state, group_id)
        if group is None:
            return
        group.leader_id = leader_id
        for reply in replies:
            body = reply.body
            if (
                tells_leader(reply)
                and reply.request["GroupId"] == group_id
                and body["GenerationId"] == group.generation
            ):
                body["Leader"] = leader_id
                body["Members"] = self._members(group, reply.version) if body["MemberId"] == leader_id else []

    def _members(self, group: ClassicGroup, version: int) -> list[Body]:
        shows_instances = version >= 5  # KIP-345
        return [
            {
                "MemberId": one.member_id,
                "GroupInstanceId": one.instance_id if shows_instances else None,
                "Metadata": one.metadata(group.protocol_name),
            }
            for one in group.members.values()
        ]


def renamed(value: Any, mine: str, theirs: str) -> Any:
    """A body with one id replaced by another."""
    if isinstance(value, dict):
        return {key: renamed(one, mine, theirs) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, mine, theirs) for one in value]
    return theirs if value == mine else value


def tells_leader(reply: Reply) -> bool:
    """Whether the reply names the leader of a generation."""
    return reply.api == "JoinGroup" and reply.body["ErrorCode"] == 0
