"""A core for tests: short requests, and every reply by the token of its request."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from muster.coordinator.groups.classic.group import ClassicGroup, classic_group
from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.common.committed_offsets import position_of
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Client, Command, Now, Record
from muster.coordinator.state_machine.output import Output
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TOPICS = TopicsImage({"t": TopicImage("t", b"T" * 16, 8), "u": TopicImage("u", b"U" * 16, 2)}, 1)
START = Now(10_000, 1_700_000_000_000)
RANGE = (("range", b"r"),)
BOTH = (("range", b"r"), ("roundrobin", b"rr"))


class GroupHarness:
    """One core, its time, and its outputs. Requests return the reply, or None while they are parked."""

    def __init__(self, **settings: int) -> None:
        self.max_bytes = 1_000_000
        settings.setdefault("group_initial_rebalance_delay_ms", 0)
        settings.setdefault("group_min_session_timeout_ms", 0)
        self.settings = GroupSettings(**settings)
        self.core = GroupCore(self.settings, TOPICS)
        self.now = START
        self.asked = 0
        self.replies: dict[object, list[Message]] = {}
        self.records: list[Record] = []
        self.events: list[Event] = []
        self.collect(self.core.loaded(self.now))

    def collect(self, output: Output) -> Output:
        for token, response in output.replies:
            self.replies.setdefault(token, []).append(response)
        self.records.extend(output.records)
        self.events.extend(output.events)
        return output

    def send(self, request: Message, client: str = "c") -> Any:
        """Send any request except JoinGroup."""
        self.asked += 1
        command = Command(request, self.asked, Client(client, "/10.0.0.1"))
        self.collect(self.core.handle(command, self.now, self.max_bytes))
        self.settle()
        return self.reply(self.asked)

    def reply(self, token: object) -> Any:
        """The only reply to that request; None while there is none."""
        got = self.replies.get(token, [])
        assert len(got) <= 1, f"answered {len(got)} times"
        return got[0] if got else None

    def settle(self) -> None:
        """Handle all deadlines that are due now."""
        self.advance(0)

    def advance(self, ms: int) -> None:
        """Let time pass, from deadline to deadline."""
        end = self.now.mono_ms + ms
        while (due := self.core.next_deadline_ms()) is not None and due <= end:
            self._move(max(due, self.now.mono_ms))
            self.collect(self.core.advance(self.now))
        self._move(end)

    def _move(self, mono_ms: int) -> None:
        self.now = Now(mono_ms, self.now.wall_ms + mono_ms - self.now.mono_ms)

    def group(self, group_id: str = "g") -> ClassicGroup:
        group = classic_group(self.core.state, group_id)
        assert group is not None
        return group

    def only_retention_is_due(self) -> bool:
        """Whether no deadline of a group or a member is set."""
        return self.core.next_deadline_ms() == START.mono_ms + self.settings.offsets_retention_check_interval_ms

    def kinds(self) -> list[str]:
        """The kinds of the events so far."""
        return [event.kind for event in self.events]

    # ---- requests

    def join(
        self,
        member: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        session: int = 10_000,
        rebalance: int = 20_000,
        kind: str = "consumer",
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        needs_id: bool = False,
        skip: bool = True,
        client: str = "c",
        settle: bool = True,
        reason: str | None = None,
    ) -> Any:
        self.asked += 1
        request = JoinGroupRequest(
            group,
            session,
            rebalance,
            member,
            instance,
            kind,
            [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
            reason,
        )
        command = JoinCommand(request, self.asked, Client(client, "/10.0.0.1"), f"uuid{self.asked}", needs_id, skip)
        self.collect(self.core.handle(command, self.now, self.max_bytes))
        if settle:
            self.settle()
        return self.reply(self.asked)

    def sync(
        self,
        member: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        kind: str | None = "consumer",
        protocol: str | None = "range",
        group: str = "g",
    ) -> Any:
        if generation is None:
            generation = self.group(group).generation
        rows = [SyncGroupRequestAssignment(one, share) for one, share in (assignments or {}).items()]
        return self.send(SyncGroupRequest(group, generation, member, instance, kind, protocol, rows))

    def beat(self, member: str, generation: int | None = None, instance: str | None = None, group: str = "g") -> int:
        if generation is None:
            generation = self.group(group).generation
        error: int = self.send(HeartbeatRequest(group, generation, member, instance)).error_code
        return error

    def leave(self, *members: str, group: str = "g", instance: str | None = None) -> Any:
        return self.send(LeaveGroupRequest(group, "", [MemberIdentity(one, instance, "bye") for one in members]))

    def commit(
        self,
        member: str = "",
        generation: int = -1,
        *,
        group: str = "g",
        offset: int = 5,
        partition: int = 0,
        topic: str = "t",
        metadata: str | None = "",
        instance: str | None = None,
        retention: int = -1,
    ) -> int:
        row = OffsetCommitRequestPartition(partition, offset, 3, metadata)
        request = OffsetCommitRequest(
            group, generation, member, instance, retention, [OffsetCommitRequestTopic(topic, bytes(16), [row])]
        )
        error: int = self.send(request).topics[0].partitions[0].error_code
        return error

    def fetch(self, topic: str = "t", partition: int = 0, group: str = "g") -> Any:
        """The answer's row for one partition."""
        topics = [OffsetFetchRequestTopics(topic, bytes(16), [partition])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, None, -1, topics)])
        return self.send(request).groups[0].topics[0].partitions[0]

    # ---- groups in a given state

    def stable(
        self, *, static: bool = False, count: int = 2, protocols: Sequence[tuple[str, bytes]] = RANGE
    ) -> list[str]:
        """A Stable group of `count` members, the leader first; member n has the assignment b"n"."""
        ids = self.completing(static=static, count=count, protocols=protocols)
        for member in [ids[0], *ids[1:]]:
            self.sync(member, {one: str(i).encode() for i, one in enumerate(ids)})
        assert self.group().state == "Stable"
        return ids

    def completing(
        self, *, static: bool = False, count: int = 2, protocols: Sequence[tuple[str, bytes]] = RANGE
    ) -> list[str]:
        """A group whose join phase has just ended, the leader first."""
        ids = self.preparing(static=static, count=count, protocols=protocols)
        if self.group().state == "PreparingRebalance":
            self.join(ids[0], protocols=protocols)
        assert self.group().state == "CompletingRebalance"
        return ids

    def preparing(
        self, *, static: bool = False, count: int = 2, protocols: Sequence[tuple[str, bytes]] = RANGE
    ) -> list[str]:
        """A group that waits for its leader to join again (of one member: a generation of it)."""
        for i in range(count):
            self.join(instance=f"i{i}" if static else None, protocols=protocols)
        return list(self.group().members)


