"""The present state of the groups of a running server, read from the active shards. This module changes nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from muster.coordinator.groups.classic.group import CONSUMER, PREPARING, STABLE, ClassicGroup
from muster.coordinator.groups.classic.member import Member
from muster.coordinator.groups.common.committed_offsets import position_of
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.consumer.group import topics_of
from muster.coordinator.groups.consumer.target import preferred_assignor
from muster.coordinator.groups.share.group import SHARE, ShareGroup
from muster.coordinator.groups.share.member import ShareMember
from muster.coordinator.groups.share.target import ASSIGNOR
from muster.coordinator.groups.streams.group import STREAMS, StreamsGroup
from muster.coordinator.groups.streams.target import ASSIGNOR as STREAMS_ASSIGNOR
from muster.coordinator.history.event_writer import record_key
from muster.coordinator.log import batches
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.server import share_snapshots, streams_snapshots
from muster.coordinator.server.group_views import DEAD, GroupView, MemberView, Offsets, Owned, no_group
from muster.coordinator.server.server import Server
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC
from muster.coordinator.topics.partition import Partition
from muster.protocol.consumer import decode_assignment, subscribed_topics
from muster.protocol.message import MalformedMessage

READ_BYTES: Final = 64 * 1024
"""How many bytes of a log are read in one step."""
Ends = Mapping[str, Mapping[int, tuple[int, int]]]


def shard_of(server: Server, group_id: str) -> tuple[int, GroupShard] | None:
    """The node that coordinates the group, and its shard; None if no node coordinates it now."""
    for node in server.nodes:
        if node.routing.ready:
            shard = node.routing.shard(group_id)
            if shard.active:
                return node.node_id, shard
    return None


def group_ids(server: Server) -> list[str]:
    """The ids of all groups, also of those that only have offsets; ascending."""
    found: set[str] = set()
    for node in server.nodes:
        for shard in node.routing.shards:
            core = shard.runtime.core
            if core is not None:
                found.update(core.state.groups)
    return sorted(found)


class GroupNow:
    """A group as it is at each question. A group that ends meanwhile has no members and no offsets any more."""

    __slots__ = ("_elsewhere", "_server", "_shard", "group_id", "node_id")

    def __init__(
        self, server: Server, node_id: int, shard: GroupShard, group_id: str, elsewhere: Ends = MappingProxyType({})
    ) -> None:
        """`elsewhere`: start and end of logs that other processes lead."""
        self._server = server
        self._elsewhere = elsewhere
        self._shard = shard
        self.node_id = node_id
        """The node that coordinates the group."""
        self.group_id = group_id

    @classmethod
    def of(cls, server: Server, group_id: str, elsewhere: Ends = MappingProxyType({})) -> GroupNow | None:
        """The group; None when it does not exist, or no node coordinates it now."""
        found = shard_of(server, group_id)
        now = None if found is None else cls(server, *found, group_id, elsewhere)
        return now if now is not None and now._group is not None else None

    @property
    def _core(self) -> Any:
        return self._shard.runtime.core

    @property
    def _group(self) -> Any:
        core = self._core
        return None if core is None else core.state.groups.get(self.group_id)

    @property
    def group(self) -> Any:
        """The group itself; None when it has ended."""
        return self._group

    @property
    def kind(self) -> str:
        """The type of the group."""
        return getattr(self._group, "kind", "")

    @property
    def state(self) -> str:
        """The state of the group, in Kafka's word."""
        return getattr(self._group, "state", "") if self._group is not None else DEAD

    @property
    def generation(self) -> int:
        """The generation, or the group epoch of a group of another type; -1: neither is known."""
        group = self._group
        if isinstance(group, ClassicGroup):
            return group.generation
        return group.epoch if group is not None and group.kind in (CONSUMER, SHARE, STREAMS) else -1

    @property
    def protocol(self) -> str | None:
        """The assignor, if it is known."""
        group = self._group
        if isinstance(group, ClassicGroup):
            return group.protocol_name if group.state == STABLE else None
        if isinstance(group, ShareGroup):
            return ASSIGNOR.name
        if isinstance(group, StreamsGroup):
            return STREAMS_ASSIGNOR.name
        return preferred_assignor(group, self._core.state.settings) if getattr(group, "kind", "") == CONSUMER else None

    @property
    def member_ids(self) -> Collection[str]:
        """The ids of the members."""
        return getattr(self._group, "members", {})

    def member(self, member_id: str) -> MemberView | None:
        """A member; None when it has left."""
        group, core = self._group, self._core
        found: Any = None if group is None else getattr(group, "members", {}).get(member_id)
        if found is None:
            return None
        if isinstance(group, ClassicGroup):
            return _classic(group, found)
        if isinstance(group, ShareGroup):
            return _share(group, found, core.state.image, core.state.configs.of_share(self.group_id).session_timeout_ms)
        configs = core.state.configs
        if isinstance(group, StreamsGroup):
            session_timeout_ms = configs.of_streams(self.group_id).session_timeout_ms
            return streams_snapshots.member_view(group, found, core.state.image, session_timeout_ms)
        return _consumer(group, found, core.state.image, configs.of(self.group_id).session_timeout_ms)

    def silent_ms(self, member_id: str, mono_ms: int) -> int | None:
        """The time since the last request of a member; None: it is not known."""
        view, group = self.member(member_id), self._group
        found: Any = None if group is None else group.members.get(member_id)
        due_ms = getattr(found, "due_ms", NEVER)
        if view is None or due_ms == NEVER:
            return None
        return min(max(view.session_timeout_ms - (due_ms - mono_ms), 0), view.session_timeout_ms)

    def committed(self) -> Iterator[tuple[str, int]]:
        """The partitions with committed offsets, or with the start offsets of a share group."""
        group = self._group
        if isinstance(group, ShareGroup):
            for topic, records in share_snapshots.topics_of(self._server, group):
                yield from ((topic, index) for index, its in records if its.start_offset >= 0)
            return
        for topic, rows in [*self._shard.committed(self.group_id).items()]:
            for partition in [*rows]:
                yield topic, partition

    def offset(self, topic: str, partition: int) -> dict[str, Any]:
        """The committed offset of a partition, the end of its log, and the lag; each may be None. In a share group, the
        offset is the start offset. Its lag counts records that are neither accepted nor archived.
        """
        if isinstance(self._group, ShareGroup):
            its = share_snapshots.records_at(self._server, self.group_id, topic, partition)
            found = (None, None, None) if its is None else (its.start_offset, its.end_offset, its.lag)
            return dict(
                zip(("topic", "partition", "offset", "end_offset", "lag"), (topic, partition, *found), strict=True)
            )
        packed = {} if self._core is None else self._core.state.offsets.topics(self.group_id).get(topic, {})
        offset = position_of(packed[partition])[0] if partition in packed else None
        here = self._server.topics.open.partition(topic, partition)
        there = self._elsewhere.get(topic, {}).get(partition, (None, None))[1]
        end = there if here is None else here.log.durable_offset
        lag = None if end is None or offset is None else max(end - offset, 0)
        return {"topic": topic, "partition": partition, "offset": offset, "end_offset": end, "lag": lag}


