"""Groups of any type as Kafka's brokers describe them, and why a consumer group is not Stable. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from muster.coordinator.history.words import ranges
from muster.coordinator.http.described_tasks import MAX_NAMED, lacking, tasks
from muster.protocol.api import ApiKey
from muster.protocol.consumer import decode_assignment
from muster.protocol.message import MalformedMessage
from muster.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from muster.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from muster.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

PROTOCOLS: Final = {0: "classic", 1: "consumer"}
CLASSIC: Final = "classic"
SHARE: Final = "share"
STREAMS: Final = "streams"
NOT_READY: Final = "NotReady"
"""Kafka's state of a Streams group whose topics are missing, or do not fit together."""
EPOCH_OF_LEFT_STATIC_MEMBER: Final = -2


class Member(NamedTuple):
    """A member of a group; a row of the output."""

    member: str
    instance: str | None
    client_id: str
    host: str
    assignment: dict[str, list[int]] | None
    """The member's partitions, also those that it is giving up. None: the assignment is not a list of partitions."""
    protocol: str | None = None
    """In a consumer group "consumer", or "classic" for a user of JoinGroup. None: an old server reports neither."""
    epoch: int | None = None
    """The member epoch in a consumer group. -2: a static member has left and will return."""
    target: dict[str, list[int]] | None = None
    subscribed: list[str] | None = None
    pattern: str | None = None
    reads: dict[str, list[int]] | None = None
    """In a Streams group, the partitions that the active tasks read. `assignment` has the active tasks themselves."""
    standby: dict[str, list[int]] | None = None
    warmup: dict[str, list[int]] | None = None
    lacks: list[dict[str, Any]] | None = None
    """The tasks of a Streams member that lack state, as it reported: task, role, behind (how many records)."""

    @property
    def partitions(self) -> dict[str, list[int]]:
        """The partitions that the member reads, as far as they are known."""
        return self.assignment or {} if self.reads is None else self.reads


class Subtopology(NamedTuple):
    """A part of an application of Kafka Streams, and the topics that it needs."""

    subtopology: str
    reads: list[str]
    """Source topics of the application, and repartition topics that another subtopology writes."""
    changelogs: list[str]


class Description(NamedTuple):
    """A described group. Only groups of the types consumer, share and streams have epochs."""

    group: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    epoch: int | None
    assignment_epoch: int | None
    members: list[Member]
    subtopologies: list[Subtopology] | None = None
    """None: the group is not of Kafka Streams, or its topology is not known."""


def classic_group(row: Any) -> Description:
    """The group of a row of DescribeGroups."""
    members = [
        Member(one.member_id, one.group_instance_id, one.client_id, one.client_host,
               _assignment(row.protocol_type, one.member_assignment))
        for one in row.members
    ]  # fmt: skip
    return Description(
        row.group_id, CLASSIC, row.group_state, row.protocol_type, row.protocol_data, None, None, members
    )


def newer_group(group_type: str, row: Any) -> Description:
    """The group of a row of the request that `NEWER` has for the type."""
    members = [NEWER[group_type][2](one) for one in row.members]
    subtopologies = _subtopologies(row.topology) if group_type == STREAMS else None
    if subtopologies is not None:
        members = [one._replace(reads=_reads(one, subtopologies)) for one in members]
    return Description(row.group_id, group_type, row.group_state, group_type, row.assignor_name or "", row.group_epoch,
                       row.assignment_epoch, members, subtopologies)  # fmt: skip


def _reads(member: Member, subtopologies: Iterable[Subtopology]) -> dict[str, list[int]]:
    tasks = member.assignment or {}
    return {topic: tasks[one.subtopology] for one in subtopologies if one.subtopology in tasks for topic in one.reads}


def _subtopologies(topology: Any) -> list[Subtopology] | None:
    if topology is None or topology.subtopologies is None:
        return None
    return [
        Subtopology(
            one.subtopology_id,
            sorted({*one.source_topics, *(topic.name for topic in one.repartition_source_topics)}),
            sorted(topic.name for topic in one.state_changelog_topics),
        )
        for one in topology.subtopologies
    ]


def _assignment(protocol_type: str, data: bytes) -> dict[str, list[int]] | None:
    if protocol_type != "consumer" or not data:
        return None if data else {}
    try:
        return {one.topic: list(one.partitions) for one in decode_assignment(data)[1].assigned_partitions}
    except MalformedMessage:
        return None