class EpochGroupHarness(GroupHarness):
    """A core that has groups with epochs. Records are shown as texts."""

    @abstractmethod
    def shown(self, record: Record) -> str:
        """A record in short: its type, whose it is, and its value."""

    def written(self) -> list[str]:
        """The records since the last call, as texts."""
        made, self.records[:] = [self.shown(one) for one in self.records], []
        return made

    def kinds(self) -> list[str]:
        """The kinds of the events since the last call."""
        made, self.events[:] = [one.kind for one in self.events], []
        return made

    def replayed(self, records: Sequence[Record]) -> GroupCore:
        """Another core that is made of records."""
        core = GroupCore(self.settings, self.core.state.image)
        core.replay([(one.key, one.value) for one in records], START)
        return core


def pending_of(core: GroupCore, producer_id: int) -> dict[str, dict[tuple[str, int], int]]:
    """The offsets that the open transaction of a producer would commit now, by group and partition."""
    pending = core.state.offsets.pending
    found: dict[str, dict[tuple[str, int], int]] = {}
    for transaction in pending.transactions():
        if transaction.producer_id == producer_id:
            for (group_id, place), (number, packed) in transaction.offsets.items():
                if number > pending._replaced.get((group_id, place), 0):
                    found.setdefault(group_id, {})[place] = position_of(packed)[0]
    return found