def describe(server: Server, group_id: str) -> GroupView:
    """The group as it is now."""
    now = GroupNow.of(server, group_id)
    if now is None:
        return no_group(group_id)
    members = tuple(view for one in now.member_ids if (view := now.member(one)) is not None)
    offsets: dict[str, dict[int, int]] = {}
    for topic, partition in now.committed():
        offsets.setdefault(topic, {})[partition] = now.offset(topic, partition)["offset"]
    offsets = {topic: dict(sorted(rows.items())) for topic, rows in offsets.items()}
    records = share_snapshots.records_of(server, now.group)
    if records:
        offsets = {topic: {one: its.start_offset for one, its in rows.items()} for topic, rows in records.items()}
    ends, starts = _ends(server, offsets, members)
    return GroupView(
        group_id,
        now.kind,
        now.state,
        now.generation,
        now.protocol,
        members,
        offsets,
        ends,
        starts,
        now.node_id,
        records,
    )


def partitions_of(server: Server, names: Iterable[str]) -> Iterator[Partition]:
    """The existing partitions of these topics."""
    for name in names:
        topic = server.topics.by_name.get(name)
        for partition in () if topic is None else topic.partitions:
            if partition is not None:
                yield partition


def _classic(group: ClassicGroup, member: Member) -> MemberView:
    name = group.protocol_name
    owned: Owned = {}
    subscribed: tuple[str, ...] = ()
    if group.protocol_type == CONSUMER:
        owned = read_assignment(member.assignment)
        subscribed = read_subscription(member.metadata(name) or member.protocols[0][1] if member.protocols else b"")
    doing, is_settled = _doing(group, member)
    return MemberView(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        "classic",
        group.generation,
        doing,
        owned,
        owned,
        {},
        subscribed,
        member.session_timeout_ms,
        group.leader_id == member.member_id,
        is_settled,
    )