def _consumer_member(one: Any) -> Member:
    return Member(one.member_id, one.instance_id, one.client_id, one.client_host, _by_topic(one.assignment),
                  PROTOCOLS.get(one.member_type), one.member_epoch, _by_topic(one.target_assignment),
                  list(one.subscribed_topic_names), one.subscribed_topic_regex)  # fmt: skip


def _share_member(one: Any) -> Member:
    return Member(one.member_id, None, one.client_id, one.client_host, _by_topic(one.assignment), SHARE,
                  one.member_epoch, None, list(one.subscribed_topic_names))  # fmt: skip


def _streams_member(one: Any) -> Member:
    """A member of a Streams group, which has tasks (SUBTOPOLOGY:PARTITION) in place of partitions."""
    has, target = one.assignment, one.target_assignment
    return Member(one.member_id, one.instance_id, one.client_id, one.client_host, tasks(has.active_tasks),
                  "classic" if one.is_classic else STREAMS, one.member_epoch, tasks(target.active_tasks),
                  standby=tasks(has.standby_tasks), warmup=tasks(has.warmup_tasks), lacks=lacking(one))  # fmt: skip


def _by_topic(assignment: Any) -> dict[str, list[int]]:
    rows = () if assignment is None else assignment.topic_partitions
    return {one.topic_name: sorted(one.partitions) for one in rows}


NEWER: Final[Mapping[str, tuple[int, Callable[[list[str]], Any], Callable[[Any], Member]]]] = {
    "consumer": (ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest, _consumer_member),
    SHARE: (ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest, _share_member),
    STREAMS: (ApiKey.STREAMS_GROUP_DESCRIBE, StreamsGroupDescribeRequest, _streams_member),
}
"""The types of groups with an own API: its key, its request, and the function that reads a member."""


def pending_revocations(found: Description) -> list[str]:
    """Sentences that say why a consumer group is not Stable: which member waits for which other member."""
    if found.epoch is None or found.assignment_epoch is None:
        return []
    lines = []
    if found.assignment_epoch < found.epoch and found.state != NOT_READY:
        heartbeat = f"{found.type.capitalize()}GroupHeartbeat"
        when = f"the next {heartbeat} starts that, or one a second later"
        lines.append(f"the target assignment of epoch {found.epoch} is not computed yet: {when}")
    members = sorted(found.members, key=lambda one: one.member)
    holders = {
        (topic, number): one
        for one in members
        for topic, numbers in (one.assignment or {}).items()
        for number in numbers
    }
    # brokers do not say which tasks a Streams member is to give up before it gets the new epoch
    late = [one.member for one in members if found.type == STREAMS and 0 <= (one.epoch or 0) < found.assignment_epoch]
    for one in members:
        if one.epoch == EPOCH_OF_LEFT_STATIC_MEMBER:
            kept = partition_words(one.assignment) or "nothing"
            lines.append(f"{one.member} says that it will be back: it keeps {kept} until its session is over")
        waits: dict[str, dict[str, list[int]]] = {}
        for topic, numbers in (one.target or {}).items():
            for number in numbers:
                holder = holders.get((topic, number))
                if holder is not one:
                    name = "" if holder is None else holder.member
                    waits.setdefault(name, {}).setdefault(topic, []).append(number)
        for name, partitions in sorted(waits.items()):
            what = partition_words(partitions)
            if not name and late and late != [one.member]:
                lines.append(f"{one.member} waits for {what}: {_one_of(late, one.member)} may still have it")
            elif not name:
                lines.append(f"{one.member} gets {what} with its next heartbeat")
            elif next(holder.epoch for holder in members if holder.member == name) == EPOCH_OF_LEFT_STATIC_MEMBER:
                lines.append(f"{one.member} waits for {what} of {name}, which is away")
            else:
                lines.append(f"{one.member} waits for {what} of {name}, which is to give it up")
    return lines


def _one_of(names: list[str], but: str) -> str:
    named = [name for name in names[: MAX_NAMED + 1] if name != but][:MAX_NAMED]
    return " or ".join([*named, "another member"] if len(names) > MAX_NAMED + 1 else named)


def partition_words(assignment: dict[str, list[int]] | None) -> str:
    """Partitions by topic in short form."""
    if assignment is None:
        return "(not partitions)"
    return " ".join(f"{topic}:{ranges(assignment[topic])}" for topic in sorted(assignment))