def _doing(group: ClassicGroup, member: Member) -> tuple[str, bool]:
    if group.state == PREPARING:
        if member.parked_join is not None:
            return "has joined, and waits for the others", True
        return "is to join again", False
    if member.member_id in group.pending_sync:
        return "is to sync", False
    if member.parked_sync is not None:
        return "waits for the leader's assignment", False
    return "has its assignment", True


def read_assignment(data: bytes) -> Owned:
    """The partitions of a consumer's assignment; empty when it cannot be read."""
    if not data:
        return {}
    try:
        rows = decode_assignment(data)[1].assigned_partitions
    except MalformedMessage:
        return {}
    return {one.topic: tuple(sorted(one.partitions)) for one in sorted(rows, key=lambda row: row.topic)}


def read_subscription(data: bytes) -> tuple[str, ...]:
    """The topics that a consumer subscribes to by name, ascending; empty when `data` cannot be read."""
    try:
        return tuple(sorted(subscribed_topics(data))) if data else ()
    except MalformedMessage:
        return ()


_WORDS: Final[Mapping[int, str]] = {
    0: "has come to its target",
    1: "is to give partitions up",
    2: "waits for partitions that others have",
}


def _consumer(group: Any, member: Any, image: TopicsImage, session_timeout_ms: int) -> MemberView:
    said, at = member.description, member.position
    is_settled = member.is_reconciled_to(group.assignment_epoch) and group.epoch == group.assignment_epoch
    doing = _WORDS.get(at.state, "is to come again")
    if not is_settled and at.state == 0:
        doing = f"has not come to epoch {group.epoch} yet"
    classic = said.classic
    return MemberView(
        member.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        "consumer" if classic is None else "classic",
        at.epoch,
        doing,
        _named(((row[0], row[1]) for row in at.assigned), image),
        _named(group.targets.get(member.member_id, ()), image),
        _named(((row[0], row[1]) for row in at.revoking), image),
        tuple(sorted(topics_of(said, group.resolved))),
        session_timeout_ms if classic is None else classic.session_timeout_ms,
        False,
        is_settled,
    )


def _share(group: ShareGroup, member: ShareMember, image: TopicsImage, session_timeout_ms: int) -> MemberView:
    said, at = member.description, member.position
    is_settled = at.epoch == group.assignment_epoch == group.epoch
    owned = _named(at.assigned, image)
    return MemberView(
        member.member_id,
        None,
        said.client_id,
        said.client_host,
        SHARE,
        at.epoch,
        "has come to its target" if is_settled else f"has not come to epoch {group.epoch} yet",
        owned,
        _named(group.targets.get(member.member_id, ()), image),
        {},
        said.topics,
        session_timeout_ms,
        False,
        is_settled,
    )


def _named(rows: Iterable[tuple[bytes, tuple[int, ...]]], image: TopicsImage) -> Owned:
    names = {image.by_id[topic_id].name: partitions for topic_id, partitions in rows if topic_id in image.by_id}
    return dict(sorted(names.items()))


def _ends(server: Server, offsets: Offsets, members: Iterable[MemberView]) -> tuple[Offsets, Offsets]:
    names = set(offsets)
    for member in members:
        names.update(member.assignment, member.target, member.subscribed)
    ends: dict[str, dict[int, int]] = {}
    starts: dict[str, dict[int, int]] = {}
    for partition in partitions_of(server, sorted(names)):
        ends.setdefault(partition.topic, {})[partition.index] = partition.log.durable_offset
        starts.setdefault(partition.topic, {})[partition.index] = partition.log.start_offset
    return ends, starts


def events(server: Server, group_id: str) -> Iterator[list[dict[str, Any]]]:
    """The events of the group, in the order of `__group_events` (docs/events.md). Each step has some of the events, so
    that a long history does not block the event loop. Yields nothing if the topic does not exist
    (`muster.group.events.enable=false`).
    """
    partition = history_of(server, group_id)
    if partition is None:
        return
    log, key = partition.log, record_key(group_id)
    offset, end = log.start_offset, log.durable_offset
    while offset < end:
        data = partition.read(offset, READ_BYTES, True, end)
        before, found = offset, []
        for _, records in batches.read(data):
            for record in records:
                offset = max(offset, record.offset + 1)
                if record.key == key:
                    found.append(json.loads(record.value or b"{}"))
        if offset == before:
            return
        yield found


def history_of(server: Server, group_id: str) -> Partition | None:
    """The partition of `__group_events` with the group's history; None if that topic does not exist."""
    if not server.routing.ready:
        return None
    return server.topics.open.partition(GROUP_EVENTS_TOPIC, server.routing.partition(group_id))
